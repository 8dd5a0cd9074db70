"""What every format promises: rows survive a round trip, and no value ever moves another one's row."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from penstock.errors import RowError
from penstock.formats import DecodedRows, Format, format_for
from tests.contract import formats_rows as rows_of

SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Case:
    """A format under test: what it can hold, and a value that it must refuse."""

    name: str
    types: Any
    names: Any = rows_of.NAMES
    options: dict[str, str] = field(default_factory=dict)
    has_one_column: bool = False
    null_is_row: bool = False
    may_refuse: bool = False
    good: pa.DataType = field(default_factory=pa.int64)
    garbage: bytes = b"\xff\xfe{"

    @property
    def format(self) -> Format:
        return format_for(self.name, self.options)

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        try:
            return self.format.encoder(rows.schema).encode(rows)
        except RowError:
            if not self.may_refuse:
                raise
            return reject()

    def batches(self) -> Any:
        if not self.has_one_column:
            return rows_of.batches(self.types, self.names)
        return rows_of.batches(self.types, self.names).map(lambda batch: batch.select([0]))


ANY_TYPE = rows_of.nested_types(rows_of.SCALAR_TYPES, rows_of.NAMES)

# CSV's arrays and rows are one level deep; their texts must not hold the delimiter, so they hold numbers.
FLAT_TYPE = (
    rows_of.SCALAR_TYPES
    | rows_of.NUMBER_TYPES.map(pa.list_)
    | rows_of.NUMBER_TYPES.map(lambda kind: pa.struct([("x", kind), ("y", pa.int8())]))
)

AVRO_TYPE = rows_of.nested_types(
    rows_of.SCALAR_TYPES.filter(lambda kind: kind != pa.time64("ns")), rows_of.IDENTIFIERS
)

CASES = [
    Case("json", ANY_TYPE),
    Case("json", ANY_TYPE, options={"json.timestamp-format.standard": "ISO-8601"}),
    Case("json", ANY_TYPE, options={"json.encode.ignore-null-fields": "true"}),
    Case("json", ANY_TYPE, options={"json.encode.decimal-as-plain-number": "true"}),
    Case("avro", AVRO_TYPE, rows_of.IDENTIFIERS),
    Case("csv", FLAT_TYPE, options={"csv.null-literal": "\\N"}, may_refuse=True),
    Case(
        "csv",
        FLAT_TYPE,
        options={
            "csv.null-literal": "nil",
            "csv.field-delimiter": "|",
            "csv.quote-character": "'",
            "csv.escape-character": "\\",
            "csv.write-bigdecimal-in-scientific-notation": "false",
        },
        may_refuse=True,
    ),
    Case("raw", rows_of.NUMBER_TYPES | rows_of.TEXT_TYPES, has_one_column=True, null_is_row=True),
    Case(
        "raw",
        rows_of.NUMBER_TYPES | rows_of.TEXT_TYPES,
        options={"raw.endianness": "little-endian", "raw.charset": "UTF-16"},
        has_one_column=True,
        null_is_row=True,
    ),
]
IDS = [f"{case.name}-{i}" for i, case in enumerate(CASES)]

each_format = pytest.mark.parametrize("case", CASES, ids=IDS)


def decoded(case: Case, values: list[bytes | None] | pa.Array, schema: pa.Schema) -> DecodedRows:
    found = case.format.decoder(schema).decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    assert found.row_count == found.rows.num_rows == len(found.indices())
    assert found.rows.schema == schema
    return found


def good_batch(case: Case, row_count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(range(row_count), case.good)})


@each_format
@SETTINGS
@given(data=st.data())
def test_rows_survive_a_round_trip(case: Case, data: st.DataObject) -> None:
    rows = data.draw(case.batches())
    values = case.encode(rows)
    assert values.type == pa.binary()
    assert len(values) == rows.num_rows
    found = decoded(case, values, rows.schema)
    assert found.failures == []
    assert found.value_indices is None
    assert found.rows.equals(rows)


@each_format
@SETTINGS
@given(data=st.data())
def test_a_slice_is_encoded_and_decoded_as_itself(case: Case, data: st.DataObject) -> None:
    rows = data.draw(case.batches())
    start = data.draw(st.integers(0, rows.num_rows))
    piece = rows.slice(start)
    values = case.encode(piece)
    padded = pa.concat_arrays([pa.array([b"x", None], pa.binary()), values]).slice(2)
    assert decoded(case, padded, rows.schema).rows.equals(piece)


@each_format
@SETTINGS
@given(data=st.data())
def test_no_value_moves_the_rows_of_others(case: Case, data: st.DataObject) -> None:
    batch = good_batch(case, 6)
    good = case.format.encoder(batch.schema).encode(batch).to_pylist()
    other = st.none() | st.just(b"") | st.just(case.garbage) | st.binary(max_size=12) | st.just(good[0] * 2)
    values: list[bytes | None] = []
    wanted = {}
    for number, value in enumerate(good):
        values.extend(data.draw(st.lists(other, max_size=3)))
        wanted[len(values)] = number
        values.append(value)
    found = decoded(case, values, batch.schema)
    rows = dict(zip(found.indices().to_pylist(), found.rows.column(0).to_pylist(), strict=True))
    assert {index: rows.get(index) for index in wanted} == wanted
    failed = {failure.value_index for failure in found.failures}
    assert failed.isdisjoint(rows)
    assert failed | rows.keys() >= {i for i, value in enumerate(values) if value}


@each_format
def test_one_bad_value_among_ten_thousand(case: Case) -> None:
    batch = good_batch(case, 10_000)
    values = case.format.encoder(batch.schema).encode(batch).to_pylist()
    values[4_321] = case.garbage
    found = decoded(case, values, batch.schema)
    assert [failure.value_index for failure in found.failures] == [4_321]
    assert found.failures[0].excerpt.isprintable()
    expected = [i for i in range(10_000) if i != 4_321]
    assert found.indices().to_pylist() == expected
    assert found.rows.column(0).to_pylist() == expected


@each_format
def test_null_and_empty_values(case: Case) -> None:
    schema = good_batch(case, 0).schema
    found = decoded(case, [None, b"", None], schema)
    if case.null_is_row:
        assert found.indices().to_pylist() == [0, 2]
        assert found.rows.column(0).null_count == 2
    else:
        assert found.row_count == 0
    assert decoded(case, [], schema).row_count == 0


@each_format
def test_a_huge_value_is_read_whole(case: Case) -> None:
    schema = pa.schema([("text", pa.string())])
    rows = pa.RecordBatch.from_pydict({"text": ['héllo \\ " \n' * 300_000]}, schema=schema)
    values = case.format.encoder(schema).encode(rows)
    assert decoded(case, values, schema).rows.equals(rows)


@each_format
def test_only_wanted_columns_are_given_and_rows_still_counted(case: Case) -> None:
    batch = good_batch(case, 3)
    values = case.format.encoder(batch.schema).encode(batch)
    found = case.format.decoder(batch.schema, []).decode(values)
    assert (found.row_count, found.rows.num_columns) == (3, 0)
    assert found.indices().to_pylist() == [0, 1, 2]


@each_format
def test_a_format_and_its_options_pickle(case: Case) -> None:
    assert pickle.loads(pickle.dumps(case.format)) == case.format  # noqa: S301 - our own bytes


@each_format
@SETTINGS
@given(values=st.lists(st.none() | st.binary(max_size=60), max_size=5))
def test_any_bytes_are_rows_or_failures(case: Case, values: list[bytes | None]) -> None:
    found = decoded(case, values, good_batch(case, 0).schema)
    assert all(failure.reason for failure in found.failures)
