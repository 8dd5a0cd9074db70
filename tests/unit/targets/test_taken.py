"""A new query takes a missing or empty table of another query, which then stops, in each target."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError
from penstock.state.files import open_files
from penstock.targets import DeltaTable, IcebergTable, ParquetTable, SqlTable, delta, parquet
from penstock.targets._delta_marker import deltalake
from penstock.targets._parquet_buckets import Buckets, write_buckets
from penstock.targets.batch import Batch, LastRows
from penstock.targets.marker import marker_of
from tests.examples import examples
from tests.unit.targets.changes import COLUMNS, HISTORIES, QUERY, Change, after, batch

NEW, THIRD = "query-2", "query-3"
Rows = dict[int, Any]


@dataclass
class Stored:
    """A table, and what another program may do to it."""

    target: Any
    rows: Callable[[], Rows]
    drop: Callable[[], Any]
    empty: Callable[[], Any] | None = None


def in_sqlite(folder: Path) -> Stored:
    file = folder / "shop.db"

    def run(statement: str) -> list[Any]:
        with closing(sqlite3.connect(file)) as connection:
            found = connection.execute(statement).fetchall()
            connection.commit()
        return found

    return Stored(
        SqlTable("t", lambda: sqlite3.connect(file), "sqlite"),
        lambda: dict(run("SELECT * FROM t")),
        lambda: run("DROP TABLE t"),
        lambda: run("DELETE FROM t"),
    )


def in_parquet(folder: Path) -> Stored:
    target = ParquetTable(str(folder / "t"), 2)

    def rows() -> Rows:
        found = pa.concat_tables([pq.read_table(path) for path in target.paths()])
        return dict(zip(*found.to_pydict().values(), strict=True))

    return Stored(target, rows, lambda: shutil.rmtree(folder / "t"))


def in_delta(folder: Path) -> Stored:
    deltalake: Any = pytest.importorskip("deltalake")
    stored = str(folder / "t")
    return Stored(
        DeltaTable(stored),
        lambda: dict(zip(*deltalake.DeltaTable(stored).to_pyarrow_table().to_pydict().values(), strict=True)),
        lambda: shutil.rmtree(stored),
        lambda: deltalake.DeltaTable(stored).delete(),
    )


def in_iceberg(folder: Path) -> Stored:
    sql: Any = pytest.importorskip("pyiceberg.catalog.sql")
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/tables"}

    def on_catalog(work: Callable[[Any], Any]) -> Any:
        with sql.SqlCatalog("tests", **properties) as catalog:
            catalog.create_namespace_if_not_exists("shop")
            return work(catalog)

    def rows() -> Rows:
        found = on_catalog(lambda catalog: catalog.load_table("shop.t").scan().to_arrow())
        return dict(zip(*found.to_pydict().values(), strict=True))

    on_catalog(lambda _: None)
    return Stored(
        IcebergTable("shop.t", "tests", properties),
        rows,
        lambda: on_catalog(lambda catalog: catalog.drop_table("shop.t")),
        lambda: on_catalog(lambda catalog: catalog.load_table("shop.t").delete()),
    )


TARGETS = [in_sqlite, in_parquet, in_delta, in_iceberg]
ROW: list[Change] = [(1, "a", "+I")]


@pytest.mark.parametrize("made", TARGETS)
@pytest.mark.parametrize("how", ["dropped", "emptied", "its changes end empty", "it never had a row"])
def test_a_new_query_takes_it_and_the_old_one_stops(
    tmp_path: Path, made: Callable[[Path], Stored], how: str
) -> None:
    stored = made(tmp_path)
    target = stored.target
    target.apply(batch(0, [] if how == "it never had a row" else ROW))
    target.apply(batch(1, [(1, "a", "-D")] if how == "its changes end empty" else []))
    if how == "dropped":
        stored.drop()
    elif how == "emptied":
        if stored.empty is None:
            pytest.skip("a folder of Parquet files is dropped, not emptied")
        stored.empty()
    new = batch(0, [(2, "b", "+I")], NEW)
    assert target.apply(new)
    assert not target.apply(new), "a batch that Spark repeats"
    for number in (0, 2):
        with pytest.raises(MaterializeError, match="is kept by query query-2"):
            target.apply(batch(number, [(3, "c", "+I")]))
    assert target.apply(batch(1, [(4, "d", "+I")], NEW))
    assert stored.rows() == {2: "b", 4: "d"}


@pytest.mark.parametrize("made", TARGETS)
def test_a_table_with_rows_is_not_taken_and_only_a_first_batch_takes_one(
    tmp_path: Path, made: Callable[[Path], Stored]
) -> None:
    stored = made(tmp_path)
    stored.target.apply(batch(0, ROW))
    with pytest.raises(MaterializeError, match=r"is not empty.*drop it or delete its rows.*belong together"):
        stored.target.apply(batch(0, [(2, "b", "+I")], NEW))
    assert stored.rows() == {1: "a"}
    stored.target.apply(batch(1, [(1, "a", "-D")]))
    with pytest.raises(MaterializeError, match=r"is kept by query query-1.*Only one query can keep"):
        stored.target.apply(batch(1, [(2, "b", "+I")], NEW))
    assert stored.rows() == {}
    assert stored.target.apply(batch(2, ROW))


@pytest.mark.parametrize("made", TARGETS)
def test_a_driver_may_die_after_its_query_took_the_table(
    tmp_path: Path, made: Callable[[Path], Stored], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start finds the table taken, or still free."""
    stored = made(tmp_path)
    stored.target.apply(batch(0, ROW))
    stored.target.apply(batch(1, [(1, "a", "-D")]))
    for module, step in (
        ("sql._Apply", "_merge"),
        ("parquet", "write_buckets"),
        ("delta", "_commit"),
        ("iceberg", "_commit"),
    ):
        monkeypatch.setattr(f"penstock.targets.{module}.{step}", die)
    with pytest.raises(KeyboardInterrupt):
        stored.target.apply(batch(0, [(2, "b", "+I")], NEW))
    monkeypatch.undo()
    assert stored.target.apply(batch(0, [(2, "b", "+I")], NEW))
    assert stored.rows() == {2: "b"}


