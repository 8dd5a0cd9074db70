"""One history of a table in every format: after `normalize` one table, also with duplicates and replays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.normalize import Normalize
from penstock.codec.schema import KAFKA_RECORDS
from penstock.formats import ROW_KIND, Encoder, Format, metadata_column
from penstock.table import make_table
from penstock.table.upsert_decode import UpsertDecoder
from tests.examples import examples
from tests.judges.cdc.corpus_avro import Registered, envelope
from tests.registry_server import running_registry
from tests.table_specs import format_for, table_spec
from tests.unit.changelog.running import Row, Running, as_changelog

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("weight", pa.float64())])
ORDERED = COLUMNS.append(pa.field("at", pa.int64()))
KIND = metadata_column(ROW_KIND)
ANY_RECORD = pa.schema([one.with_nullable(True) for one in KAFKA_RECORDS])

Change = tuple[Row | None, Row | None]
"""The old and the new row."""

CELLS = st.fixed_dictionaries(
    {"name": st.none() | st.text(max_size=3), "weight": st.none() | st.floats(0, 9)}
)
STEPS = st.lists(st.tuples(st.integers(1, 5), st.none() | CELLS, st.integers(1, 5)), max_size=25)
"""Of each step: the key, the new cells or a delete, and the key that an update moves the row to."""


def history(steps: list[tuple[int, Row | None, int]]) -> tuple[list[Change], list[Row]]:
    """Return the changes, and the table after them."""
    table: dict[int, Row] = {}
    found: list[Change] = []
    for key, cells, moved in steps:
        old = table.pop(key, None)
        if cells is not None:
            new_key = moved if old is not None and moved not in table else key
            table[new_key] = {"id": new_key, **cells}
            found.append((old, table[new_key]))
        elif old is not None:
            found.append((old, None))
    return found, list(table.values())


def message(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def changed(old: Row, new: Row) -> Row:
    return {name: value for name, value in old.items() if value != new[name]}


def to_debezium(old: Row | None, new: Row | None) -> bytes:
    return message(op="u" if old and new else "c" if new else "d", before=old, after=new)


def with_schema(old: Row | None, new: Row | None) -> bytes:
    return b'{"schema":{"type":"struct"},"payload":' + to_debezium(old, new) + b"}"


def to_ogg(old: Row | None, new: Row | None) -> bytes:
    return message(op_type="U" if old and new else "I" if new else "D", before=old, after=new)


def to_maxwell(old: Row | None, new: Row | None) -> bytes:
    if old and new:
        return message(type="update", data=new, old=changed(old, new))
    return message(type="insert" if new else "delete", data=new or old)


def statements(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Group changes as a database does that changes several rows with one statement."""
    group: list[Change] = []
    keys: set[int] = set()
    for old, new in changes:
        touched = {row["id"] for row in (old, new) if row}
        if group and (touched & keys or [bool(row) for row in group[0]] != [bool(old), bool(new)]):
            yield group
            group, keys = [], set()
        group.append((old, new))
        keys |= touched
    if group:
        yield group


def to_canal(group: Sequence[Change]) -> bytes:
    data = [new or old for old, new in group]
    if all(old and new for old, new in group):
        return message(type="UPDATE", data=data, old=[changed(old, new) for old, new in group if old and new])
    return message(type="INSERT" if group[0][1] else "DELETE", data=data, old=None)


def one_by_one(old: Row | None, new: Row | None) -> bytes:
    return to_canal([(old, new)])


JSON_WRITERS: dict[str, Callable[[Row | None, Row | None], bytes]] = {
    "debezium-json": to_debezium,
    "debezium-json with schema": with_schema,
    "ogg-json": to_ogg,
    "maxwell-json": to_maxwell,
    "canal-json": one_by_one,
}


AVRO = "debezium-avro-confluent"
REGISTERED = Registered(
    1, envelope(("id", "long"), ("name", ["null", "string"]), ("weight", ["null", "double"]))
)


def to_avro(old: Row | None, new: Row | None) -> bytes:
    return REGISTERED.event("u" if old and new else "c" if new else "d", old, new)


