"""Deserializers in Python: every kind, every shape of rows, and what goes wrong in them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import DecodeError, OptionError, SchemaRegistryError
from penstock.flink._pickling import to_text
from penstock.options.parse import parse_read
from penstock.options.python_objects import DESERIALIZER, INITIALIZER
from penstock.options.table_spec import OnDecodeError
from penstock.spark._tables import PythonSource, table_source
from penstock.table import BadRecords, TableRows
from penstock.table.python_rows import PythonDecoder
from penstock.table.user_decoder import (
    ArrowDeserializationSchema,
    CalledWith,
    ConsumerRecord,
    DeserializationSchema,
    Deserializer,
    KafkaRecordDeserializationSchema,
    PickledDeserializer,
)

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
ONE = pa.schema([("value", pa.int64())])
MONEY = pa.decimal128(38, 2)
WRAPPED = Decimal("11" + "0" * 36)
"""Arrow's cast makes 791528992371846096098761777046953656.32 of it in a column of the type MONEY."""


def records(*values: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": b"k%d" % i,
                "value": value,
                "topic": "orders",
                "partition": 3,
                "offset": 40 + i,
                "timestamp": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
                "timestamp_type": 0,
                "leader_epoch": None,
                "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}] if i == 0 else None,
            }
            for i, value in enumerate(values)
        ],
        schema=KAFKA_RECORDS,
    )


def decoder(
    user_object: Any,
    schema: pa.Schema = SCHEMA,
    gets: CalledWith = CalledWith.VALUE,
    *,
    gives_values: bool = False,
) -> PythonDecoder:
    return PythonDecoder(to_text(PickledDeserializer(user_object, gets, gives_values), DESERIALIZER), schema)


def decode(user_object: Any, *values: bytes | None, **how: Any) -> TableRows:
    made = decoder(user_object, **how)
    found = made.decode(records(*values).select(list(made.record_columns)))
    found.rows.validate(full=True)
    assert found.rows.schema == made.schema
    assert found.row_count == found.rows.num_rows
    return found


def test_a_record_comes_whole() -> None:
    seen = decode(lambda record: (record.offset, repr(record)), b"v", None, gets=CalledWith.RECORD)
    first = ConsumerRecord(
        topic="orders",
        partition=3,
        offset=40,
        timestamp=1_767_323_045_678,
        timestamp_type=0,
        key=b"k0",
        value=b"v",
        headers=[("h", b"1"), ("h", None)],
        leader_epoch=None,
    )
    second = first._replace(offset=41, key=b"k1", value=None, headers=[])
    assert seen.rows.to_pylist() == [{"id": 40, "name": repr(first)}, {"id": 41, "name": repr(second)}]


@dataclass
class Order:
    id: int
    name: str | None = None


def ids(start: int, count: int) -> Iterator[tuple[int, str]]:
    for number in range(start, start + count):
        yield number, str(number)