def die(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@settings(max_examples=examples(8), deadline=None)
@given(st.data(), HISTORIES)
def test_at_each_moment_one_query_keeps_the_table_and_its_rows_are_right(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, history: list[list[Change]]
) -> None:
    """Three queries want one table of SQLite. What is in it is always what one of them has applied."""
    stored = in_sqlite(tmp_path_factory.mktemp("taken"))
    next_batch, true = dict.fromkeys((QUERY, NEW, THIRD), 0), dict[str, Rows]()
    owner = None
    for changes in history * 3:
        query = data.draw(st.sampled_from([QUERY, NEW, THIRD]))
        number = next_batch[query]
        was_free = owner is None or not true[owner]
        try:
            stored.target.apply(batch(number, changes, query))
        except MaterializeError:
            assert query != owner
            assert number or not was_free
            continue
        assert owner == query or (number == 0 and was_free)
        owner = query
        true[query] = after(true.get(query, {}) if number else {}, changes)
        next_batch[query] += 1
        assert stored.rows() == true[query]


def test_the_old_query_does_not_continue_on_a_table_of_sql_that_lost_its_rows(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    for number, lose in enumerate([stored.empty, stored.drop]):
        query = f"query {number}"
        stored.target.apply(batch(0, ROW, query))
        assert lose is not None
        lose()
        for repeated in (batch(0, ROW, query), batch(1, [(2, "b", "+I")], query)):
            with pytest.raises(MaterializeError, match=r"had rows after batch 0.*missing or empty now"):
                stored.target.apply(repeated)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        stored.rows()


def test_rows_of_another_writer_in_a_delta_table_that_was_taken_are_an_error(tmp_path: Path) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    target = DeltaTable(str(tmp_path))
    target.apply(batch(0, []))
    delta._take(target._newest(), batch(0, [], NEW))
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [9], "na%me": ["x"]}), mode="append")
    with pytest.raises(MaterializeError, match="has rows that penstock did not write"):
        target.apply(batch(0, ROW, NEW))


MORE = COLUMNS.append(pa.field("city", pa.string()))


@pytest.mark.parametrize("made", TARGETS)
def test_other_columns_are_an_error_before_the_start(tmp_path: Path, made: Callable[[Path], Stored]) -> None:
    stored = made(tmp_path)
    stored.target.check_existing(MORE, ["id"])
    stored.target.apply(batch(0, ROW))
    stored.target.check_existing(COLUMNS, ["id"])
    with pytest.raises(MaterializeError, match=r"(?s)city.*belong together.*'Checkpoint, state and table'"):
        stored.target.check_existing(MORE, ["id"])
    stored.drop()
    stored.target.check_existing(MORE, ["id"])


@pytest.mark.parametrize("made", [in_parquet, in_delta])
def test_an_empty_table_is_taken_with_other_columns(tmp_path: Path, made: Callable[[Path], Stored]) -> None:
    stored = made(tmp_path)
    stored.target.apply(batch(0, []))
    stored.target.check_existing(MORE, ["id"])
    rows = pa.Table.from_pylist([{"id": 1, "na%me": "a", "city": "Rome"}], schema=MORE)
    stored.target.apply(Batch(NEW, 0, ("id",), LastRows(("id",), MORE).last_rows(rows)))
    stored.target.check_existing(MORE, ["id"])


