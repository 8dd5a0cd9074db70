"""How the rows of a query come into a table with a primary key, and which tables take updates."""

from __future__ import annotations

import inspect
from dataclasses import replace
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import RowError
from penstock.sql.plan.hidden import KIND, OFFSET, PARTITION, PLACE
from penstock.sql.plan.nodes import Changelog
from penstock.sql.run._changing import written_as
from penstock.sql.run._net import NetChanges, OldRowsFirst
from penstock.sql.run._opened import opened, source_of
from penstock.sql.run._queries import _rows_of as rows_of
from penstock.sql.run._record_order import InRecordOrder, OfOnePlace
from penstock.sql.run._rows import RowTraits
from penstock.sql.run._sinks import check_conflict, check_updates, cut_columns, fitted, of_columns
from penstock.sql.run.catalog import Table
from tests.unit.sql.declared import FILES, JDBC, KAFKA, SERVERS, TOPIC, UPSERT, with_options
from tests.unit.sql.planning import BATCH, How, catalog_of, planned, refused

NODE = "GroupAggregate"


def table_of(options: str, columns: str = "id INT, v INT") -> Table:
    return with_options(options, f"{columns}, PRIMARY KEY (id) NOT ENFORCED")


KEYED = RowTraits(NODE, frozenset({"id"}))