A_ROW: Any = Row
ROW_BY_POSITION = A_ROW(1, "a")
SHAPES: dict[str, tuple[Callable[[bytes | None], Any], list[tuple[int, str | None]]]] = {
    "tuple": (lambda _: (1, "a"), [(1, "a")]),
    "mapping": (lambda _: {"name": "a", "id": 1}, [(1, "a")]),
    "mapping that leaves out": (lambda _: {"id": 1}, [(1, None)]),
    "dataclass": (lambda _: Order(1, "a"), [(1, "a")]),
    "Row by name": (lambda _: Row(name="a", id=1), [(1, "a")]),
    "Row by position": (lambda _: ROW_BY_POSITION, [(1, "a")]),
    "none": (lambda _: None, []),
    "list": (lambda _: [(1, "a"), None, {"id": 2}], [(1, "a"), (2, None)]),
    "empty list": (lambda _: [], []),
    "iterator": (lambda _: ids(5, 2), [(5, "5"), (6, "6")]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_come_in_many_shapes(shape: str) -> None:
    give, expected = SHAPES[shape]
    found = decode(give, b"x", b"y")
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == expected * 2
    assert found.record_indices is not None
    assert found.record_indices.to_pylist() == [0] * len(expected) + [1] * len(expected)
    assert found.failures == []


def test_a_single_column_takes_plain_values() -> None:
    found = decode(int, b"1", b"2", schema=ONE, gives_values=True)
    assert found.rows.column(0).to_pylist() == [1, 2]


BAD: dict[str, tuple[Callable[[bytes | None], Any], str]] = {
    "raises": (lambda _: 1 / 0, "the deserializer failed: ZeroDivisionError: division by zero"),
    "raises late": (
        lambda _: (1 // (2 - n) for n in range(3)),
        "ZeroDivisionError|for several rows, got int",
    ),
    "wrong length": (lambda _: (1,), "expected a tuple of 2 values, got 1"),
    "no row": (
        lambda _: 5,
        "for several rows, got int",
    ),
    "unknown column": (lambda _: {"id": 1, "nmae": "a"}, "not declared: nmae"),
    "wrong type": (lambda _: ("one", "a"), "column 'id' is int64"),
    "number for text": (lambda _: (1, 5), "column 'name' is string: expected str or bytes, got int"),
    "fraction": (lambda _: (1.5, "a"), "column 'id' is int64"),
    "too large": (lambda _: (2**63, "a"), "column 'id' is int64"),
    "null": (lambda _: (None, "a"), "column 'id' is declared NOT NULL"),
    "half of its rows": (lambda _: [(7, "a"), ("x", "a")], "column 'id' is int64"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_fails_is_one_bad_record_and_the_others_keep_their_rows(bad: str) -> None:
    give, reason = BAD[bad]
    found = decode(lambda value: give(value) if value == b"bad" else (1, "a"), b"x", b"bad", b"y")
    assert found.rows.to_pylist() == [{"id": 1, "name": "a"}] * 2
    assert found.record_indices is not None
    assert found.record_indices.to_pylist() == [0, 2]
    (failure,) = found.failures
    assert (failure.record_index, failure.part, failure.excerpt) == (1, "record", "bad")
    assert any(one in failure.reason for one in reason.split("|"))


def test_the_policy_for_bad_records_counts_here_too() -> None:
    given = records(b"x", b"bad")
    found = decode(lambda value: None if value == b"x" else 1 / 0, b"x", b"bad")
    with pytest.raises(DecodeError, match=r"orders, partition 3, offset 41: record: the deserializer failed"):
        BadRecords(OnDecodeError.FAIL).handle(given, found.failures)


@pytest.mark.parametrize("gets", [CalledWith.VALUE, CalledWith.RECORD, CalledWith.BATCH])
def test_bad_records_become_whole_dead_letters(gets: CalledWith) -> None:
    made = decoder(Lengths() if gets is CalledWith.BATCH else lambda _: 1 / 0, gets=gets)
    given = records(b"bad").select(list(made.record_columns))
    letters = BadRecords(OnDecodeError.DEAD_LETTER, "dead").handle(given, made.decode(given).failures)
    assert letters is not None
    [letter] = letters.to_pylist()
    assert (letter["topic"], letter["key"], letter["value"]) == ("dead", b"k0", b"bad")
    names = [header["key"] for header in letter["headers"]]
    assert names[:3] == ["h", "h", "penstock.dead-letter.topic"]


def test_an_error_of_ours_stops_the_query_instead() -> None:
    def fail(_: bytes | None) -> None:
        raise SchemaRegistryError("down")

    with pytest.raises(SchemaRegistryError):
        decode(fail, b"x")


NESTED = pa.schema(
    [
        pa.field("ids", pa.list_(pa.int32())),
        pa.field("by_name", pa.map_(pa.string(), pa.int64())),
        pa.field("inner", pa.struct([("day", pa.date32()), ("n", pa.int8())])),
    ]
)


def test_nested_values_are_checked_to_the_bottom() -> None:
    day = date(2026, 1, 2)
    good = {"ids": [1, None], "by_name": {"a": 1}, "inner": {"day": day, "n": 1}}
    found = decode(lambda _: good, b"x", schema=NESTED)
    assert found.rows.to_pylist() == [{**good, "by_name": [("a", 1)]}]
    assert decode(lambda _: {"inner": (day, 2), "by_name": [("a", 1)]}, b"x", schema=NESTED).failures == []
    for name, wrong in (
        ("ids", [1.5]),
        ("by_name", {"a": 1.5}),
        ("by_name", [("a", 1.5)]),
        ("inner", {"n": 1.5}),
        ("inner", {"day": datetime(2026, 1, 2, 3, tzinfo=UTC)}),
        ("ids", 5),
        ("inner", (1,)),
    ):
        found = decode(lambda _, wrong=wrong, name=name: {name: wrong}, b"x", schema=NESTED)
        assert [f"column '{name}'" in failure.reason for failure in found.failures] == [True]


class PandasTimestamp(datetime):
    """Pandas' own is a datetime with this more."""

    nanosecond = 1


class PandasTimedelta(timedelta):
    nanoseconds = 1


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.int64())])
FILLED = pa.struct([pa.field("a", pa.int64(), nullable=False)])
FILLED_LIST = pa.list_(pa.field("element", pa.int64(), nullable=False))
FILLED_MAP = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
INSTANT, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (INSTANT, 1_767_323_045_678, "expected a datetime, got int"),
        (INSTANT, 1.5, "expected a datetime, got float"),
        (INSTANT, PandasTimestamp(2026, 1, 2), "has nanoseconds"),
        (LOCAL, 5, "expected a datetime, got int"),
        (LOCAL, datetime(2026, 1, 2, tzinfo=UTC), "without zone for TIMESTAMP_NTZ"),
        (pa.date32(), 5, "expected a date, got int"),
        (pa.time64("ns"), 5, "expected a time, got int"),
        (pa.time64("ns"), time(1, 2, tzinfo=UTC), "a time without zone for TIME"),
        (pa.duration("us"), 5, "expected a timedelta, got int"),
        (pa.duration("us"), PandasTimedelta(1), "has nanoseconds"),
        (pa.float32(), 1e300, "too large"),
        (pa.float64(), True, "expected a number, got bool"),
        (pa.list_(pa.string()), "abc", "expected a list, got str"),
        (pa.list_(pa.int64()), b"abc", "expected a list, got bytes"),
        (STRUCT, {"a": 1, "c": 2}, "not declared: c"),
        (STRUCT, Row(b=1, a=2), "expected a Row of the fields a, b, got b, a"),
        (FILLED, {"a": None}, "column 'value.a' is declared NOT NULL"),
        (pa.list_(FILLED), [{"a": 1}, {}], "column 'value.item.a' is declared NOT NULL"),
        (FILLED_LIST, [1, None], "column 'value.element' is declared NOT NULL"),
        (FILLED_MAP, {"k": None}, "column 'value.entries.value' is declared NOT NULL"),
    ],
)
def test_what_arrow_would_change_in_silence_is_refused(kind: pa.DataType, value: Any, reason: str) -> None:
    found = decode(lambda _: (value,), b"x", schema=pa.schema([("value", kind)]))
    assert found.row_count == 0
    assert reason in found.failures[0].reason


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (INSTANT, datetime(2026, 1, 2, tzinfo=UTC)),
        (LOCAL, datetime(2026, 1, 2)),  # noqa: DTZ001 - has no zone
        (pa.date32(), date(2026, 1, 2)),
        (pa.time64("ns"), time(1, 2, 3, 4)),
        (pa.duration("us"), timedelta(microseconds=5)),
        (pa.float32(), math.inf),
        (pa.float64(), 1e300),
        (FILLED, None),
        (pa.list_(FILLED), [{"a": 1}, None]),
        (FILLED_MAP, [("k", 1)]),
        (STRUCT, {"b": 1, "a": None}),
    ],
)
def test_what_fits_is_in_the_row_as_it_was_given(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([("value", kind)])
    assert decode(lambda _: (value,), b"x", schema=schema).rows.column(0).to_pylist() == [value]

    def batch(records: pa.RecordBatch) -> pa.RecordBatch:
        given = pa.array([None, value, None], kind)
        return pa.RecordBatch.from_arrays([given.slice(1, 1)], names=["value"])

    found = decode(batch, b"x", schema=schema, gets=CalledWith.BATCH)
    assert found.rows.column(0).to_pylist() == [value]


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        (INSTANT, pa.array([5]), "gave int64"),
        (pa.int64(), pa.array([5], INSTANT), "gave timestamp[us, tz=UTC]"),
        (pa.date32(), pa.array([5], INSTANT), "gave timestamp[us, tz=UTC]"),
        (LOCAL, pa.array([5], INSTANT), "gave timestamp[us, tz=UTC]"),
        (pa.list_(LOCAL), pa.array([[5]]), "gave int64"),
        (pa.float32(), pa.array([1e300]), "a double is too large"),
        (MONEY, pa.array([WRAPPED], pa.decimal128(38, 0)), "does not fit in decimal128(38, 2)"),
        (MONEY, pa.array([str(WRAPPED)]), "does not fit in decimal128(38, 2)"),
        (MONEY, pa.array(["9" * 39]), "does not fit in decimal128(38, 2)"),
        (pa.list_(MONEY), pa.array([[WRAPPED]], pa.list_(pa.decimal128(38, 0))), "does not fit"),
        (STRUCT, pa.array([{"c": 1}]), "gave struct<c: int64>"),
        (FILLED, pa.array([{"a": None}], FILLED), "column 'value.a' is declared NOT NULL"),
    ],
)
def test_casts_that_would_change_values_are_refused(kind: pa.DataType, given: pa.Array, reason: str) -> None:
    def batch(records: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([given], names=["value"])

    found = decode(batch, b"x", schema=pa.schema([("value", kind)]), gets=CalledWith.BATCH)
    assert found.row_count == 0
    assert reason in found.failures[0].reason


@pytest.mark.parametrize("digits", ["1E-32", "0.0000170141183460469231731687303715884105728", "1.001"])
def test_a_decimal_does_not_lose_digits_behind_the_point(digits: str) -> None:
    found = decode(lambda _: (Decimal(digits),), b"x", schema=pa.schema([("value", MONEY)]))
    assert found.row_count == 0
    assert f"expected at most 2 digits behind the point, got {digits}" in found.failures[0].reason


@pytest.mark.parametrize("digits", ["1.5000", "0E-40", "-7", "1E+3", "9" * 36 + ".99"])
def test_a_decimal_that_fits_is_in_the_row(digits: str) -> None:
    found = decode(lambda _: (Decimal(digits),), b"x", schema=pa.schema([("value", MONEY)]))
    assert found.rows.column(0).to_pylist() == [Decimal(digits)]


def test_a_users_error_of_any_size_and_text_becomes_a_dead_letter() -> None:
    def fail(_: bytes | None) -> None:
        raise ValueError("\ud800" * 1_000_000)

    made = decoder(fail)
    given = records(b"bad").select(list(made.record_columns))
    letters = BadRecords(OnDecodeError.DEAD_LETTER, "dead").handle(given, made.decode(given).failures)
    assert letters is not None
    assert 1_000 < len(letters.column("headers")[0].as_py()[-1]["value"]) < 10_000


class Opened(DeserializationSchema):
    """Knows only what `open` has told it."""

    def open(self) -> None:
        self.name = "opened"

    def deserialize(self, message: bytes | None) -> Any:
        return len(message or b""), self.name


class Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record: ConsumerRecord) -> Any:
        return record.offset, record.topic