WRITERS = JSON_WRITERS | {AVRO: to_avro}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run a registry that has the schema of the messages in Avro."""
    with running_registry() as registry:
        assert registry.register("goods-value", REGISTERED.text) == 1
        yield registry.url


def rows_of(made: Format, values: Sequence[bytes], offsets: Sequence[int]) -> list[Row]:
    found = made.decoder(COLUMNS, [*COLUMNS.names, KIND]).decode(pa.array(values, pa.binary()))
    assert not found.failures
    rows: list[Row] = found.rows.to_pylist()
    for index, row in zip(found.indices().to_pylist(), rows, strict=True):
        row |= {"at": offsets[index], "row_kind": row.pop(KIND)}
    return rows


UPSERT = table_spec(
    {"connector": "upsert-kafka", "primary-key": "id", "key.format": "json", "value.format": "json"}
)


def upserted(old: Row | None, new: Row | None) -> list[tuple[bytes, bytes | None]]:
    """Return the records of a change: a tombstone for a key that went, and the value of one that came."""
    gone = [(message(id=old["id"]), None)] if old and (new is None or new["id"] != old["id"]) else []
    return [*gone, *([(message(id=new["id"]), message(**new))] if new else [])]


def rows_of_upserts(records: Sequence[tuple[bytes, bytes | None]], offsets: Sequence[int]) -> list[Row]:
    table = make_table(COLUMNS.append(pa.field("row_kind", pa.string())), UPSERT)
    read = [
        {"topic": "t", "partition": 0, "offset": i, "key": key, "value": value}
        for i, (key, value) in enumerate(records)
    ]
    found = UpsertDecoder(table).decode(pa.RecordBatch.from_pylist(read, schema=ANY_RECORD))
    assert not found.failures
    indices = range(len(records)) if found.record_indices is None else found.record_indices.to_pylist()
    rows: list[Row] = found.rows.to_pylist()
    return [{**row, "at": offsets[index]} for index, row in zip(indices, rows, strict=True)]


def normalized(batches: Sequence[list[Row]]) -> list[Row]:
    """Return the table that the changelog of `normalize` makes; every change must fit the rows before it."""
    running = Running(Normalize(ORDERED, ("id",), ("at",)), ORDERED.append(pa.field("row_kind", pa.string())))
    out = [row for batch in batches for row in running.step(batch)]
    rows = as_changelog(out)["rows"]
    return sorted(({name: row[name] for name in COLUMNS.names} for row in rows), key=lambda row: row["id"])


def delivered(chance: random.Random, count: int) -> list[list[int]]:
    """Return the indices of the messages in batches: now and then some come again, as after a restart."""
    batches: list[list[int]] = []
    end = 0
    while end < count:
        first = max(0, end - chance.choice([0, 0, 1, 3]))
        end = min(count, end + chance.randint(1, 6))
        batches.append(list(range(first, end)))
    return batches


def tables_of(changes: Sequence[Change], seed: int, url: str) -> Iterator[tuple[str, list[Row]]]:
    """Return the table that each format gives, delivered with duplicates."""
    written: dict[str, tuple[Format, list[bytes]]] = {
        name: (made_for(name, url), [write(*one) for one in changes]) for name, write in WRITERS.items()
    }
    written["canal-json, by statement"] = (
        format_for("canal-json"),
        [to_canal(each) for each in statements(changes)],
    )
    for name, (made, values) in written.items():
        batches = delivered(random.Random(seed), len(values))
        yield name, normalized([rows_of(made, [values[at] for at in each], each) for each in batches])
    records = [one for each in changes for one in upserted(*each)]
    batches = delivered(random.Random(seed), len(records))
    yield (
        "upsert-kafka",
        normalized([rows_of_upserts([records[at] for at in each], each) for each in batches]),
    )


def made_for(name: str, url: str = "", *, is_lenient: bool = False) -> Format:
    name, _, schema = name.partition(" with ")
    options = {f"{name}.schema-include": "true"} if schema else {}
    options |= {f"{AVRO}.url": url, "topic": "goods"} if name == AVRO else {}
    return format_for(name, options | ({f"{name}.ignore-parse-errors": "true"} if is_lenient else {}))


@settings(max_examples=examples(15))
@given(STEPS)
def test_any_history_gives_the_same_changes_in_every_format(
    url: str, steps: list[tuple[int, Row | None, int]]
) -> None:
    changes, _ = history(steps)
    wanted = []
    for at, (old, new) in enumerate(changes):
        is_update = old is not None and new is not None
        wanted += [{**old, "at": at, "row_kind": "-U" if is_update else "-D"}] if old else []
        wanted += [{**new, "at": at, "row_kind": "+U" if is_update else "+I"}] if new else []
    for name, write in WRITERS.items():
        found = rows_of(made_for(name, url), [write(*one) for one in changes], range(len(changes)))
        assert (name, found) == (name, wanted)


@settings(max_examples=examples(25))
@given(STEPS, st.integers(0, 2**32))
def test_one_history_gives_one_table_in_every_format(
    url: str, steps: list[tuple[int, Row | None, int]], seed: int
) -> None:
    changes, table = history(steps)
    wanted = sorted(table, key=lambda row: row["id"])
    for name, found in tables_of(changes, seed, url):
        assert (name, found) == (name, wanted)


@settings(max_examples=examples(15))
@given(STEPS)
def test_a_changelog_that_is_written_gives_its_table_in_every_format(
    url: str, steps: list[tuple[int, Row | None, int]]
) -> None:
    changes, table = history(steps)
    wanted = sorted(table, key=lambda row: row["id"])
    for name in ("debezium-json", "canal-json", "maxwell-json", "ogg-json", AVRO):
        made = made_for(name, url)
        assert (name, written_and_read(made, made.encoder(COLUMNS), changes)) == (name, wanted)


def written_and_read(made: Format, encoder: Encoder, changes: Sequence[Change]) -> list[Row]:
    """Write the changes as rows with kinds, and return the table that the messages give."""
    rows = []
    for old, new in changes:
        is_update = old is not None and new is not None
        rows += [{**old, KIND: "-U" if is_update else "-D"}] if old else []
        rows += [{**new, KIND: "+U" if is_update else "+I"}] if new else []
    schema = COLUMNS.append(pa.field(KIND, pa.string()))
    values = encoder.encode(pa.RecordBatch.from_pylist(rows, schema=schema)).to_pylist()
    return normalized([rows_of(made, values, range(len(values)))])


@pytest.mark.parametrize("cut", range(1, 80, 3))
def test_a_cut_message_gives_no_row_and_is_counted_if_parse_errors_are_ignored(cut: int) -> None:
    old, new = {"id": 1, "name": "a", "weight": 1.0}, {"id": 1, "name": None, "weight": 2.0}
    for name, write in JSON_WRITERS.items():
        made, lenient, whole = made_for(name), made_for(name, is_lenient=True), write(old, new)
        values = pa.array([whole, whole[:-cut], whole], pa.binary())
        strict = made.decoder(COLUMNS).decode(values)
        assert ([one.value_index for one in strict.failures], strict.row_count) == ([1], 4)
        found = lenient.decoder(COLUMNS).decode(values)
        assert (found.failures, found.ignored_count) == ([], 1)
        assert found.indices().to_pylist() == [0, 0, 2, 2]