@pytest.mark.parametrize(
    ("options", "changes", "is_refused"),
    [
        (KAFKA, Changelog.APPEND, True),
        (FILES, Changelog.APPEND, True),
        ("'connector' = 'print'", Changelog.APPEND, False),
        (KAFKA.replace("json", "canal-json"), Changelog.RETRACT, False),
        (UPSERT, Changelog.UPSERT, False),
    ],
)
def test_a_table_that_only_takes_new_rows_refuses_updates(
    options: str, changes: Changelog, is_refused: bool
) -> None:
    table = table_of(options)
    assert written_as(table) is changes
    check_updates(table, RowTraits(), changes)
    if not is_refused:
        check_updates(table, KEYED, changes)
        return
    message = (
        "Table sink 'x' doesn't support consuming update changes which is produced by node GroupAggregate"
    )
    with pytest.raises(ValueError, match=message):
        check_updates(table, KEYED, changes)
    with pytest.raises(ValueError, match=r"by node WindowAggregate\. Its windows are over rows that"):
        check_updates(table, replace(KEYED, changes="WindowAggregate"), changes)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (RowTraits(NODE), "no columns are known by which they differ"),
        (RowTraits(NODE, frozenset({"id", "v"}), is_grouped_in_order=True), r"they differ by \(id, v\)"),
        (RowTraits(), "would come in any order"),
    ],
)
def test_rows_of_one_key_in_no_order_are_refused(rows: RowTraits, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(MagicMock(isStreaming=True), rows, table_of(UPSERT))


def test_a_table_of_a_database_takes_changes_by_its_primary_key() -> None:
    keyed, frame = table_of(JDBC), MagicMock(isStreaming=True)
    assert written_as(keyed) is Changelog.UPSERT
    check_updates(keyed, KEYED, Changelog.UPSERT)
    fitted(frame, replace(KEYED, is_grouped_in_order=True), keyed)
    assert not frame.repartition.called
    with pytest.raises(ValueError, match=r"they differ by \(id, v\)"):
        fitted(frame, RowTraits(NODE, frozenset({"id", "v"})), keyed)
    open_table = replace(keyed, definition=replace(keyed.definition, primary_key=()))
    assert written_as(open_table) is Changelog.APPEND
    with pytest.raises(ValueError, match="or 'jdbc' with a PRIMARY KEY"):
        check_updates(open_table, KEYED, Changelog.APPEND)


def test_rows_that_are_in_order_are_written_as_they_come() -> None:
    frame = MagicMock(isStreaming=True)
    table = table_of(UPSERT)
    for rows in (
        RowTraits(NODE, frozenset({"id"}), is_grouped_in_order=True),
        RowTraits(keys=frozenset({"id"})),
    ):
        fitted(frame, rows, table)
    assert not frame.repartition.called
    fitted(frame, KEYED, table)
    assert frame.repartition.called


@pytest.mark.parametrize(
    ("rows", "function"),
    [
        (RowTraits(keys=frozenset({"id"})), None),
        (RowTraits(is_read=True), None),
        (RowTraits(keys=frozenset({"id", "v"})), NetChanges),
        (RowTraits(), NetChanges),
        (RowTraits(has_offsets=True, is_read=True), InRecordOrder),
    ],
)
def test_rows_of_one_key_of_a_database_need_an_order(rows: RowTraits, function: type | None) -> None:
    frame, table = MagicMock(isStreaming=True, columns=["id", "v"]), table_of(JDBC)
    fitted(frame, rows, table)
    together = frame.repartition.return_value.mapInArrow
    assert together.called is (function is not None)
    if function is not None:
        assert isinstance(inspect.unwrap(together.call_args.args[0]).__self__, function)


@pytest.mark.parametrize(
    ("query", "is_mixed"),
    [
        ("SELECT i, s FROM u WHERE i IN (SELECT i FROM t)", True),
        ("SELECT u.i, u.s FROM u JOIN t ON u.i = t.i", True),
        ("SELECT t.i, w.s FROM t JOIN w ON t.i = w.i AND t.ltz = w.ltz", True),
        (
            "SELECT x.i, static.s FROM (SELECT i, s FROM u UNION ALL SELECT i, s FROM t) AS x JOIN static ON x.i = static.i",
            True,
        ),
        ("SELECT u.i, static.s FROM u JOIN static ON u.i = static.i WHERE u.l > 0", False),
        ("SELECT i, e FROM u CROSS JOIN UNNEST(a) AS x (e)", False),
        (
            "SELECT i, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
            "GROUP BY window_start, window_end, i",
            False,
        ),
    ],
)
def test_rows_of_several_reads_need_a_key_or_a_last_row_also_in_a_database(
    query: str, is_mixed: bool
) -> None:
    """A row that waited for its partner comes in a later micro-batch than one whose record is newer."""
    found = planned(query)
    rows = rows_of(found.plan, found.traits)
    assert rows.is_mixed is is_mixed
    frame, table = MagicMock(isStreaming=True, columns=["id", "v"]), table_of(JDBC)
    if not is_mixed:
        fitted(frame, rows, table)
        return
    with pytest.raises(ValueError, match="would come in any order, because the query joins"):
        fitted(frame, rows, table)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (KAFKA, ("v", PARTITION, OFFSET)),
        (KAFKA.replace(TOPIC, f"{SERVERS}, 'topic' = 'a;b'"), ("v", PLACE)),
        (FILES, ("v", PLACE)),
        ("'connector' = 'datagen'", ("v",)),
    ],
)
def test_rows_are_read_with_what_orders_them(options: str, names: tuple[str, ...]) -> None:
    catalog = catalog_of(f"CREATE TABLE x (id INT, v INT) WITH ({options})")
    for each in (How(), BATCH):
        how = replace(each, catalog=catalog, wants_offsets=True)
        assert planned("SELECT v FROM x WHERE id > 0", how).plan.names == names
        joined = "SELECT v FROM x WHERE id IN (SELECT id FROM x)"
        assert PLACE not in planned(joined, how).plan.names


def test_rows_of_one_key_in_a_task_are_of_one_topic_partition_or_file() -> None:
    frame = MagicMock(isStreaming=True, columns=["id", "v", PLACE])
    fitted(frame, RowTraits(is_read=True, has_place=True), table_of(JDBC))
    assert not frame.repartition.called
    assert isinstance(inspect.unwrap(frame.mapInArrow.call_args.args[0]).__self__, OfOnePlace)
    rows = pa.table({"id": [1, 2, 1, None], PLACE: ["a/0", "a/1", "a/0", "a/0"]})
    check = OfOnePlace(("id",), "x")
    assert pa.Table.from_batches(check.run(rows.to_batches(max_chunksize=2))) == rows.combine_chunks()
    assert [*check.run([])] == []
    wrong = pa.table({"id": [1, 2, 1], PLACE: ["a/0", "a/1", "b/0"]})
    with pytest.raises(
        RowError, match=r"in two topic partitions or files: \{'id': 1\} in b/0 and in another"
    ):
        [*check.run(wrong.to_batches())]