class KafkasOwn(Deserializer):
    def configure(self, configs: Mapping[str, str], is_key: bool) -> None:
        self.is_key = is_key

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return len(data or b""), f"{topic} {self.is_key}"


@pytest.mark.parametrize(
    ("user_object", "gets", "row"),
    [
        (Opened(), CalledWith.VALUE, {"id": 2, "name": "opened"}),
        (Whole(), CalledWith.RECORD, {"id": 40, "name": "orders"}),
        (KafkasOwn(), CalledWith.TOPIC_AND_VALUE, {"id": 2, "name": "orders False"}),
    ],
)
def test_schema_objects_are_opened_and_called(
    user_object: Any, gets: CalledWith, row: dict[str, Any]
) -> None:
    assert decode(user_object, b"ab", gets=gets).rows.to_pylist() == [row]


class Lengths(ArrowDeserializationSchema):
    """Two rows a record, and an error for a value that says so."""

    def deserialize_batch(self, records: pa.RecordBatch) -> pa.RecordBatch:
        values = records.column("value")
        if pc.any(pc.equal(values, b"bad")).as_py():
            raise ValueError("a bad one")
        lengths = pc.binary_length(values)  # int32: cast to the declared bigint
        twice = pa.concat_arrays([lengths, lengths])
        return pa.RecordBatch.from_pydict({"name": ["x"] * len(twice), "id": twice})


