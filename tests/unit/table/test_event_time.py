"""The column of event time, as executors make it and as the driver reads it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import OptionError
from penstock.flink._pickling import to_text
from penstock.options.python_objects import ASSIGNER
from penstock.options.table_spec import RECORD_TIMESTAMP, EventTimeSpec
from penstock.table._decode import RecordFailure, TableRows
from penstock.table.event_time import EventTimeDecoder, TimestampAssigner, latest_times

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("name", pa.string()), ("at", TIME), ("number", pa.int64())])


class ByNumber(TimestampAssigner):
    """The number, in seconds; by attribute, name and index."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        if value.name == "bad":
            raise ValueError("no time")
        if value["name"] == "text":
            return "1"  # type: ignore[return-value]
        return int(value[1]) * 1000 + (record_timestamp - 5)


class Decoder:
    """Rows that a test gives."""

    record_columns = ("value", "offset")

    def __init__(self, rows: list[tuple[str, int]], indices: list[int] | None, failures: Any = ()) -> None:
        self._rows, self._indices, self._failures = rows, indices, failures

    def decode(self, records: pa.RecordBatch) -> TableRows:
        names, numbers = zip(*self._rows, strict=True) if self._rows else ((), ())
        rows = pa.RecordBatch.from_arrays(
            [pa.array(names, pa.string()), pa.array(numbers, pa.int64())], names=["name", "number"]
        )
        indices = None if self._indices is None else pa.array(self._indices, pa.int32())
        return TableRows(rows, rows.num_rows, indices, self._failures, 0)


def records(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(10, 10 + count), pa.int64()),
            "timestamp": pa.array([5_000] * count, pa.int64()).cast(KAFKA_RECORDS.field("timestamp").type),
        }
    )


def decoder(inner: Decoder, assigner: TimestampAssigner | None = None) -> EventTimeDecoder:
    text = RECORD_TIMESTAMP if assigner is None else to_text(assigner, ASSIGNER)
    return EventTimeDecoder(inner, EventTimeSpec("at", text), SCHEMA)


def at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def test_the_timestamp_of_the_record() -> None:
    made = decoder(Decoder([("a", 1), ("b", 2)], [0, 2]))
    assert made.record_columns == ("value", "offset", "timestamp")
    rows = made.decode(records(3)).rows
    assert rows.schema.equals(SCHEMA)
    assert rows.to_pylist() == [
        {"name": "a", "at": at(5), "number": 1},
        {"name": "b", "at": at(5), "number": 2},
    ]


def test_an_assigner() -> None:
    rows = decoder(Decoder([("a", 1), ("b", 2)], None), ByNumber()).decode(records(2)).rows
    assert rows.column("at").to_pylist() == [at(1_000), at(2_000)]


def test_a_record_whose_assigner_fails_loses_all_rows_and_is_bad() -> None:
    earlier = [RecordFailure(3, "value", "not JSON", "")]
    inner = Decoder([("a", 1), ("b", 2), ("bad", 3), ("text", 4)], [0, 1, 1, 2], earlier)
    found = decoder(inner, ByNumber()).decode(records(4))
    assert found.rows.column("name").to_pylist() == ["a"]
    assert (found.row_count, found.record_indices.to_pylist()) == (1, [0])  # type: ignore[union-attr]
    assert [(one.record_index, one.reason) for one in found.failures] == [
        (1, "the timestamp assigner failed: ValueError: no time"),
        (2, "expected milliseconds since 1970 from the timestamp assigner, got '1'"),
        (3, "not JSON"),
    ]


def test_rows_without_known_records() -> None:
    with pytest.raises(OptionError, match="needs to know the record of each row"):
        decoder(Decoder([("a", 1)], None)).decode(records(2))


def test_the_newest_time_of_each_record_with_rows() -> None:
    made = decoder(Decoder([("a", 2), ("b", 1), ("c", 3)], [0, 0, 2]), ByNumber())
    assert latest_times(made, records(3), "at") == [(10, 2_000), (12, 3_000)]


def test_without_known_records_each_is_decoded_alone() -> None:
    class Batches:
        record_columns = ("value", "offset")

        def decode(self, batch: pa.RecordBatch) -> TableRows:
            offsets = [one for one in batch.column("offset").to_pylist() if one != 11]
            times = pa.array([one * 1_000 for one in offsets for _ in range(2)], pa.int64()).cast(TIME)
            return TableRows(pa.RecordBatch.from_pydict({"at": times}), len(times), None, (), 0)

    assert latest_times(Batches(), records(3), "at") == [(10, 10), (12, 12)]
