"""What becomes of records that cannot be decoded: fail, skip, or a dead-letter topic.

Runs on executors, without I/O: dead letters are handed back as rows for a sink, and the caller delivers them
before the batch counts as done. Invariant: no record vanishes uncounted; with `fail` none vanishes at all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.schema import HEADERS_TYPE
from penstock.errors import DecodeError
from penstock.table.decode import RecordFailure
from penstock.table.options import OnDecodeError

_log = logging.getLogger("penstock.table")

HEADER_PREFIX = "penstock.dead-letter."

DEAD_LETTERS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""Key, value, headers and timestamp of the record, and headers of ours behind its own."""


class BadRecords:
    """Applies one policy to the bad records of one task, and counts them."""

    def __init__(self, policy: OnDecodeError, dead_letter_topic: str | None = None) -> None:
        if (policy is OnDecodeError.DEAD_LETTER) != (dead_letter_topic is not None):
            raise ValueError("a dead-letter topic goes with the dead-letter policy, and only with it")
        self._policy = policy
        self.dead_letter_topic = dead_letter_topic
        self.skipped_count = 0
        self.dead_letter_count = 0

    def handle(self, records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> pa.RecordBatch | None:
        """Apply the policy to the failures of one batch.

        Args:
            records: The KafkaRecords that were decoded; topic, partition and offset at least, for dead
                letters key, value, headers and timestamp too (`TableDecoder.record_columns` sees to it).
            failures: Of these records.

        Returns:
            With `dead-letter` the rows to deliver (DEAD_LETTERS), else None.

        Raises:
            DecodeError: the policy is `fail`; names the first bad record.
        """
        if not failures:
            return None
        if self._policy is OnDecodeError.FAIL:
            raise _decode_error(records, failures)
        if self._policy is OnDecodeError.SKIP:
            self.skipped_count += len(failures)
            _log.warning(
                "%d records could not be decoded and are skipped. The first: %s",
                len(failures),
                describe(records, failures[0]),
            )
            return None
        self.dead_letter_count += len(failures)
        return self._dead_letters(records, failures)

    def _dead_letters(self, records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> pa.RecordBatch:
        bad = records.take(pa.array([one.record_index for one in failures], pa.int32()))
        headers = [
            [*(own or []), *_error_headers(bad, row, failures[row])]
            for row, own in enumerate(bad.column("headers").to_pylist())
        ]
        columns = [
            pa.array([self.dead_letter_topic] * len(failures), pa.string()),
            bad.column("key"),
            bad.column("value"),
            pa.array(headers, HEADERS_TYPE),
            bad.column("timestamp"),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTERS)


def _facts(records: pa.RecordBatch, row: int) -> dict[str, Any]:
    return {name: records.column(name)[row].as_py() for name in ("topic", "partition", "offset")}


def _error_headers(bad: pa.RecordBatch, row: int, failure: RecordFailure) -> list[dict[str, Any]]:
    timestamp_ms = bad.column("timestamp")[row].cast(pa.timestamp("ms", tz="UTC")).value
    facts = _facts(bad, row) | {"timestamp": timestamp_ms, "error": f"{failure.part}: {failure.reason}"}
    return [{"key": HEADER_PREFIX + name, "value": str(fact).encode()} for name, fact in facts.items()]


def describe(records: pa.RecordBatch, failure: RecordFailure) -> str:
    """Say which record is bad, why, and how it begins."""
    facts = _facts(records, failure.record_index)
    return (
        f"topic {facts['topic']}, partition {facts['partition']}, offset {facts['offset']}: {failure.part}: "
        f"{failure.reason}; it begins: {failure.excerpt}"
    )


def _decode_error(records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> DecodeError:
    first = failures[0]
    others = f" ({len(failures) - 1} more in the same batch.)" if len(failures) > 1 else ""
    return DecodeError(
        f"A record cannot be decoded: {describe(records, first)}{others} Nothing was lost: the record is "
        "still in Kafka, and the query stops before it. Correct the schema or format, or set "
        "'scan.on-decode-error' to 'skip' or 'dead-letter'.",
        **_facts(records, first.record_index),
        part=first.part,
        reason=first.reason,
    )