def test_batches_go_in_and_out_as_arrow() -> None:
    found = decode(Lengths(), b"a", b"abc", gets=CalledWith.BATCH)
    assert found.rows.to_pydict() == {"id": [1, 3, 1, 3], "name": ["x"] * 4}
    found = decode(Lengths(), b"a", b"bad", b"ab", gets=CalledWith.BATCH)
    assert found.rows.column(0).to_pylist() == [1, 1, 2, 2]
    assert [(one.record_index, one.excerpt) for one in found.failures] == [(1, "bad")]
    for gives, reason in (
        (lambda _: 5, "expected an Arrow RecordBatch, got int"),
        (lambda _: pa.RecordBatch.from_pydict({"id": [1]}), "expected the columns id, name, got id"),
        (lambda _: pa.RecordBatch.from_pydict({"id": ["x"], "name": ["y"]}), "column 'id' is int64"),
    ):
        assert reason in decode(gives, b"a", gets=CalledWith.BATCH).failures[0].reason
    assert decode(Lengths(), gets=CalledWith.BATCH).row_count == 0


def test_deserializers_travel_by_value_into_a_read_of_spark() -> None:
    schema = StructType(
        [StructField("id", LongType()), StructField("name", StringType()), StructField("at", TimestampType())]
    )

    def give(record: ConsumerRecord) -> Any:
        at = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        return {"at": at, **json.loads(record.value or b"null")}

    text = to_text(PickledDeserializer(give, CalledWith.RECORD, False), DESERIALIZER)
    options = {
        "topic": "orders",
        "properties.bootstrap.servers": "nowhere:1",
        "scan.deserializer": text,
        "scan.on-decode-error": "skip",
    }
    spec = parse_read(options, streaming=True).table
    assert spec is not None
    source = table_source(schema, spec)
    assert isinstance(source, PythonSource)
    maker = source.open()
    found = maker.rows(records(b'{"id": 1, "name": "a"}', b"{", None).select(list(maker.columns)))
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    assert found.to_pylist() == [{"id": 1, "name": "a", "at": at}]


def test_options_that_contradict_a_deserializer_are_found_on_the_driver() -> None:
    text = to_text(PickledDeserializer(print, CalledWith.VALUE, True), DESERIALIZER)
    base = {"topic": "orders", "properties.bootstrap.servers": "nowhere:1", "scan.deserializer": text}
    for key, value in (("format", "json"), ("value.json.ignore-parse-errors", "true"), ("key.fields", "a")):
        with pytest.raises(OptionError, match=key):
            parse_read(base | {key: value}, streaming=True)
    with pytest.raises(OptionError, match="dead-letter"):
        parse_read(base | {"scan.dead-letter.topic": "dead"}, streaming=True)
    with pytest.raises(OptionError, match=r"does not begin with"):
        parse_read(base | {"scan.deserializer": to_text(Opened(), INITIALIZER)}, streaming=True)
    with pytest.raises(OptionError, match="expected a deserializer, got"):
        PythonDecoder(to_text(Opened(), DESERIALIZER), ONE)
