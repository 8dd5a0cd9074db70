"""Rows of every type with any row kind, written in a format and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codec.schema import KAFKA_RECORDS
from penstock.formats import ROW_KIND, metadata_column
from penstock.table import make_table
from penstock.table.upsert_decode import UpsertDecoder
from penstock.table.upsert_encode import UpsertEncoder
from tests.examples import examples
from tests.judges.cdc.tables import EVERY_TYPE, plain_column, schema_of
from tests.registry_server import running_registry
from tests.table_specs import format_for, table_spec, write_spec

KIND = metadata_column(ROW_KIND)
KINDS = {"+I": "+I", "-U": "-D", "+U": "+I", "-D": "-D"}
"""The kind of a row that was written with a kind and read again: an update is written as two messages."""

ANY_RECORD = pa.schema([one.with_nullable(True) for one in KAFKA_RECORDS])
AVRO = "debezium-avro-confluent"
FORMATS: dict[str, dict[str, str]] = {
    "debezium-json": {},
    "canal-json": {},
    "maxwell-json": {},
    "ogg-json": {},
    "debezium-json, ISO-8601": {"timestamp-format.standard": "ISO-8601"},
    "maxwell-json, without nulls": {"encode.ignore-null-fields": "true"},
    "canal-json, plain decimals": {"encode.decimal-as-plain-number": "true"},
}
NOT_IN_AVRO = ("ti", "sm", "tm", "ts", "tz")
"""Columns whose types Avro has in another precision or not at all."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
CENTS = st.integers(-(10**10) + 1, 10**10 - 1).map(lambda number: Decimal(number).scaleb(-2))
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "bo": st.booleans(),
    "ti": st.integers(-(2**7), 2**7 - 1),
    "sm": st.integers(-(2**15), 2**15 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(width=32),
    "d": st.floats(),
    "de": CENTS,
    "s": TEXT,
    "by": st.binary(max_size=6),
    "da": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "tm": st.integers(0, 86_399).map(lambda at: time(at // 3600, at // 60 % 60, at % 60)),
    "ts": st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),  # noqa: DTZ001 - has no zone
    "tz": st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001 - has one
    "ar": st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=3),
    "m": st.dictionaries(TEXT, st.none() | TEXT, max_size=3).map(lambda found: list(found.items())),
    "r": st.fixed_dictionaries({"a": st.none() | st.integers(-5, 5), "b": st.none() | TEXT}),
}  # fmt: skip
ROWS = st.fixed_dictionaries({name: st.none() | cells for name, cells in CELLS.items()})
CHANGES = st.lists(st.tuples(st.sampled_from(sorted(KINDS)), ROWS), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_registry() as registry:
        yield registry.url


def shown(batch: pa.RecordBatch, names: Sequence[str]) -> list[list[Any]]:
    """Return the rows so that NaN equals NaN, and -0.0 does not equal 0.0."""
    columns = (map(repr, plain_column(batch.column(name))) for name in names)
    return [list(row) for row in zip(*columns, strict=True)]


@settings(max_examples=examples(60))
@given(changes=CHANGES)
def test_rows_of_every_type_are_read_as_they_were_written(
    url: str, changes: list[tuple[str, dict[str, Any]]]
) -> None:
    kinds = pa.array([kind for kind, _ in changes])
    for case, options in [*FORMATS.items(), (AVRO, {"url": url})]:
        name = case.partition(",")[0]
        columns = {key: kind for key, kind in EVERY_TYPE.items() if name != AVRO or key not in NOT_IN_AVRO}
        schema = schema_of(columns)
        rows = pa.RecordBatch.from_pylist([{key: row[key] for key in columns} for _, row in changes], schema)
        made = format_for(name, {"topic": "t", **{f"{name}.{key}": text for key, text in options.items()}})
        values = made.encoder(schema).encode(rows.append_column(KIND, kinds))
        found = made.decoder(schema, [KIND, *columns]).decode(values)
        assert not found.failures
        assert found.rows.column(KIND).to_pylist() == [KINDS[kind] for kind, _ in changes]
        assert (case, shown(found.rows, schema.names)) == (case, shown(rows, schema.names))


KEYS = [name for name in CELLS if name not in ("ar", "m", "r")]


@settings(max_examples=examples(60))
@given(data=st.data(), names=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
def test_a_primary_key_of_any_types_is_read_as_it_was_written(data: st.DataObject, names: list[str]) -> None:
    cells = [st.sampled_from(["+I", "+U", "-D"]), *(CELLS[name] for name in names), st.none() | TEXT]
    drawn = data.draw(st.lists(st.tuples(*cells), min_size=1, max_size=4))
    schema = schema_of({name: EVERY_TYPE[name] for name in names} | {"v": "STRING", "row_kind": "STRING"})
    rows = pa.RecordBatch.from_pylist(
        [dict(zip(["row_kind", *names, "v"], row, strict=True)) for row in drawn], schema
    )
    for key, include in [("json", "ALL"), ("json", "EXCEPT_KEY"), ("csv", "EXCEPT_KEY")]:
        options = {"connector": "upsert-kafka", "topic": "t", "primary-key": ";".join(reversed(names)),
                   "key.format": key, "value.format": "json", "value.fields-include": include}  # fmt: skip
        spec = write_spec(options)
        assert spec is not None
        [records] = UpsertEncoder(make_table(schema, spec), "t").records([rows])
        read = [
            {"topic": "t", "partition": 0, "offset": i, **row} for i, row in enumerate(records.to_pylist())
        ]
        decoder = UpsertDecoder(make_table(schema, table_spec(options)))
        found = decoder.decode(pa.RecordBatch.from_pylist(read, schema=ANY_RECORD))
        assert not found.failures
        wanted = [
            {**row, "v": None} if row["row_kind"] == "-D" else {**row, "row_kind": "+U"}
            for row in rows.to_pylist()
        ]
        assert shown(found.rows, schema.names) == shown(
            pa.RecordBatch.from_pylist(wanted, schema), schema.names
        )