def test_rows_of_a_batch_are_not_in_the_order_of_a_read_behind_a_query() -> None:
    for where, is_read in (("i > 1", True), ("i IN (SELECT i FROM t)", False)):
        found = planned(f"SELECT i, s FROM u WHERE {where}", BATCH)
        assert rows_of(found.plan, found.traits).is_read is is_read


CHANGES = KAFKA.replace("json", "canal-json")


@pytest.mark.parametrize(
    ("rows", "columns", "keys"),
    [
        (
            RowTraits(NODE, frozenset({"id"}), is_scattered=True),
            "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED",
            ["id"],
        ),
        (RowTraits(NODE, is_scattered=True), "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED", ["id"]),
        (
            RowTraits(NODE, frozenset({"id", "v"}), is_grouped_in_order=True, is_scattered=True),
            "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED",
            ["id"],
        ),
        (RowTraits(NODE, frozenset({"id", "v"}), is_scattered=True), "id INT, v INT", ["id", "v"]),
        (RowTraits(NODE, is_scattered=True), "id INT, v INT", None),
        (
            RowTraits(NODE, frozenset({"id"}), is_grouped_in_order=True, is_scattered=True),
            "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED",
            None,
        ),
        (RowTraits(NODE, frozenset({"id"})), "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED", None),
        (RowTraits(NODE, frozenset({"v"})), "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED", ["id"]),
        (RowTraits(NODE, frozenset({"v"})), "id INT, v INT", None),
        (RowTraits(NODE), "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED", None),
        (RowTraits(), "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED", None),
    ],
)
def test_messages_of_change_data_have_the_old_row_of_a_key_first(
    rows: RowTraits, columns: str, keys: list[str] | None
) -> None:
    """The changes of a read stay in its order."""
    frame = MagicMock(isStreaming=True, columns=["id", "v", KIND])
    fitted(frame, rows, with_options(CHANGES, columns))
    assert frame.repartition.called is (keys is not None)
    if keys is not None:
        assert [each.args[0] for each in frame.__getitem__.call_args_list] == [f"`{key}`" for key in keys]
        function = frame.repartition.return_value.mapInArrow.call_args.args[0]
        assert isinstance(inspect.unwrap(function).__self__, OldRowsFirst)


def test_old_rows_come_before_new_ones() -> None:
    changes = [
        "+I a2",
        "-D b1",
        "-U c1",
        "+U c2",
        "-U c2",
        "+U c3",
        "-D a1",
        "+I d1",
        "-D d1",
        "+I e1",
        "+I e1",
    ]
    kinds, values = zip(*(each.split() for each in changes), strict=True)
    rows = pa.table({"v": values, "list": [[each, None] for each in values], KIND: kinds})
    [found] = OldRowsFirst(KIND).run(rows.to_batches(max_chunksize=2))
    pairs = [*zip(found.column(KIND).to_pylist(), found.column("v").to_pylist(), strict=True)]
    assert pairs[:3] == [("-D", each) for each in ("b1", "c1", "a1")]
    assert pairs[3:] == [("+I", each) for each in ("a2", "c3", "e1", "e1")]
    assert [each[0] for each in found.column("list").to_pylist()] == found.column("v").to_pylist()
    assert [*OldRowsFirst(KIND).run([])] == []


