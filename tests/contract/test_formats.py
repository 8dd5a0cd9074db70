"""Promises of every format: rows survive a round trip, and no value ever changes the row of another value."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from penstock.errors import RowError
from penstock.formats import DecodedRows, Format, is_changelog
from penstock.formats.confluent import HEADER_BYTES
from penstock.formats.protobuf.schema import type_for
from penstock.options.formats import FORMATS
from tests.contract import formats_rows as rows_of
from tests.examples import examples
from tests.registry_server import running_registry
from tests.table_specs import format_for

SETTINGS = settings(
    max_examples=examples(16),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

SLICES = settings(SETTINGS, max_examples=examples(8))


@dataclass
class Case:
    """A format under test: the types that it can hold, and a value that it must refuse."""

    name: str
    types: Any
    names: Any = rows_of.NAMES
    options: Mapping[str, str] | Callable[[pa.Schema], Mapping[str, str]] = field(default_factory=dict)
    values: Any = rows_of.values_of
    has_one_column: bool = False
    null_is_row: bool = False
    empty_is_row: bool = False
    may_refuse: bool = False
    may_change_fields: bool = False
    good: pa.DataType = field(default_factory=pa.int64)
    garbage: bytes = b"\xff\xfe{"

    def format(self, schema: pa.Schema) -> Format:
        return format_for(self.name, self.options(schema) if callable(self.options) else self.options)

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        try:
            return self.format(rows.schema).encoder(rows.schema).encode(rows)
        except RowError:
            if not self.may_refuse:
                raise
            return reject()

    def batches(self) -> Any:
        batches = rows_of.batches(self.types, self.names, values=self.values)
        return batches.map(lambda batch: batch.select([0])) if self.has_one_column else batches


class Surroundings:
    """Services that formats need: a Schema Registry, and a folder for descriptor files."""

    registry_url: ClassVar[str]
    folder: ClassVar[Path]


@pytest.fixture(autouse=True, scope="module")
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with running_registry() as registry:
        Surroundings.registry_url = registry.url
        Surroundings.folder = tmp_path_factory.mktemp("descriptors")
        yield


def with_registry(name: str, **more: str) -> Callable[[pa.Schema], Mapping[str, str]]:
    others = {f"{name}.{key}": text for key, text in more.items()}
    return lambda _: {f"{name}.url": Surroundings.registry_url, "topic": "contract", **others}


def descriptor_file(schema: pa.Schema) -> Mapping[str, str]:
    made = type_for(schema)
    path = Surroundings.folder / "rows.desc"
    path.write_bytes(made.files)
    return {"protobuf.descriptor-file": str(path), "protobuf.message-class-name": made.full_name}


ANY_TYPE = rows_of.nested_types(rows_of.SCALAR_TYPES, rows_of.NAMES)

# CSV's arrays and rows are one level deep. They hold numbers, because texts must not hold the delimiter.
FLAT_TYPE = (
    rows_of.SCALAR_TYPES
    | rows_of.NUMBER_TYPES.map(pa.list_)
    | rows_of.NUMBER_TYPES.map(lambda kind: pa.struct([("x", kind), ("y", pa.int8())]))
)

AVRO_TYPE = rows_of.nested_types(
    rows_of.SCALAR_TYPES.filter(lambda kind: kind != pa.time64("ns")), rows_of.IDENTIFIERS
)

PROTOBUF_SCALAR = (
    rows_of.NUMBER_TYPES
    | rows_of.TEXT_TYPES
    | st.sampled_from([pa.timestamp(unit, "UTC") for unit in rows_of.UNITS])
)
PROTOBUF_ROW = st.lists(
    st.tuples(rows_of.IDENTIFIERS, PROTOBUF_SCALAR | PROTOBUF_SCALAR.map(pa.list_)),
    min_size=1,
    max_size=3,
    unique_by=lambda pair: pair[0],
).map(pa.struct)
PROTOBUF_TYPE = (
    PROTOBUF_SCALAR
    | PROTOBUF_ROW
    | (PROTOBUF_SCALAR | PROTOBUF_ROW).map(pa.list_)
    | (PROTOBUF_SCALAR | PROTOBUF_ROW).map(lambda kind: pa.map_(pa.string(), kind))
)

CASES = [
    Case("json", ANY_TYPE, may_change_fields=True),
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
    Case(
        "avro-confluent",
        AVRO_TYPE,
        rows_of.IDENTIFIERS,
        with_registry("avro-confluent"),
        may_change_fields=True,
    ),
    Case("json-confluent", ANY_TYPE, options=with_registry("json-confluent"), may_change_fields=True),
    Case(
        "protobuf",
        PROTOBUF_TYPE,
        rows_of.IDENTIFIERS,
        descriptor_file,
        rows_of.present_values_of,
        empty_is_row=True,
        may_change_fields=True,
    ),
    Case(
        "protobuf-confluent",
        PROTOBUF_TYPE,
        rows_of.IDENTIFIERS,
        with_registry("protobuf-confluent"),
        rows_of.present_values_of,
        may_change_fields=True,
    ),
    *(
        Case(name, ANY_TYPE, may_change_fields=True)
        for name in ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
    ),
    Case(
        "debezium-avro-confluent",
        AVRO_TYPE,
        rows_of.IDENTIFIERS,
        with_registry("debezium-avro-confluent"),
        may_change_fields=True,
    ),
]
IDS = [f"{case.name}-{i}" for i, case in enumerate(CASES)]

each_format = pytest.mark.parametrize("case", CASES, ids=IDS)


def decoded(case: Case, values: list[bytes | None] | pa.Array, schema: pa.Schema) -> DecodedRows:
    found = case.format(schema).decoder(schema).decode(pa.array(values, pa.binary()))
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
@SLICES
@given(data=st.data())
def test_a_slice_is_encoded_and_decoded_as_itself(case: Case, data: st.DataObject) -> None:
    rows = data.draw(case.batches())
    start = data.draw(st.integers(0, rows.num_rows))
    piece = rows.slice(start)
    values = case.encode(piece)
    padded = pa.concat_arrays([pa.array([b"x", None], pa.binary()), values]).slice(2)
    assert decoded(case, padded, rows.schema).rows.equals(piece)


def is_empty(case: Case, value: bytes) -> bool:
    """Return whether a value is empty behind its header. In JSON it gives neither a row nor a failure."""
    return case.name == "json-confluent" and len(value) == HEADER_BYTES and value[:1] == b"\0"


@each_format
@SETTINGS
@given(data=st.data())
def test_no_value_moves_the_rows_of_others(case: Case, data: st.DataObject) -> None:
    batch = good_batch(case, 6)
    good = case.format(batch.schema).encoder(batch.schema).encode(batch).to_pylist()
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
    assert failed | rows.keys() >= {
        i for i, value in enumerate(values) if value and not is_empty(case, value)
    }


@each_format
def test_one_bad_value_among_ten_thousand(case: Case) -> None:
    batch = good_batch(case, 10_000)
    values = case.format(batch.schema).encoder(batch.schema).encode(batch).to_pylist()
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
    elif case.empty_is_row:
        assert found.indices().to_pylist() == [1]
        assert found.rows.column(0).to_pylist() == [None]
    else:
        assert found.row_count == 0
    assert decoded(case, [], schema).row_count == 0


@each_format
def test_a_huge_value_is_read_whole(case: Case) -> None:
    schema = pa.schema([("text", pa.string())])
    rows = pa.RecordBatch.from_pydict({"text": ['héllo \\ " \n' * 300_000]}, schema=schema)
    values = case.format(schema).encoder(schema).encode(rows)
    assert decoded(case, values, schema).rows.equals(rows)


@each_format
def test_only_wanted_columns_are_given_and_rows_still_counted(case: Case) -> None:
    batch = good_batch(case, 3)
    values = case.format(batch.schema).encoder(batch.schema).encode(batch)
    found = case.format(batch.schema).decoder(batch.schema, []).decode(values)
    assert (found.row_count, found.rows.num_columns) == (3, 0)
    assert found.indices().to_pylist() == [0, 1, 2]


@each_format
def test_the_list_of_formats_says_which_are_changelogs(case: Case) -> None:
    made = case.format(good_batch(case, 0).schema)
    [entry] = [each for each in FORMATS if each.name == case.name]
    assert entry.is_changelog is is_changelog(made)


@each_format
def test_a_format_and_its_options_pickle(case: Case) -> None:
    made = case.format(good_batch(case, 0).schema)
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.may_change_fields], ids=lambda case: case.name
)
def test_fields_that_came_or_went_since_are_null_or_left_alone(case: Case) -> None:
    written = pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int64()), "gone": ["x", None]})
    schema = pa.schema([("id", pa.int64()), ("new", pa.int64())])
    found = decoded(case, case.encode(written), schema)
    assert found.rows.to_pylist() == [{"id": 1, "new": None}, {"id": 2, "new": None}]
    assert found.failures == []


@each_format
@SETTINGS
@given(values=st.lists(st.none() | st.binary(max_size=60), max_size=5))
def test_any_bytes_are_rows_or_failures(case: Case, values: list[bytes | None]) -> None:
    found = decoded(case, values, good_batch(case, 0).schema)
    assert all(failure.reason for failure in found.failures)
