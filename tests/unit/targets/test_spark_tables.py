"""A table that Spark changes by MERGE: the marker decides, and foreign commits are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError, SchemaError, TableOrderError
from penstock.targets import SparkDeltaTable, SparkIcebergTable
from penstock.targets._delta_log import KEEP_ROWS
from penstock.targets._merge_properties import new_properties
from penstock.targets.batch import Batch, LastRows
from penstock.targets.change import ColumnChange, Widening
from penstock.targets.sql_names import quoted_identifier
from tests.deaths import Death
from tests.unit.targets.changes import (
    COLUMNS,
    HISTORIES,
    OF_ANOTHER_TABLE,
    OUT_OF_ORDER,
    QUERY,
    Change,
    after,
    batch,
)
from tests.unit.targets.merging import FakeSpark, Table

KINDS: dict[str, Any] = {"delta": SparkDeltaTable("shop.t"), "iceberg": SparkIcebergTable("shop.t")}
COMPACTION = {"delta": "OPTIMIZE", "iceberg": "replace"}
DELETE = {"delta": "DELETE", "iceberg": "delete"}
ONE, TWO = [(1, "a", "+U")], [(2, "b", "+U")]
both = pytest.mark.parametrize("kind", KINDS)


class Scene:
    """A table of a kind, and a Spark."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tables = dict[str, Table]()
        self.spark = FakeSpark(self.tables)

    def apply(self, one: Batch) -> bool:
        return bool(KINDS[self.kind].in_session(self.spark).apply(one))

    @property
    def table(self) -> Table:
        return self.tables["shop.t"]

    def foreign(self, operation: str | None = None) -> None:
        """Commit as another writer: an operation that changes rows, unless it says another one."""
        rows = self.table.rows
        if operation is None:
            rows[99] = "foreign"
        self.table.commit(operation or DELETE[self.kind], rows)


@both
def test_each_batch_is_applied_once(kind: str) -> None:
    scene = Scene(kind)
    assert scene.apply(batch(0, ONE))
    assert not scene.apply(batch(0, ONE))
    assert scene.apply(batch(1, [(1, None, "-D"), *TWO]))
    assert scene.apply(batch(2, []))
    assert not scene.apply(batch(2, []))
    assert scene.table.rows == {2: "b"}


@both
@given(history=HISTORIES, repeated=st.sets(st.integers(0, 4)))
def test_the_table_equals_the_changelog(kind: str, history: list[list[Change]], repeated: set[int]) -> None:
    scene, true = Scene(kind), dict[int, str | None]()
    for number, changes in enumerate(history):
        true = after(true, changes)
        assert scene.apply(batch(number, changes))
        if number in repeated:
            assert not scene.apply(batch(number, changes))
        assert scene.table.rows == true


