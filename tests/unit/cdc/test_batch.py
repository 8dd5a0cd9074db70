"""Batches of `replicate` with deaths between any two steps: each table has what its topic says, once."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.batch import Kept, OnTableError, Plan, ReplicatedBatch, SourceTopic
from penstock.cdc.gather import Reader
from penstock.cdc.in_files import Staging
from penstock.cdc.journal import Journal
from penstock.cdc.messages import MessageFormat, SourceTable, message_format
from penstock.errors import (
    DecodeError,
    MaterializeError,
    MissingOptionError,
    OptionError,
    PenstockError,
    SchemaError,
    SchemaRegistryError,
    StateError,
    TableOrderError,
)
from penstock.targets import HistoryTable, ParquetTable, SqlTable
from penstock.targets.batch import DELETED, Batch
from penstock.targets.change import ColumnChange
from penstock.targets.marker import Marker, is_applied, marker_of
from tests.unit.cdc.messages import SmallFormat, message, schema_of
from tests.unit.cdc.test_gather import RAW_SCHEMA, Record

QUERY = "query"


class DeathError(BaseException):
    """The driver dies."""


class Deaths:
    """Counts steps, and dies at one of them."""

    def __init__(self) -> None:
        self.left = -1

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise DeathError


@dataclass
class Table:
    """A target in memory, with the rules of markers."""

    deaths: Deaths
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    marker: Marker | None = None
    error: Exception | None = None
    applied: int = 0
    columns: tuple[str, ...] = ()

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        assert set(keys) <= set(columns.names)

    def check_change(self, change: ColumnChange) -> None:
        assert change

    def apply(self, batch: Batch) -> bool:
        self.deaths.step()
        if self.error is not None:
            raise self.error
        new = marker_of(batch)
        if is_applied(self.marker, new, "the table"):
            return False
        for row in batch.rows.to_pylist():
            is_deleted = row.pop(DELETED)
            if is_deleted:
                self.rows.pop(row["id"], None)
            else:
                self.rows[row["id"]] = row
        if self.marker is not None:
            added = {one.name for one in batch.change.added}
            assert added == set(batch.columns.names) - set(self.columns)
        self.columns = tuple(batch.columns.names)
        self.marker = new
        self.applied += 1
        self.deaths.step()
        return True


class MemoryFiles:
    """Files in memory. The driver may die before and after each write."""

    root = "memory"

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths
        self._contents: dict[str, bytes] = {}

    def names(self, folder: str) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self._contents if path.startswith(f"{folder}/"))

    def read(self, path: str) -> pa.Buffer:
        if path not in self._contents:
            raise FileNotFoundError(path)
        return pa.py_buffer(self._contents[path])

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        self._deaths.step()
        file = io.BytesIO()
        yield file
        self._contents[path] = file.getvalue()
        self._deaths.step()

    def delete(self, path: str) -> None:
        self._deaths.step()
        self._contents.pop(path, None)


class World:
    """Tables that survive deaths, and the batches of one query."""

    def __init__(self) -> None:
        self.deaths = Deaths()
        self.files = MemoryFiles(self.deaths)
        self.tables: dict[str, Table] = {}
        self.format: MessageFormat = SmallFormat()

    def table(self, source: SourceTopic) -> Table:
        return self.tables.setdefault(source.topic, Table(self.deaths))

    def run(
        self,
        batch_id: int,
        records: Sequence[Record],
        *,
        tasks: int = 1,
        evolve: Kept = "lenient",
        on_table_error: OnTableError = "stop",
        keys: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        plan = Plan(self.format, self.table, self._journal(), keys or {}, evolve, on_table_error, threads=1)
        read = self._reading(records, tasks)
        ReplicatedBatch(plan, read, QUERY, batch_id, self.staging(batch_id)).run()

    def staging(self, _batch_id: int) -> Staging | None:
        return None

    def _journal(self) -> Journal:
        journal = Journal("memory")
        journal.__dict__["_files"] = self.files
        return journal

    def _reading(self, records: Sequence[Record], tasks: int) -> Callable[[Reader], pa.Table]:
        def read(reader: Reader) -> pa.Table:
            self.deaths.step()
            receipts = []
            size = -(-len(records) // tasks)
            for number in range(tasks):
                rows = [
                    {"key": b"key", "value": value, "topic": topic, "partition": partition, "offset": offset}
                    for topic, partition, offset, value in records[number * size : (number + 1) * size]
                ]
                receipts += list(reader.run(iter([pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)])))
            return pa.Table.from_batches(receipts) if receipts else _nothing(reader)

        return read


def _nothing(reader: Reader) -> pa.Table:
    one = [{"key": b"key", "value": b'{"columns": []}', "topic": "t", "partition": 0, "offset": 0}]
    rows = pa.RecordBatch.from_pylist(one, schema=RAW_SCHEMA)
    return next(iter(Reader(reader.format, {}).run(iter([rows])))).schema.empty_table()


@pytest.fixture
def world() -> World:
    return World()


def goods(offset: int, kind: str = "+I", topic: str = "goods", **row: Any) -> Record:
    return (topic, 0, offset, message(kind, **row))


def test_a_new_column_comes_into_the_table(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a")])
    world.run(1, [goods(1, id=2, name="b", more="c"), goods(2, id=3, name="d")])
    assert world.tables["goods"].rows == {
        1: {"id": 1, "name": "a"},
        2: {"id": 2, "name": "b", "more": "c"},
        3: {"id": 3, "name": "d", "more": None},
    }


def test_a_table_gets_a_number_of_its_own_for_each_batch_with_its_rows(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a")])
    world.run(1, [goods(0, topic="people", id=1, name="x"), ("goods", 0, 1, None)])
    world.run(2, [goods(2, id=1, name="b")])
    markers = {topic: table.marker for topic, table in world.tables.items()}
    assert {topic: one and one.batch_id for topic, one in markers.items()} == {"goods": 1, "people": 0}


def test_a_table_that_fails_stops_the_query_and_the_others_have_the_batch(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a"), goods(0, topic="people", id=1, name="x")])
    world.tables["goods"].error = ValueError("disk full")
    second = [goods(1, id=1, name="b"), goods(1, topic="people", id=1, name="y")]
    with pytest.raises(
        MaterializeError, match=r"1 of 2 tables of batch 1 were not changed: goods: ValueError: disk full"
    ):
        world.run(1, second)
    assert world.tables["people"].rows[1]["name"] == "y"
    world.tables["goods"].error = None
    world.run(1, second)
    assert {topic: table.rows[1]["name"] for topic, table in world.tables.items()} == {
        "goods": "b",
        "people": "y",
    }
    assert {table.applied for table in world.tables.values()} == {2}


def test_the_error_of_the_only_table_of_a_batch_is_not_its_own_cause(world: World) -> None:
    """Who follows the causes of such an error never comes to an end."""
    inner = KeyError("inner")
    world.run(0, [goods(0, id=1, name="a")])
    world.tables["goods"].error = MaterializeError("disk full")
    world.tables["goods"].error.__cause__ = inner
    with pytest.raises(MaterializeError, match="disk full") as error:
        world.run(1, [goods(1, id=1, name="b")])
    assert error.value.__cause__ is inner


def test_a_table_that_is_left_out_stays_as_it_was(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.run(0, [goods(0, id=1, name="a"), goods(0, topic="people", id=1, name="x")])
    world.tables["goods"].error = ValueError("disk full")
    for batch_id in (1, 2):
        both = [goods(batch_id, id=1, name="b"), goods(batch_id, topic="people", id=1, name=str(batch_id))]
        world.run(batch_id, both, on_table_error="leave-out")
        world.tables["goods"].error = None
    assert world.tables["goods"].rows == {1: {"id": 1, "name": "a"}}
    assert world.tables["people"].rows[1]["name"] == "2"
    assert [one.getMessage() for one in caplog.records] == [
        "The table of topic goods is left out in batch 1 of query query and after it, because it failed: "
        "ValueError: disk full"
    ]


def test_a_job_of_spark_that_fails_leaves_no_table_out(world: World) -> None:
    """The query may be stopping, or an executor may be lost. The next start gives the table its rows."""
    world.run(0, [goods(0, id=1, name="a")])
    table: Any = world.tables["goods"]
    table.runs_jobs = True
    changes = [goods(1, id=1, name="b"), goods(1, topic="people", id=1, name="x")]
    for error in (RuntimeError("Job 7 cancelled"), OptionError("spark.wap.branch is set", option="x")):
        table.error = error
        with pytest.raises(MaterializeError, match=str(error)):
            world.run(1, changes, on_table_error="leave-out")
    table.error = None
    world.run(1, changes, on_table_error="leave-out")
    assert table.rows == {1: {"id": 1, "name": "b"}}


def test_a_setting_that_is_wrong_leaves_no_table_out(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a")])
    world.tables["goods"].error = OptionError("wrong", option="x")
    with pytest.raises(OptionError, match="wrong"):
        world.run(1, [goods(1, id=1, name="b")], on_table_error="leave-out")


def test_a_topic_whose_messages_are_bad_is_left_out_with_its_place(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.run(0, [goods(0, id=1, name="a")])
    bad = [goods(7, "bad", id=2, name="b"), goods(0, topic="people", id=1, name="x")]
    with pytest.raises(DecodeError, match=r"Topic goods, partition 0: 1 messages .*offset 7: is bad"):
        world.run(1, bad)
    world.run(1, bad, on_table_error="leave-out")
    assert world.tables["people"].rows == {1: {"id": 1, "name": "x"}}
    assert "Its table has the records before the offset 7 of partition 0" in caplog.text
    world.run(2, [goods(8, id=3, name="c")], on_table_error="leave-out")
    assert world.tables["goods"].rows == {1: {"id": 1, "name": "a"}}


def test_a_topic_without_a_key_is_named(world: World) -> None:
    keyless = [goods(0, topic="log", name="x"), goods(0, id=1, name="a")]
    with pytest.raises(
        MissingOptionError, match=r"primary key of topic log is unknown.*keys=\{'log': \['id'\]\}"
    ):
        world.run(0, keyless)
    world.run(0, keyless, on_table_error="leave-out")
    world.run(1, [goods(1, topic="log", id=1, name="y")], on_table_error="leave-out")
    assert set(world.tables) == {"goods"}


def test_a_repeated_batch_with_other_records_is_refused(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a")])
    with pytest.raises(PenstockError, match="decided before with other rows of the topics goods"):
        world.run(0, [goods(0, id=1, name="z")])
    assert world.tables["goods"].rows[1]["name"] == "a"


NAMES = ("name", "more", "size", "note")
CHANGE = st.tuples(
    st.sampled_from(["a", "b", "c"]), st.integers(0, 3), st.sampled_from(["+I", "-D"]), st.integers(1, 4)
)
HISTORY = st.lists(st.lists(CHANGE, max_size=6), min_size=1, max_size=5)


@given(HISTORY, st.lists(st.integers(1, 25), max_size=8), st.integers(1, 3))
def test_whatever_dies_each_table_has_what_its_topic_says(
    history: list[list[tuple[str, int, str, int]]], deaths: list[int], tasks: int
) -> None:
    world = World()
    expected: dict[str, dict[int, dict[str, Any]]] = {}
    columns: dict[str, list[str]] = {}
    offset, batches = 0, []
    for changes in history:
        batch: list[Record] = []
        for topic, key, kind, width in changes:
            offset += 1
            row = {"id": key} | {name: f"{name}{offset}" for name in NAMES[:width]}
            batch.append((topic, key % 2, offset, message(kind, **row)))
            columns[topic] = max(columns.get(topic, []), list(row), key=len)
            rows = expected.setdefault(topic, {})
            rows.pop(key, None)
            if kind == "+I":
                rows[key] = row
        batches.append(batch)
    for batch_id, batch in enumerate(batches):
        is_done = False
        while not is_done:
            world.deaths.left = deaths.pop() if deaths else -1
            try:
                world.run(batch_id, batch, tasks=tasks)
                is_done = True
            except DeathError:
                continue
    assert world.tables.keys() == expected.keys()
    for topic, table in world.tables.items():
        given_rows = {key: {n: v for n, v in row.items() if v is not None} for key, row in table.rows.items()}
        assert given_rows == expected[topic]


def test_columns_that_were_ignored_are_added_when_they_may_be(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a")], evolve="ignore")
    world.run(1, [goods(1, id=2, name="b", more="c")], evolve="ignore")
    world.run(2, [goods(2, id=3, name="d", more="e")], evolve="lenient")
    assert world.tables["goods"].rows == {
        1: {"id": 1, "name": "a"},
        2: {"id": 2, "name": "b"},
        3: {"id": 3, "name": "d", "more": "e"},
    }


def test_keys_that_are_not_those_of_the_records_are_refused(world: World) -> None:
    with pytest.raises(SchemaError, match="`keys` says name for topic goods, and its record key has id"):
        world.run(0, [goods(0, id=1, name="a")], keys={"goods": ("name",)})


def test_keys_that_were_changed_at_a_restart_are_refused(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a")])
    with pytest.raises(SchemaError, match="primary key of topic goods was id, and now it is name"):
        world.run(1, [goods(1, id=1, name="b")], keys={"goods": ("name",)})


def test_two_topics_cannot_share_a_table(world: World) -> None:
    shared = world.tables["goods"] = world.tables["people"] = Table(world.deaths)
    with pytest.raises(
        MaterializeError, match=r"(goods|people): TableOrderError: the table is kept by query"
    ):
        world.run(0, [goods(0, id=1, name="a"), goods(0, topic="people", id=1, name="a")])
    assert shared.applied == 1


def test_a_driver_that_is_behind_leaves_no_table_out(world: World) -> None:
    first, second = [goods(0, id=1, name="a")], [goods(1, id=1, name="b")]
    world.run(0, first)
    world.run(1, second)
    with pytest.raises(TableOrderError, match="is older than batch 1"):
        world.run(0, first, on_table_error="leave-out")
    world.tables["goods"].error = ValueError("locked")
    with pytest.raises(StateError, match=r"Tables failed in batch 0 .* has decided batch 1"):
        world.run(0, first, on_table_error="leave-out")
    world.tables["goods"].error = None
    world.run(2, [goods(2, id=1, name="c")], on_table_error="leave-out")
    assert world.tables["goods"].rows[1]["name"] == "c"


def test_a_registry_that_does_not_answer_leaves_no_table_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise SchemaRegistryError("no answer")

    monkeypatch.setattr(SmallFormat, "source", fail)
    with pytest.raises(SchemaRegistryError):
        world.run(0, [goods(0, id=1, name="a")], on_table_error="leave-out")


def test_a_key_that_is_a_floating_point_number_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SourceTable("shop.goods", pa.schema([("id", pa.float64())]), ("id",))
    monkeypatch.setattr(SmallFormat, "source", lambda *_: source)
    with pytest.raises(SchemaError, match="'id' of type double cannot be in the primary key"):
        world.run(0, [goods(0, id=1.5)])


def test_a_history_is_refused(world: World) -> None:
    world.tables["goods"] = HistoryTable(SqlTable("goods", lambda: None, "sqlite"), time="at")  # type: ignore[assignment]  # another target
    with pytest.raises(SchemaError, match="keeps a history"):
        world.run(0, [goods(0, id=1, name="a")])


def test_keys_that_change_within_a_batch_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def source(_: object, text: str) -> SourceTable:
        names = text.split()
        return SourceTable("shop.goods", schema_of(names), tuple(names[: len(names) - 1]))

    monkeypatch.setattr(SmallFormat, "source", source)
    both = [goods(0, id=1, name="a"), goods(1, id=1, name="b", more="c")]
    given: list[dict[str, tuple[str, ...]] | None] = [{"goods": ("id",)}, None]
    for keys in given:
        with pytest.raises(SchemaError, match=r"record key has id, name|was id, and now it is id, name"):
            world.run(0, both, keys=keys)


def test_a_batch_that_was_decided_does_not_get_other_columns(world: World) -> None:
    world.run(0, [goods(0, id=1, name="a")], evolve="ignore")
    second = [goods(1, id=2, name="b", more="c")]
    world.table(SourceTopic("goods", "")).error = ValueError("disk full")
    with pytest.raises(ValueError, match="disk full"):
        world.run(1, second, evolve="ignore")
    world.tables["goods"].error = None
    with pytest.raises(StateError, match="start with the value of before until this batch is done"):
        world.run(1, second, evolve="lenient")
    world.run(1, second, evolve="ignore")
    world.run(2, [goods(2, id=3, name="d", more="e")], evolve="lenient")
    assert world.tables["goods"].rows[3] == {"id": 3, "name": "d", "more": "e"}


def test_a_parquet_table_refuses_new_columns_before_anything_is_written(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ParquetTable(str(tmp_path / "goods"), bucket_count=2)
    monkeypatch.setattr(world, "table", lambda _source: table)
    world.run(0, [goods(0, id=1, name="a")])
    wider = [goods(1, id=2, name="b", more="c")]
    message = (
        "The columns of topic goods have changed, and those of the Parquet table .* cannot change.*ignore"
    )
    with pytest.raises(SchemaError, match=message):
        world.run(1, wider)
    world.run(1, wider, evolve="ignore")
    rows = pa.concat_tables([pq.read_table(path) for path in table.paths()]).sort_by("id")
    assert rows.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def declared(columns: str, rest: str | None) -> MessageFormat:
    """Return a format of messages without schemas, with columns of texts beside `id`."""
    options = {"format": "debezium-json"}
    return message_format(options, declared={"goods": schema_of(columns.split())}, rest=rest)


def plain(offset: int, **row: Any) -> Record:
    """Return a record without a schema."""
    return ("goods", 0, offset, json.dumps({"before": None, "after": row, "op": "u"}).encode())


KEYS: dict[str, tuple[str, ...]] = {"goods": ("id",)}


def test_a_field_that_is_declared_later_leaves_the_rest(world: World) -> None:
    world.format = declared("id name", "rest")
    world.run(0, [plain(0, id=1, name="a", more="b", size=1.50)], keys=KEYS)
    world.format = declared("id name more", "rest")
    world.run(1, [plain(1, id=2, name="c", more="d", size=2)], keys=KEYS)
    world.format = declared("id name", "rest")
    world.run(2, [plain(2, id=3, name="e", more="f", size=3)], keys=KEYS)
    assert world.tables["goods"].rows == {
        1: {"id": 1, "name": "a", "rest": '{"more":"b","size":1.5}'},
        2: {"id": 2, "name": "c", "rest": '{"size":2}', "more": "d"},
        3: {"id": 3, "name": "e", "rest": '{"size":3}', "more": "f"},
    }


def test_a_column_that_is_not_declared_any_more_gets_its_values(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.format = declared("id name", "rest")
    world.run(0, [plain(0, id=1, name="a", more="b")], keys=KEYS)
    world.format = declared("id more", "rest")
    world.run(1, [plain(1, id=2, name="c", more="d")], keys=KEYS)
    assert world.tables["goods"].rows[2] == {"id": 2, "name": "c", "more": "d", "rest": None}
    told = "kept name, which is not declared any more and still gets the values of its field"
    assert [one.getMessage().partition(": ")[2] for one in caplog.records] == [f"added string more; {told}"]


@pytest.mark.parametrize(
    ("first", "then"), [("rest", "more"), ("rest", None), (None, "name")], ids=["renamed", "none", "a column"]
)
def test_a_rest_does_not_share_a_column_with_other_values(
    world: World, first: str | None, then: str | None
) -> None:
    world.format = declared("id name", first)
    world.run(0, [plain(0, id=1, name="a")], keys=KEYS, evolve="ignore")
    world.format = declared("id", then)
    with pytest.raises(SchemaError, match=rf"`rest` was {first!r} for the table .* now it is {then!r}"):
        world.run(1, [plain(1, id=2, name="b")], keys=KEYS)
    world.format = declared("id name", first)
    world.run(1, [plain(1, id=2, name="b")], keys=KEYS, evolve="ignore")
    assert world.tables["goods"].rows[2]["name"] == "b"


def test_a_rest_that_came_later_does_not_go_in_silence(world: World) -> None:
    """The schema of the batches before `rest` is known, and has to be judged again all the same."""
    world.format = declared("id name", None)
    world.run(0, [plain(0, id=1, name="a", more="b")], keys=KEYS, evolve="ignore")
    world.format = declared("id name", "rest")
    world.run(1, [plain(1, id=1, name="a", more="c")], keys=KEYS)
    world.format = declared("id name", None)
    with pytest.raises(SchemaError, match=r"`rest` was 'rest' for the table .* now it is None"):
        world.run(2, [plain(2, id=1, name="a", more="d", rest="e")], keys=KEYS, evolve="ignore")
    assert world.tables["goods"].rows == {1: {"id": 1, "name": "a", "rest": '{"more":"c"}'}}


def test_a_rest_for_a_table_that_gets_no_columns_is_an_error(world: World) -> None:
    world.format = declared("id name", None)
    world.run(0, [plain(0, id=1, name="a")], keys=KEYS, evolve="ignore")
    world.format = declared("id name", "rest")
    with pytest.raises(SchemaError, match="With evolve='ignore' no column is added"):
        world.run(1, [plain(1, id=2, name="b", more="c")], keys=KEYS, evolve="ignore")
    world.run(1, [plain(1, id=2, name="b", more="c")], keys=KEYS)
    assert world.tables["goods"].rows[2] == {"id": 2, "name": "b", "rest": '{"more":"c"}'}


def test_a_declared_column_that_evolve_leaves_out_is_in_the_rest(world: World) -> None:
    world.format = declared("id name", "rest")
    world.run(0, [plain(0, id=1, name="a")], keys=KEYS, evolve="ignore")
    world.format = declared("id name more", "rest")
    world.run(1, [plain(1, id=2, name="b", more="c")], keys=KEYS, evolve="ignore")
    assert world.tables["goods"].rows[2] == {"id": 2, "name": "b", "rest": '{"more":"c"}'}


def test_messages_that_have_schemas_at_last_fill_columns_and_the_rest_stays(world: World) -> None:
    world.format = declared("id name", "rest")
    world.run(0, [plain(0, id=1, name="a", more="b")], keys=KEYS)
    world.format = SmallFormat()
    world.run(1, [goods(1, id=2, name="c", more="d")])
    assert world.tables["goods"].rows == {
        1: {"id": 1, "name": "a", "rest": '{"more":"b"}'},
        2: {"id": 2, "name": "c", "rest": None, "more": "d"},
    }
    with pytest.raises(SchemaError, match="Column 'rest' would have fields that are not declared"):
        world.run(2, [goods(2, id=3, rest="x")])


def test_a_topic_without_declared_columns_is_named_and_may_be_left_out(world: World) -> None:
    world.format = declared("id name", "rest")
    others = [("people", 0, 0, plain(0, id=1)[3]), plain(0, id=1, name="a")]
    with pytest.raises(SchemaError, match="Topic 'people' has messages without schemas"):
        world.run(0, others, keys=KEYS)
    world.run(0, others, keys=KEYS, on_table_error="leave-out")
    assert set(world.tables) == {"goods"}