@pytest.mark.parametrize(
    ("query", "is_scattered"),
    [
        ("SELECT c.i, k.s FROM c LEFT JOIN k ON c.s = k.s", True),
        ("SELECT s, COUNT(*) AS n FROM c GROUP BY s HAVING COUNT(*) > 1", True),
        ("SELECT i, s FROM c WHERE i IN (SELECT i FROM k) OR l = 1", True),
        ("SELECT i, s FROM c WHERE l > 0", False),
        ("SELECT * FROM changed", False),
        ("SELECT i, s FROM k WHERE l > 0", False),
        ("SELECT s, COUNT(*) AS n FROM c GROUP BY s UNION ALL SELECT s, l FROM c", True),
        ("SELECT c.i, x.s FROM c LEFT JOIN static FOR SYSTEM_TIME AS OF PROCTIME() AS x ON c.s = x.s", True),
        ("SELECT i, s FROM c WHERE l > 0 UNION ALL SELECT i, s FROM c WHERE l <= 0", True),
        ("SELECT i, s, CURRENT_TIMESTAMP AS at FROM c", True),
    ],
)
def test_changes_of_joins_and_operators_come_from_several_tasks(query: str, is_scattered: bool) -> None:
    found = planned(query)
    assert rows_of(found.plan, found.traits).is_scattered is is_scattered


@pytest.mark.parametrize("option", ["", "'scan.min-splits' = '2'", "'scan.max-records-per-split' = '20'"])
def test_changes_of_a_topic_partition_that_is_divided_come_from_several_tasks(option: str) -> None:
    changes = f"{KAFKA.replace('json', 'debezium-json')}{', ' * bool(option)}{option}"
    found = planned(
        "SELECT v FROM x", How(catalog=catalog_of(f"CREATE TABLE x (id INT, v INT) WITH ({changes})"))
    )
    assert rows_of(found.plan, found.traits).is_scattered is bool(option)


def test_rows_of_a_database_without_a_key_are_added() -> None:
    frame = MagicMock(isStreaming=True)
    fitted(frame, RowTraits(), with_options(JDBC))
    assert not frame.repartition.called


def test_keys_follow_the_columns_of_insert() -> None:
    rows = RowTraits(NODE, frozenset({"a"}), is_grouped_in_order=True)
    assert of_columns(rows, ["A", "n"], ["id", "v"]).keys == frozenset({"id"})
    assert of_columns(rows, ["a", "a"], ["id", "v"]).keys is None


@pytest.mark.parametrize(
    ("given", "declared", "in_ms", "is_cut"),
    [
        ("string", "STRING", False, False),
        ("int", "BIGINT", False, False),
        ("bigint", "INT", False, True),
        ("bigint", "DOUBLE", False, True),
        ("decimal(10,2)", "DECIMAL(10,1)", False, True),
        ("decimal(10,2)", "DECIMAL(10,2)", False, False),
        ("timestamp_ntz", "TIMESTAMP(6)", False, False),
        ("timestamp_ntz", "TIMESTAMP(3)", False, True),
        ("timestamp", "TIMESTAMP(3)", True, False),
        ("timestamp", "TIMESTAMP(0)", True, True),
    ],
)
def test_a_cast_that_may_make_keys_equal_is_noticed(
    given: str, declared: str, in_ms: bool, is_cut: bool
) -> None:
    table = table_of(UPSERT, f"id {declared}")
    written = "timestamp_ntz" if "TIME" in declared else declared.lower()
    rows = RowTraits(keys=frozenset({"id"}), millisecond_keys=frozenset({"id"} if in_ms else ()))
    cut = cut_columns({"id": given}, {"id": written}, rows, table, is_utc=True)
    assert cut == (frozenset({"id"}) if is_cut else frozenset())
    if is_cut:
        for known in (rows, RowTraits(NODE, rows.keys, is_grouped_in_order=True)):
            with pytest.raises(ValueError, match="INSERT may make different values of 'id' equal"):
                fitted(MagicMock(isStreaming=True), known, table, cut)


def test_a_time_of_another_zone_than_utc_is_no_key_of_local_times() -> None:
    table = table_of(UPSERT, "id TIMESTAMP(6)")
    given, written = {"id": "timestamp"}, {"id": "timestamp_ntz"}
    assert cut_columns(given, written, RowTraits(), table, is_utc=False) == {"id"}
    assert cut_columns(given, written, RowTraits(), table, is_utc=True) == set()