@both
@pytest.mark.parametrize(("wrong", "message"), OUT_OF_ORDER)
def test_a_batch_that_does_not_follow_is_an_error(kind: str, wrong: Batch, message: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.apply(batch(1, [(1, "b", "+U")]))
    with pytest.raises(TableOrderError, match=message):
        scene.apply(wrong)
    assert scene.table.rows == {1: "b"}


@both
@pytest.mark.parametrize(("wrong", "message"), OF_ANOTHER_TABLE)
def test_other_columns_and_keys_are_an_error(kind: str, wrong: Batch, message: str) -> None:
    scene = Scene(kind)
    for number in range(2):
        scene.apply(batch(number, ONE))
    with pytest.raises(MaterializeError, match=message):
        scene.apply(wrong)
    assert scene.table.rows == {1: "a"}


@both
def test_a_foreign_commit_before_a_batch_is_an_error_and_a_compaction_is_not(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.foreign(COMPACTION[kind])
    assert scene.apply(batch(1, TWO))
    scene.foreign()
    for number in (1, 2):
        with pytest.raises(
            MaterializeError, match=rf"operation {DELETE[kind]} to the \w+ table shop.t .*it\."
        ):
            scene.apply(batch(number, TWO))
    assert 99 in scene.table.rows


@both
def test_a_foreign_commit_between_the_look_and_the_merge_is_found_at_once_and_by_the_next_batch(
    kind: str,
) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.spark.before_merge = scene.foreign
    between = "came after it was judged and before it was committed"
    with pytest.raises(MaterializeError, match=between):
        scene.apply(batch(1, TWO))
    scene.spark.before_merge = lambda: None
    for again in (batch(1, TWO), batch(2, TWO)):
        with pytest.raises(MaterializeError, match=between):
            scene.apply(again)


@both
def test_a_driver_that_dies_after_the_merge_leaves_the_foreign_commit_to_the_next_batch(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))

    def die() -> None:
        raise Death

    scene.spark.before_merge, scene.spark.after_merge = scene.foreign, die
    with pytest.raises(Death):
        scene.apply(batch(1, TWO))
    scene.spark.before_merge = scene.spark.after_merge = lambda: None
    with pytest.raises(MaterializeError, match="before it was committed"):
        scene.apply(batch(1, TWO))


@both
def test_a_merge_that_the_library_commits_twice_is_one_batch_or_an_error(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.spark.commits_twice = True
    if kind == "delta":  # its number of the transaction leaves the second commit out
        assert scene.apply(batch(1, TWO))
        assert scene.table.rows == {1: "a", 2: "b"}
        return
    for _ in range(2):
        with pytest.raises(MaterializeError, match=r"operation overwrite .* before it was committed"):
            scene.apply(batch(1, TWO))
        scene.spark.commits_twice = False


OTHERS = ("rows", "compaction")


@both
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.sampled_from(OTHERS), max_size=2),
            st.lists(st.sampled_from(OTHERS), max_size=2),
            st.sampled_from(["applied", "died", "lost", "twice"]),
            st.lists(st.sampled_from(OTHERS), max_size=2),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_commits_of_others_around_and_under_batches_are_found_or_harmless(
    kind: str, steps: list[tuple[list[str], list[str], str, list[str]]]
) -> None:
    """A step: commits before a batch and under its MERGE, how that ends, and commits after it."""
    scene, is_right = Scene(kind), True
    scene.apply(batch(0, []))

    def others(names: list[str]) -> None:
        nonlocal is_right
        for name in names:
            is_right &= name == "compaction"
            scene.foreign(None if name == "rows" else COMPACTION[kind])

    for number, (before, under, end, later) in enumerate(steps, 1):
        others(before)
        _fail_once(scene.spark, end, partial(others, under))
        changes = [(number, f"row {number}", "+U")]
        try:
            try:
                scene.apply(batch(number, changes))
            except Death:
                scene.apply(batch(number, changes))
        except MaterializeError:
            is_right &= end != "twice" or kind == "delta"
            assert not is_right
            with pytest.raises(MaterializeError):
                scene.apply(batch(number, changes))
            return
        assert is_right
        assert scene.table.rows == {each: f"row {each}" for each in range(1, number + 1)}
        others(later)


def _fail_once(spark: FakeSpark, end: str, under: Callable[[], None]) -> None:
    """Let the next MERGE have commits under it, and end in a way."""
    done = list[str]()

    def before() -> None:
        spark.commits_twice = end == "twice" and not done
        if not done:
            under()

    def after_it() -> None:
        if not done and end in ("died", "lost"):
            done.append(end)
            raise Death if end == "died" else RuntimeError("the answer was lost")
        done.append(end)

    spark.before_merge, spark.after_merge = before, after_it


@both
def test_the_values_of_a_merge_go_to_the_columns_of_their_names(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    [*_, merge] = (one for one in scene.spark.statements if one.startswith("MERGE"))
    assert "UPDATE SET t.`id` = s.`id`, t.`na%me` = s.`na%me` WHEN" in merge
    assert merge.endswith("INSERT (`id`, `na%me`) VALUES (s.`id`, s.`na%me`)")


@both
def test_columns_in_another_order_are_refused_where_a_rename_leaves_no_commit(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.table.columns = dict(reversed(scene.table.columns.items()))
    table = KINDS[kind].in_session(scene.spark)
    if kind == "delta":  # a rename would be in its log
        table.check_existing(COLUMNS, ["id"])
        assert scene.apply(batch(1, TWO))
        return
    for refused in (lambda: scene.apply(batch(1, TWO)), lambda: table.check_existing(COLUMNS, ["id"])):
        with pytest.raises(MaterializeError, match=r"order id, na%me, and .* order na%me, id\. .*AFTER"):
            refused()
    assert scene.table.rows == {1: "a"}
    scene.table.columns = {"of another": "int64", **dict(reversed(scene.table.columns.items()))}
    assert scene.apply(batch(1, TWO))


@both
def test_an_integer_that_becomes_wider_is_followed_if_the_table_has_one_type_for_both(kind: str) -> None:
    target, widened = KINDS[kind], list[ColumnChange]()
    for old, new in ((pa.int8(), pa.int16()), (pa.int16(), pa.int32()), (pa.int32(), pa.int64())):
        widened.append(ColumnChange(widened=(Widening("na%me", old, new),)))
    for change in widened if kind == "delta" else widened[2:]:
        with pytest.raises(SchemaError, match=r"'na%me' .* has to become int"):
            target.check_change(change)
    if kind == "delta":
        return
    scene = Scene(kind)
    for number, type_ in enumerate((pa.int8(), pa.int16(), pa.int32())):
        columns = pa.schema([("id", pa.int64()), ("na%me", type_)])
        rows = LastRows(("id",), columns).schema.empty_table()
        change = widened[number - 1] if number else ColumnChange()
        target.check_change(change)
        assert scene.apply(Batch(QUERY, number, ("id",), rows, change))
        assert not scene.apply(Batch(QUERY, number, ("id",), rows, change))
    assert scene.table.columns["na%me"] == "int32"


@both
def test_a_compaction_between_the_look_and_the_merge_is_no_error(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.spark.before_merge = lambda: scene.foreign(COMPACTION[kind])
    assert scene.apply(batch(1, TWO))
    assert scene.apply(batch(2, [(1, None, "-D")]))
    assert scene.table.rows == {2: "b"}


@both
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_merge_that_fails_is_repeated_only_if_the_marker_says_so(kind: str, *, is_committed: bool) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    failing = [RuntimeError("the answer was lost")]

    def fail() -> None:
        if failing:
            if not is_committed:
                scene.foreign(COMPACTION[kind])
            raise failing.pop()

    if is_committed:
        scene.spark.after_merge = fail
    else:
        scene.spark.before_merge = fail
    assert scene.apply(batch(1, TWO)) is not is_committed
    assert scene.table.rows == {1: "a", 2: "b"}
    assert sum(word.startswith("MERGE") for word in scene.spark.statements) == 3 + (not is_committed)


@both
def test_a_merge_that_fails_alone_ends_with_its_error(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))

    def fail() -> None:
        raise RuntimeError("no space left")

    scene.spark.before_merge = fail
    with pytest.raises(RuntimeError, match="no space left"):
        scene.apply(batch(1, TWO))
    scene.spark.before_merge = lambda: None
    assert scene.apply(batch(1, TWO))


def test_a_commit_that_loses_to_one_without_a_snapshot_is_repeated() -> None:
    """A change of properties of Iceberg makes no snapshot."""
    scene = Scene("iceberg")
    scene.apply(batch(0, ONE))
    failing = [RuntimeError("org.apache.iceberg.exceptions.CommitFailedException: version 3 exists")]

    def fail() -> None:
        if failing:
            raise failing.pop()

    scene.spark.before_merge = fail
    assert scene.apply(batch(1, TWO))
    assert scene.table.rows == {1: "a", 2: "b"}


@both
def test_writers_that_commit_all_the_time_are_an_error(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))

    def lose() -> None:
        scene.foreign(COMPACTION[kind])
        raise RuntimeError("conflict")

    scene.spark.before_merge = lose
    with pytest.raises(MaterializeError, match=r"changed by other writers in each of 10 attempts"):
        scene.apply(batch(1, TWO))
    assert scene.table.rows == {1: "a"}


@both
def test_a_driver_that_is_late_is_found(kind: str) -> None:
    """Two drivers: the other one applies this batch and the next one, after this one has judged."""
    scene, other = Scene(kind), Scene(kind)
    scene.apply(batch(0, ONE))
    other.tables["shop.t"] = scene.table

    def be_late() -> None:
        scene.spark.before_merge = lambda: None
        assert other.apply(batch(1, ONE))
        assert other.apply(batch(2, [(1, "newer", "+U")]))

    scene.spark.before_merge = be_late
    with pytest.raises(MaterializeError, match=r"another driver|before it was committed"):
        scene.apply(batch(1, ONE))
    if kind == "delta":  # its number of the transaction keeps the old rows out
        assert scene.table.rows == {1: "newer"}
        assert other.apply(batch(3, []))
    else:  # the rows are old now, and no batch follows
        with pytest.raises(MaterializeError):
            other.apply(batch(3, []))


@both
def test_a_restored_or_rolled_back_table_is_an_error(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.apply(batch(1, TWO))
    table = scene.table
    if kind == "delta":
        table.commit("RESTORE", table.versions[-2].rows)
        found, message = MaterializeError, "operation RESTORE"
    else:
        table.versions.pop()
        found, message = TableOrderError, "does not follow batch 0"
    with pytest.raises(found, match=message):
        scene.apply(batch(2, TWO))
    assert scene.table.rows == {1: "a"}


@both
def test_a_spark_that_does_not_write_the_marker_is_refused_before_any_row(kind: str) -> None:
    scene = Scene(kind)
    scene.spark.writes_metadata = False
    with pytest.raises(MaterializeError, match=r"the newest marker in the log is another one \(no marker\)"):
        scene.apply(batch(0, ONE))
    assert scene.table.rows == {}


@both
def test_a_table_with_rows_is_not_taken_and_an_empty_one_is(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    with pytest.raises(TableOrderError, match="is kept by query query-1"):
        scene.apply(batch(0, ONE, "query-2"))
    scene.table.commit(DELETE[kind], {})
    with pytest.raises(MaterializeError):
        scene.apply(batch(1, TWO))
    assert scene.apply(batch(0, TWO, "query-2"))
    assert not scene.apply(batch(0, TWO, "query-2"))
    with pytest.raises(TableOrderError, match="is kept by query query-2"):
        scene.apply(batch(1, TWO))
    assert scene.table.rows == {2: "b"}


@both
def test_rows_that_come_while_an_empty_table_is_taken_are_found(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.table.commit(DELETE[kind], {})
    scene.spark.before_merge = scene.foreign
    with pytest.raises(MaterializeError, match="before it was committed"):
        scene.apply(batch(0, TWO, "query-2"))


@both
def test_a_query_that_died_before_its_first_batch_goes_on(kind: str) -> None:
    scene = Scene(kind)

    def die() -> None:
        raise Death

    for name in ("before_merge", "after_merge"):
        setattr(scene.spark, name, die)
        with pytest.raises(Death):
            scene.apply(batch(0, ONE))
        setattr(scene.spark, name, lambda: None)
    assert scene.apply(batch(0, ONE))
    assert scene.table.rows == {1: "a"}


@both
def test_a_table_of_another_writer_or_target_is_refused(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.table.properties["penstock.format"] = "1"
    with pytest.raises(MaterializeError, match=r"has version 1, and this target .* reads version merge-1"):
        scene.apply(batch(1, TWO))
    scene.table.properties.clear()
    with pytest.raises(MaterializeError, match="was not made by penstock"):
        scene.apply(batch(1, TWO))


@both
def test_rows_in_a_new_table_are_refused(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    table = scene.table
    table.versions.clear()
    table.commit("WRITE", {5: "x"})
    with pytest.raises(MaterializeError, match="has rows that penstock did not write"):
        scene.apply(batch(0, ONE))
    with pytest.raises(MaterializeError, match="does not have the commit of its last batch any more"):
        scene.apply(batch(1, ONE))


@both
def test_a_missing_table_is_created_by_the_first_batch_only(kind: str) -> None:
    scene = Scene(kind)
    with pytest.raises(MaterializeError, match="does not exist, and batch 3 is not the first"):
        scene.apply(batch(3, ONE))
    assert not scene.tables


@both
def test_a_log_that_has_lost_a_commit_under_the_last_batch_is_an_error(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.spark.before_merge = lambda: scene.foreign(COMPACTION[kind])
    scene.apply(batch(1, TWO))
    scene.spark.before_merge = lambda: None
    del scene.table.versions[:-1]
    with pytest.raises(MaterializeError, match="does not have the commit that came under batch 1 any more"):
        scene.apply(batch(2, TWO))


@both
def test_a_long_log_after_the_last_batch_is_read(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    for _ in range(40):
        scene.foreign(COMPACTION[kind])
    assert scene.apply(batch(1, TWO))


@both
def test_new_columns_come_before_the_rows_and_others_are_refused(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    columns = COLUMNS.append(pa.field("more", pa.int64()))
    rows = LastRows(("id",), columns).schema.empty_table()
    change = ColumnChange(added=(pa.field("more", pa.int64()),))
    added = Batch(QUERY, 1, ("id",), rows, change)
    assert scene.apply(added)
    assert not scene.apply(added)
    assert scene.table.columns == {"id": "int64", "na%me": "string", "more": "int64"}
    for wrong in (
        ColumnChange(dropped=("more",)),
        ColumnChange(widened=(Widening("id", pa.int32(), pa.int64()),)),
    ):
        with pytest.raises(SchemaError, match=r"has to be(come|) .* Nothing of the batch was written"):
            KINDS[kind].check_change(wrong)


@both
def test_what_can_never_work_is_refused_before_the_start(kind: str) -> None:
    target = KINDS[kind]
    target.check(COLUMNS, ["id"])
    with pytest.raises(SchemaError, match="has a name of penstock"):
        target.check(pa.schema([("Penstock_Deleted", pa.bool_())]), ["id"])
    for right in ("prod-lake.shop.t", "shop.2024_x", "`a.b`.`it``s`", "größe.t"):
        replace(target, identifier=right).check(COLUMNS, ["id"])
    for wrong in ("t", "a.b; DROP TABLE x", "delta.`/x` `", "delta.`/x`", "a..b", "a.`b", ""):
        with pytest.raises(OptionError, match=r"Expected `schema\.table`"):
            replace(target, identifier=wrong).check(COLUMNS, ["id"])
    with pytest.raises(OptionError, match="nothing has given it a session"):
        target.apply(batch(0, ONE))
    with pytest.raises(OptionError, match="nothing has given it a session"):
        target.apply_staged(batch(0, ONE), None)


@both
def test_what_penstock_says_needs_no_escape_to_be_read_again(kind: str) -> None:
    scene = Scene(kind)
    odd = 'it\'s \\ "q"'
    scene.tables["shop.t"] = Table(kind == "delta", {"id": "int64", "na%me": "string"}, {})
    scene.table.properties.update(new_properties(batch(0, ONE, odd)))
    if kind == "delta":
        scene.table.commit("CREATE TABLE", {})
    assert scene.apply(batch(0, ONE, odd))
    assert not scene.apply(batch(0, ONE, odd))


@both
@pytest.mark.parametrize("key", ["token_id", "url", "access_key", "keys"])
def test_a_key_that_is_named_like_a_secret_is_read_again(kind: str, key: str) -> None:
    scene, columns = Scene(kind), pa.schema([(key, pa.int64())])
    rows = LastRows((key,), columns).schema.empty_table()
    for number in range(2):
        assert scene.apply(Batch(QUERY, number, (key,), rows))
    with pytest.raises(MaterializeError, match=rf"the keys id and the columns .* it has the keys {key} "):
        scene.apply(batch(2, []))


@both
@pytest.mark.parametrize(
    ("redaction", "name"),
    [("penstock.primary", "penstock.primary"), ("query", "penstock.query"), ("merge", "penstock.format")],
)
def test_a_property_that_spark_hides_all_the_same_is_an_error(kind: str, redaction: str, name: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.spark.redaction = redaction
    with pytest.raises(MaterializeError, match=rf"in the property {name} of .*spark\.redaction\.regex"):
        scene.apply(batch(1, TWO))
    assert scene.table.rows == {1: "a"}


def test_the_compaction_that_delta_adds_to_a_merge_is_not_the_batch() -> None:
    """It has the metadata of the MERGE. A foreign commit under the MERGE is found all the same."""
    scene = Scene("delta")
    scene.spark.compacts = True
    for number in range(3):
        assert scene.apply(batch(number, [(number, "a", "+U")]))
        assert not scene.apply(batch(number, [(number, "a", "+U")]))
    scene.spark.before_merge = scene.foreign
    for number in (3, 3, 4):
        with pytest.raises(MaterializeError, match="before it was committed"):
            scene.apply(batch(number, TWO))


@pytest.mark.parametrize("operation", sorted(KEEP_ROWS))
def test_an_operation_that_keeps_rows_with_the_marker_of_the_session_is_not_a_batch(operation: str) -> None:
    scene = Scene("delta")
    scene.apply(batch(0, ONE))
    scene.apply(batch(1, TWO))
    assert scene.table.newest is not None
    scene.table.commit(operation, scene.table.rows, scene.table.newest.said)
    assert scene.apply(batch(2, ONE))


def test_a_replaced_snapshot_with_the_properties_of_a_batch_is_not_a_batch() -> None:
    scene = Scene("iceberg")
    scene.apply(batch(0, ONE))
    assert scene.table.newest is not None
    scene.table.commit("replace", scene.table.rows, scene.table.newest.said)
    assert scene.apply(batch(1, TWO))


@both
def test_small_integers_are_compared_as_the_format_has_them(kind: str) -> None:
    scene, columns = Scene(kind), pa.schema([("id", pa.int16()), ("na%me", pa.string())])
    rows = LastRows(("id",), columns).schema.empty_table()
    for number in range(2):
        assert scene.apply(Batch(QUERY, number, ("id",), rows))
    assert scene.table.columns["id"] == ("int16" if kind == "delta" else "int32")
    change = ColumnChange(added=(pa.field("more", pa.int8()),))
    wider = LastRows(("id",), columns.append(change.added[0])).schema.empty_table()
    assert scene.apply(Batch(QUERY, 2, ("id",), wider, change))
    assert scene.apply(Batch(QUERY, 3, ("id",), wider))


def test_iceberg_has_no_small_integers_inside_of_values_either() -> None:
    small, large = (
        pa.schema(
            [
                pa.field("a", kind, nullable=False),
                ("b", pa.list_(pa.struct([("order-id", kind), ("d", pa.date32())]))),
                ("c", pa.map_(kind, pa.list_(kind))),
                ("d", pa.decimal128(9, 2)),
            ]
        )
        for kind in (pa.int8(), pa.int32())
    )
    assert SparkIcebergTable.format.held(small) == large
    assert SparkDeltaTable.format.held(small) == small


@pytest.mark.parametrize("name", ["spark.wap.branch", "spark.wap.id"])
def test_a_session_that_writes_another_branch_of_iceberg_is_refused(name: str) -> None:
    scene = Scene("iceberg")
    scene.apply(batch(0, ONE))
    scene.spark.settings[name] = "audit"
    table = KINDS["iceberg"].in_session(scene.spark)
    for refused in (lambda: scene.apply(batch(1, TWO)), lambda: table.check_existing(COLUMNS, ["id"])):
        with pytest.raises(OptionError, match=rf"{name} is 'audit'.* Nothing was written.*unset") as error:
            refused()
        assert error.value.facts["option"] == name
    assert scene.table.rows == {1: "a"}


@both
def test_a_table_that_spark_has_cached_as_empty_is_not_taken_with_its_rows(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.table.cached = {}
    with pytest.raises(TableOrderError, match="is kept by query query-1"):
        scene.apply(batch(0, TWO, "query-2"))
    assert scene.table.rows == {1: "a"}


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("prod-lake.shop.t", "`prod-lake`.`shop`.`t`"),
        ("shop.2024_x", "`shop`.`2024_x`"),
        ("`a.b`.`it``s`.t", "`a.b`.`it``s`.`t`"),
    ],
)
def test_each_part_of_a_name_stands_in_backquotes(identifier: str, expected: str) -> None:
    assert quoted_identifier(identifier) == expected
    assert quoted_identifier(expected) == expected


@pytest.mark.parametrize(
    "operation",
    ["CHANGE COLUMNS", "CLUSTER BY", "COMPUTE STATS", "DROP FEATURE", "REORG", "ROW TRACKING BACKFILL"],
)
def test_work_of_the_platform_on_a_delta_table_is_no_foreign_change(operation: str) -> None:
    scene = Scene("delta")
    scene.apply(batch(0, ONE))
    scene.foreign(operation)
    scene.spark.before_merge = lambda: scene.foreign(operation)
    assert scene.apply(batch(1, TWO))
    assert scene.apply(batch(2, [(1, None, "-D")]))
    assert scene.table.rows == {2: "b"}
