"""Changelog formats and upsert tables give what Flink gave for the same bytes and tables.

`tests/judges/cdc` asked Flink and recorded its answers in tests/data/cdc. The differences that are wanted
stand in flink_differences.py and in docs/formats-compared.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest

from penstock.changelog.operators.normalize import Normalize
from penstock.codec.schema import KAFKA_RECORDS
from penstock.formats import ROW_KIND, metadata_column
from penstock.table import make_table
from penstock.table.upsert_decode import UpsertDecoder
from penstock.table.upsert_encode import UpsertEncoder
from tests.judges.cdc.corpus import CASES, READS, UPSERTS, file_of, recorded
from tests.judges.cdc.corpus_written import WRITES
from tests.judges.cdc.tables import METADATA, Read, Upsert, Write, hidden, plain_column, schema_of, shown
from tests.registry_server import Registry, running_registry
from tests.table_specs import format_for, table_spec, write_spec
from tests.unit.changelog.running import Running
from tests.unit.formats.flink_differences import HISTORIES, ROWS

KIND = metadata_column(ROW_KIND)
FLOATING = re.compile(rb'("(?:d|f|weight)":)(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)')
ANY_RECORD = pa.schema([one.with_nullable(True) for one in KAFKA_RECORDS])
KEYED = [one for one in UPSERTS if one.records]
ERROR = "error"


@contextmanager
def options_of(case: Read | Write) -> Iterator[tuple[dict[str, str], Registry | None]]:
    options = {"topic": "t", **case.options}
    if case.format != "debezium-avro-confluent":
        yield options, None
        return
    with running_registry() as registry:
        for schema in case.schemas if isinstance(case, Read) else ():
            registry.register("t-value", schema)
        yield {**options, f"{case.format}.url": registry.url}, registry


def rows_of(batch: pa.RecordBatch) -> list[list[Any]]:
    """Return the rows as the recording has them: the kind, and the values."""
    columns = map(plain_column, batch.columns)
    return [[kind, list(values)] for kind, *values in zip(*columns, strict=True)]


def penstocks_answers(case: Read) -> dict[str, Any]:
    """Return the rows of each message, or that it is an error."""
    schema = schema_of(case.columns)
    columns = [KIND, *schema.names, *(metadata_column(key) for key in case.metadata().values())]
    with options_of(case) as (options, _):
        decoder = format_for(case.format, options).decoder(schema, columns)
        found = decoder.decode(pa.array(case.messages.values(), pa.binary()))
    answers: list[Any] = [[] for _ in case.messages]
    for index, row in zip(found.indices().to_pylist(), rows_of(found.rows), strict=True):
        answers[index].append(row)
    for one in found.failures:
        assert answers[one.value_index] == []
        answers[one.value_index] = ERROR
    return dict(zip(case.messages, answers, strict=True))


def flinks_answers(name: str) -> dict[str, Any]:
    found = recorded(name)["answer"]
    return {label: ERROR if "error" in one else one for label, one in found.items()}


def test_flink_was_asked_what_the_corpus_says() -> None:
    for name, case in CASES.items():
        assert recorded(name)["asked"] == case.asked(), f"record {name!r}: python -m tests.judges.cdc"
    answered = {name for file in {file_of(name) for name in CASES} for name in json.loads(file.read_text())}
    assert answered == set(CASES)


def test_the_corpus_reads_all_metadata_and_gives_every_row_kind_in_every_format() -> None:
    for name, keys in METADATA.items():
        assert list(keys) == [key for key in format_for(name).metadata.names if key != ROW_KIND]
        assert any(one.has_metadata for one in READS if one.format == name)
        kinds = {kind for one in READS if one.format == name for rows in flinks_answers(one.name).values()
                 for kind, _ in (rows if rows != ERROR else [])}  # fmt: skip
        assert kinds == {"+I", "-U", "+U", "-D"}


@pytest.mark.parametrize("case", READS, ids=lambda case: case.name)
def test_messages_give_the_rows_that_flink_gives(case: Read) -> None:
    ours, flinks = penstocks_answers(case), flinks_answers(case.name)
    assert list(ours) == list(flinks)
    differing = {label: answer for label, answer in ours.items() if answer != flinks[label]}
    assert differing == ROWS.get(case.name, {})


def changes_of(case: Write | Upsert) -> pa.RecordBatch:
    schema = schema_of(case.columns)
    decoder = format_for("debezium-json").decoder(schema, [KIND, *schema.names])
    found = decoder.decode(pa.array(case.changes, pa.binary()))
    assert not found.failures
    return found.rows


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.name)
def test_rows_are_written_as_flink_writes_them(case: Write) -> None:
    answer = recorded(case.name)["answer"]
    with options_of(case) as (options, registry):
        values = format_for(case.format, options).encoder(schema_of(case.columns)).encode(changes_of(case))
    assert with_equal_digits(values.to_pylist()) == with_equal_digits(map(hidden, answer["values"]))
    schemas = [one["schema"] for one in registry.schemas.values()] if registry else []
    assert list(map(json.loads, schemas)) == list(map(json.loads, answer["schemas"]))


def with_equal_digits(values: Iterable[bytes | None]) -> list[bytes | None]:
    """Write the floating numbers of JSON in one way: Java has other digits for the same number."""
    return [
        one and FLOATING.sub(lambda found: found[1] + repr(float(found[2])).encode(), one) for one in values
    ]


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.name)
def test_what_flink_wrote_is_read(case: Write) -> None:
    answer = recorded(case.name)["answer"]
    values: Any = dict(enumerate(map(hidden, answer["values"])))
    read = Read("written", case.format, case.columns, values, case.options, schemas=answer["schemas"])
    rows = rows_of(changes_of(case))
    wanted = [[[{"-U": "-D", "+U": "+I"}.get(kind, kind), row]] for kind, row in rows]
    assert list(penstocks_answers(read).values()) == wanted


def of_upsert(case: Upsert) -> dict[str, str]:
    keys = {"primary-key": ";".join(case.primary_key)}
    return {"connector": "upsert-kafka", "topic": "t", **keys, **case.options}


def kept_history(case: Upsert) -> Any:
    """Return the changes of each key, in order: the rows of the records, normalized."""
    schema = pa.schema(
        [one.with_nullable(one.name not in case.primary_key) for one in schema_of(case.columns)]
    )
    columns = pa.schema([*schema, ("offset", pa.int64())])
    spec = table_spec({**of_upsert(case), "metadata.columns": "offset"})
    table = make_table(columns.append(pa.field("row_kind", pa.string())), spec)
    records = [
        {"topic": "t", "partition": 0, "offset": i, "key": key, "value": value}
        for i, (key, value) in enumerate(case.records)
    ]
    found = UpsertDecoder(table).decode(pa.RecordBatch.from_pylist(records, schema=ANY_RECORD))
    if found.failures:
        return ERROR
    running = Running(Normalize(columns, tuple(case.primary_key), ("offset",)), table.schema)
    rows = pa.Table.from_pylist(running.step(found.rows.to_pylist()), running.operator.out_columns)
    return by_key(case, rows_of(rows.select(["row_kind", *schema.names]).combine_chunks().to_batches()[0]))


def by_key(case: Upsert, rows: Any) -> Any:
    if "error" in rows:
        return ERROR
    indices = [list(case.columns).index(name) for name in case.primary_key]

    def key(row: Any) -> list[Any]:
        return [row[1][index] for index in indices]

    return {str(one): list(each) for one, each in groupby(sorted(rows, key=key), key)}


@pytest.mark.parametrize("case", KEYED, ids=lambda case: case.name)
def test_records_of_an_upsert_table_give_the_changelog_that_flink_gives(case: Upsert) -> None:
    ours, flinks = kept_history(case), by_key(case, recorded(case.name)["answer"])
    assert ours == HISTORIES.get(case.name, flinks)
    assert (ours != flinks) == (case.name in HISTORIES)


@contextmanager
def upsert_options(case: Upsert) -> Iterator[tuple[dict[str, str], Registry]]:
    with running_registry() as registry:
        yield of_upsert(case) | case.registry_urls(lambda: registry.url), registry


def nullable(columns: pa.Schema) -> pa.Schema:
    return pa.schema([one.with_nullable(True) for one in columns])


@pytest.mark.parametrize("as_declared", [list, nullable])
@pytest.mark.parametrize("case", [one for one in UPSERTS if one.changes], ids=lambda case: case.name)
def test_changes_are_written_into_an_upsert_table_as_flink_writes_them(
    case: Upsert, as_declared: Callable[[pa.Schema], Iterable[pa.Field]]
) -> None:
    """The columns of a DataFrame may hold nulls, unless somebody has declared the schema."""
    answer, changes = recorded(case.name)["answer"], changes_of(case)
    columns = pa.schema([*as_declared(schema_of(case.columns)), ("row_kind", pa.string())])
    rows = pa.RecordBatch.from_arrays([*changes.columns[1:], changes.column(0)], schema=columns)
    with upsert_options(case) as (options, registry):
        spec = write_spec(options)
        assert spec is not None
        batches = UpsertEncoder(make_table(columns, spec), "t").records([rows])
        found = [row for one in batches for row in one.to_pylist()]
        schemas = [json.loads(one["schema"]) for one in registry.schemas.values()]
    ours = [[shown(row["key"]), shown(with_equal_digits([row["value"]])[0])] for row in found]
    flinks = [[key, shown(with_equal_digits([hidden(value)])[0])] for key, value in answer["records"]]
    assert ours == HISTORIES.get(case.name, flinks)
    assert (ours != flinks) == (case.name in HISTORIES)
    assert schemas == [json.loads(one) for one in answer.get("schemas", [])]


@pytest.mark.parametrize("as_declared", [list, nullable])
@pytest.mark.parametrize(
    "case",
    # Without a literal for null CSV writes null as an empty text.
    [one for one in UPSERTS if one.changes and one.name != "upsert keys, types in csv"],
    ids=lambda case: case.name,
)
def test_an_upsert_table_that_flink_wrote_is_read(
    case: Upsert, as_declared: Callable[[pa.Schema], Iterable[pa.Field]]
) -> None:
    columns = pa.schema([*as_declared(schema_of(case.columns)), ("row_kind", pa.string())])
    answer = recorded(case.name)["answer"]
    records = [
        {"topic": "t", "partition": 0, "offset": i, "key": hidden(key), "value": hidden(value)}
        for i, (key, value) in enumerate(answer["records"])
    ]
    with upsert_options(case) as (options, registry):
        for schema in answer.get("schemas", []):
            registry.register(f"subject-{len(registry.schemas)}", schema)
        decoder = UpsertDecoder(make_table(columns, table_spec(options)))
        found = decoder.decode(pa.RecordBatch.from_pylist(records, schema=ANY_RECORD))
    # As CSV Flink writes an empty key for an empty text, and does not read it either.
    unreadable = [record for record in records if record["key"] == b""]
    assert len(found.failures) == len(unreadable)
    assert all("the key is null or empty" in one.reason for one in found.failures)
    wanted = [
        ["+U", row] if kind != "-D" else ["-D", only_key(case, row)]
        for kind, row in rows_of(changes_of(case))
        if kind != "-U" and not (unreadable and row[0] == "")
    ]
    assert rows_of(found.rows.select(["row_kind", *case.columns])) == wanted


def only_key(case: Upsert, row: list[Any]) -> list[Any]:
    columns = zip(case.columns, row, strict=True)
    return [value if name in case.primary_key else None for name, value in columns]