@pytest.mark.parametrize(
    ("option", "has_many"),
    [
        ("'topic' = 'a'", False),
        ("'topic' = 'a;b'", True),
        ("'topic-pattern' = 'a.*'", True),
        ("'topic-partitions' = 'a:0;a:1'", False),
        ("'topic-partitions' = 'a:0;b:0'", True),
    ],
)
def test_offsets_of_several_topics_are_not_compared(option: str, has_many: bool) -> None:
    inserts = f"{KAFKA.replace(TOPIC, SERVERS)}, {option}"
    for options in (inserts, inserts.replace("json", "debezium-json")):
        source = source_of(table_of(options), (), is_batch=False, drops_duplicates=False)
        assert source.has_offsets is not has_many
    upserts = f"{UPSERT.replace(TOPIC, SERVERS)}, {option}"
    script = f"CREATE TABLE x (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ({upserts})"
    message = refused("SELECT v FROM x", How(catalog=catalog_of(script)))
    assert (message is not None) is has_many
    if has_many:
        assert "offsets of different topics cannot be compared" in (message or "")
        with pytest.raises(ValueError, match="offsets of different topics cannot be compared"):
            opened(table_of(upserts), MagicMock(), streaming=False, has_offsets=False)


def test_the_offset_of_a_record_is_that_of_its_changes_unless_they_are_normalized() -> None:
    """An operator gives rows of another record again. Those of a batch are the last ones of their keys."""
    changes = f"CREATE TABLE x (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ({KAFKA})"
    how = How(catalog=catalog_of(changes.replace("json", "debezium-json")), wants_offsets=True)
    assert planned("SELECT v FROM x", how).plan.names == ("v", PARTITION, OFFSET)
    how = How(catalog=catalog_of(changes.replace(KAFKA, UPSERT)), wants_offsets=True)
    assert planned("SELECT v FROM x", how).plan.names == ("v",)


RowWithOffset = tuple[int, int | None, str, int, int]


def in_record_order(rows: list[RowWithOffset], *, has_kind: bool = True) -> list[RowWithOffset]:
    schema = pa.schema(
        {"id": pa.int64(), "v": pa.int64(), KIND: pa.string(), PARTITION: pa.int32(), OFFSET: pa.int64()}
    )
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    if not has_kind:
        table = table.drop_columns([KIND])
    found = pa.Table.from_batches(
        InRecordOrder(("id",), "x").run(table.to_batches(max_chunksize=2)), table.schema
    )
    return [tuple(row.values()) for row in found.to_pylist()]


def test_rows_of_a_key_are_in_the_order_of_their_records() -> None:
    insert, delete = (1, 5, "+I", 0, 3), (1, None, "-D", 0, 9)
    old, new = (1, 5, "-D", 0, 4), (1, 6, "+I", 0, 4)
    assert in_record_order([delete, new, old, insert]) == [insert, old, new, delete]
    assert in_record_order([]) == []
    assert in_record_order([insert, insert]) == [insert, insert]
    for rows, why in (
        ([insert, (1, 6, "+U", 1, 9)], "are in two topic partitions"),
        ([new, (1, 7, "+I", 0, 4)], "are of one record"),
    ):
        for has_kind in (True, False):
            with pytest.raises(RowError, match=f"PRIMARY KEY of the table x {why}.*{{'id': 1}}"):
                in_record_order(rows, has_kind=has_kind)  # type: ignore[arg-type]  # the tuples of above


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2)))), st.randoms())
def test_a_delete_with_its_key_only_is_a_delete(changes: list[tuple[int, int | None]], rnd: object) -> None:
    """The last row of a key in the order of records is what the changes leave, for any shuffle of them."""
    now: dict[int, int] = {}
    rows: list[RowWithOffset] = []
    for offset, (key, value) in enumerate(changes):
        if value is None:
            rows.append((key, None, "-D", key % 2, offset))
            now.pop(key, None)
            continue
        if key in now:
            rows.append((key, now[key], "-U", key % 2, offset))
        rows.append((key, value, "+U", key % 2, offset))
        now[key] = value
    rnd.shuffle(rows)  # type: ignore[attr-defined]  # a random.Random
    last = {row[0]: row for row in in_record_order(rows)}
    assert {key: row[1] for key, row in last.items() if row[2] != "-D"} == now


