"""The figures that a source task sends, with what happened to records that cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from penstock.errors import DecodeError
from penstock.observe.task_reports import Receiver
from penstock.options.table_spec import OnDecodeError
from penstock.source import split_reader
from penstock.source.splits import Split
from penstock.spark import splits
from penstock.spark.splits import SplitPartition, read_rows
from penstock.table._bad_records import BadRecords
from penstock.table._decode import RecordFailure, TableRows
from penstock.table.read import TableRowMaker
from tests.waiting import wait_until

RECORDS = pa.record_batch(
    {
        "topic": ["t"] * 3,
        "partition": pa.array([0] * 3, pa.int32()),
        "offset": [1, 2, 3],
        "key": pa.array([None] * 3, pa.binary()),
        "value": pa.array([b"1", b"x", b"y"]),
    }
)


class OneOfThree:
    """Decodes the first record of each batch; drops the second, and cannot decode the third."""

    record_columns = tuple(RECORDS.schema.names)

    def decode(self, records: pa.RecordBatch) -> TableRows:
        failure = RecordFailure(2, "value", "not a number", "y")
        return TableRows(records.slice(0, 1).select(["offset"]), 1, None, [failure], 1)


class FakeTable:
    def __init__(self, policy: OnDecodeError) -> None:
        self.policy = policy

    def open(self) -> TableRowMaker:
        return TableRowMaker(OneOfThree(), BadRecords(self.policy), lambda _: None)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(split_reader, "read_split", lambda *_: iter([RECORDS, RECORDS]))
    monkeypatch.setattr(splits, "begin_task", lambda: None)
    receiver = Receiver("127.0.0.1")
    yield receiver
    receiver.close()


def read(receiver: Receiver, policy: OnDecodeError) -> list[Any]:
    partition = SplitPartition(Split(()), receiver.address)
    table: Any = FakeTable(policy)
    config: Any = None
    return list(read_rows(config, StructType(), partition, table))


def shown(receiver: Receiver) -> dict[str, int]:
    wait_until(lambda: receiver.snapshot()["numRecordsIn"] > 0, "the report of the task")
    return {name: value for name, value in receiver.snapshot().items() if name != "numBytesIn" and value}


def test_skipped_and_ignored_records_are_counted(receiver: Receiver) -> None:
    assert len(read(receiver, OnDecodeError.SKIP)) == 2
    assert shown(receiver) == {"numRecordsIn": 6, "decodeErrors.skipped": 2, "decodeErrors.ignored": 2}


def test_the_record_that_fails_a_task_is_counted_at_once(receiver: Receiver) -> None:
    with pytest.raises(DecodeError):
        read(receiver, OnDecodeError.FAIL)
    assert shown(receiver) == {"numRecordsIn": 3, "decodeErrors.failed": 1}