def once_after(monkeypatch: pytest.MonkeyPatch, module: Any, step: str, work: Callable[[], Any]) -> None:
    """Do some work when a step has ended for the first time."""
    original = getattr(module, step)

    def patched(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(module, step, original)
        result = original(*given, **named)
        work()
        return result

    monkeypatch.setattr(module, step, patched)


def first_of_new(columns: pa.Schema) -> Batch:
    """Return the first batch of a new query that has these columns."""
    rows = pa.Table.from_pylist([{"id": 2, "na%me": "b"}], schema=columns)
    return Batch(NEW, 0, ("id",), LastRows(("id",), columns).last_rows(rows))


@pytest.mark.parametrize("columns", [COLUMNS, MORE])
@pytest.mark.parametrize("late", [[(7, "late", "+I")], []])
@pytest.mark.parametrize(
    ("made", "step"), [(in_delta, "_is_empty"), (in_parquet, "_is_empty"), (in_parquet, "write_buckets")]
)
def test_a_new_query_never_replaces_rows_that_the_old_one_commits_meanwhile(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[Path], Stored],
    step: str,
    late: list[Change],
    columns: pa.Schema,
) -> None:
    stored = made(tmp_path)
    stored.target.apply(batch(0, ROW))
    stored.target.apply(batch(1, [(1, "a", "-D")]))
    target, by_old = stored.target, batch(2, late)
    module = delta if made is in_delta else parquet
    if step == "write_buckets":  # the old query has read its last version before the new one deletes it
        begun = target.newest()
        once_after(monkeypatch, module, step, lambda: publish(target, begun, by_old))
    else:
        once_after(monkeypatch, module, step, lambda: target.apply(by_old))
    if made is in_delta and not late:
        assert target.apply(first_of_new(columns)), "the table is still empty"
        found = deltalake().DeltaTable(target.uri).to_pyarrow_table().to_pylist()
        assert found == [dict.fromkeys(columns.names) | {"id": 2, "na%me": "b"}]
        return
    with pytest.raises(MaterializeError, match=r"is not empty|Another driver has published batch 2 of"):
        target.apply(first_of_new(columns))
    assert stored.rows() == after({}, late)
    assert target.apply(batch(3, ROW)), "the old query continues"


def publish(target: ParquetTable, begun: parquet.Version, new: Batch) -> None:
    """Publish a version over another one that was read before."""
    files = open_files(target.folder)
    written = dict(begun.files) | write_buckets(files, Buckets(begun.bucket_count, begun.files), new)
    marker = marker_of(new)
    version = parquet.Version(marker, begun.keys, begun.columns, begun.bucket_count, written)
    with files.create(f"_versions/{parquet._name_of(marker)}") as sink:
        sink.write(version.to_json())


def test_an_old_query_of_parquet_takes_its_version_back_if_a_new_one_took_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = in_parquet(tmp_path)
    stored.target.apply(batch(0, []))
    once_after(
        monkeypatch, parquet, "write_buckets", lambda: stored.target.apply(batch(0, [(2, "b", "+I")], NEW))
    )
    with pytest.raises(MaterializeError, match=r"published batch 0 of .* wrote batch 1 of query query-1\. "):
        stored.target.apply(batch(1, ROW))
    assert stored.rows() == {2: "b"}
    assert stored.target.apply(batch(1, [(3, "c", "+I")], NEW))


def test_a_version_that_appears_after_the_last_look_deletes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old query takes its version back a moment later."""
    target = ParquetTable(str(tmp_path), 1, versions_kept=1)
    late = tmp_path / "_versions" / f"0000000006-{'0' * 16}.json"
    once_after(monkeypatch, ParquetTable, "_publish", lambda: late.write_bytes(b""))
    assert target.apply(batch(0, ROW))
    late.unlink()
    assert pa.concat_tables([pq.read_table(path) for path in target.paths()]).num_rows == 1


def test_a_driver_may_die_between_the_commits_that_take_a_delta_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    stored = in_delta(tmp_path)
    stored.target.apply(batch(0, []))
    once_after(monkeypatch, delta, "_take", die)
    with pytest.raises(KeyboardInterrupt):
        stored.target.apply(first_of_new(MORE))
    with pytest.raises(MaterializeError, match=r"is kept by query query-2"):
        stored.target.apply(batch(1, ROW))
    assert stored.target.apply(first_of_new(MORE))
    found = deltalake.DeltaTable(stored.target.uri).to_pyarrow_table().to_pylist()
    assert found == [{"id": 2, "na%me": "b", "city": None}]


def test_an_empty_delta_table_of_another_writer_is_refused_before_the_start(tmp_path: Path) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema.from_arrow(COLUMNS))
    with pytest.raises(MaterializeError, match="was not made by penstock"):
        DeltaTable(str(tmp_path)).check_existing(COLUMNS, ["id"])


def test_a_start_reads_a_delta_table_until_it_finds_a_row(tmp_path: Path) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    target = DeltaTable(str(tmp_path))
    for number in range(3):
        target.apply(batch(number, [(number, "a", "+I")]))
    _, *others = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_dataset().get_fragments()
    assert len(others) == 2
    for each in others:
        (tmp_path / each.path).unlink()
    target.check_existing(COLUMNS, ["id"])