KINDS = ("+I", "-U", "+U", "-D")


def net(rows: list[tuple[int, int | None, str]], kind: str = "k") -> list[tuple[int, int | None, str]]:
    schema = pa.schema({"id": pa.int64(), "v": pa.int64(), "k": pa.string()})
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    if not kind:
        table = table.drop_columns(["k"])
    found = pa.Table.from_batches(
        NetChanges(("id",), kind, "x").run(table.to_batches(max_chunksize=2)), table.schema
    )
    return [tuple(row.values()) for row in found.to_pylist()]


def test_the_net_changes_of_a_batch() -> None:
    assert net([(1, 5, "+I"), (1, 6, "+U"), (1, 5, "-U"), (2, 1, "-D")]) == [(2, 1, "-D"), (1, 6, "+U")]
    assert net([(1, 5, "-D"), (1, 5, "+I")]) == []
    assert net([(1, None, "-U"), (1, 7, "+U")]) == [(1, 7, "+U")]
    assert net([]) == []
    with pytest.raises(RowError, match=r"two rows for one PRIMARY KEY of the table x: {'id': 1}"):
        net([(1, 5, "+I"), (1, 6, "+I")])
    with pytest.raises(RowError, match="two rows"):
        net([(1, 5, "+I"), (1, 5, "+I")], kind="")


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2)))), st.randoms())
def test_the_order_of_a_correct_changelog_does_not_count(
    changes: list[tuple[int, int | None]], rnd: object
) -> None:
    """The table after the net changes is the one after the changes in order, for any shuffle of them."""
    before = {0: 0, 1: 1}
    now: dict[int, int] = dict(before)
    rows: list[tuple[int, int | None, str]] = []
    for key, value in changes:
        if key in now:
            rows.append((key, now.pop(key), "-U"))
        if value is not None:
            now[key] = value
            rows.append((key, value, "+U"))
    rnd.shuffle(rows)  # type: ignore[attr-defined]  # a random.Random
    result = dict(before)
    for key, value, kind in net(rows):
        if kind == "-D":
            del result[key]
        else:
            assert value is not None
            result[key] = value
    assert result == now


@pytest.mark.parametrize(
    ("options", "rows", "action", "message"),
    [
        (UPSERT, KEYED, "NOTHING", None),
        (UPSERT, KEYED, "ERROR", None),
        (UPSERT, KEYED, "DEDUPLICATE", None),
        (JDBC, KEYED, "ERROR", None),
        (UPSERT, RowTraits(has_offsets=True), "DEDUPLICATE", None),
        (UPSERT, RowTraits(has_offsets=True), "NOTHING", r"no columns are known .* ROW_NUMBER\(\) OVER \(PARTITION BY id"),
        (UPSERT, RowTraits(NODE, frozenset({"v"})), "ERROR", r"they differ by \(v\)\. Group by the PRIMARY KEY"),
        (KAFKA, RowTraits(), "DEDUPLICATE", "ON CONFLICT is for a table that finds its rows by a PRIMARY KEY"),
        ("'connector' = 'print'", KEYED, "NOTHING", "Leave it out"),
    ],
)  # fmt: skip
def test_on_conflict_is_served_where_it_changes_no_row(
    options: str, rows: RowTraits, action: str, message: str | None
) -> None:
    table = table_of(options)
    if message is None:
        check_conflict(table, rows, frozenset(), action)
        return
    with pytest.raises(ValueError, match=message):
        check_conflict(table, rows, frozenset(), action)


def test_on_conflict_knows_no_key_that_insert_cuts() -> None:
    with pytest.raises(ValueError, match="DO ERROR is served if it is known"):
        check_conflict(table_of(UPSERT), KEYED, frozenset({"id"}), "ERROR")
