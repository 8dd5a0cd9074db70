"""The policy for records that cannot be decoded (fail, skip, dead letters), and the limit on their share.

Runs on executors, without I/O: dead letters are returned as rows for a sink, and the caller delivers them
before the batch counts as done. Invariant: every skipped record is counted; with `fail` no record is skipped;
a batch that breaks the limit on bad records gives no dead letters.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.schema import HEADERS_TYPE
from penstock.errors import DecodeError
from penstock.options.table import MAX_SHARE
from penstock.options.table_spec import OnDecodeError
from penstock.table._bad_record_reasons import looks_like_a_wrong_schema, record_facts, summarise
from penstock.table._decode import RecordFailure

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
"""Key, value, headers and timestamp of the record. Our headers follow the record's own headers."""


LEAST_RECORDS = 20
"""The share is not checked before: one bad record out of one must not stop a query."""


class BadRecords:
    """Applies one policy to the bad records of one task, and counts them.

    Args:
        policy: What happens with a bad record.
        dead_letter_topic: Given with `dead-letter`, and only then.
        max_share: With `skip` and `dead-letter`, the largest share of bad records among the records that the
            task has read so far, from 0 to 1. 1 sets no limit. It is checked after LEAST_RECORDS records.
    """

    def __init__(
        self, policy: OnDecodeError, dead_letter_topic: str | None = None, max_share: float = 1.0
    ) -> None:
        if (policy is OnDecodeError.DEAD_LETTER) != (dead_letter_topic is not None):
            raise ValueError(
                "the dead-letter policy needs a dead-letter topic, and other policies must have none"
            )
        self._policy = policy
        self.dead_letter_topic = dead_letter_topic
        self._max_share = max_share
        self.record_count = 0
        self.skipped_count = 0
        self.dead_letter_count = 0
        self.failed_count = 0

    def handle(self, records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> pa.RecordBatch | None:
        """Apply the policy to the failures of one batch.

        Args:
            records: The KafkaRecords that were decoded, with topic, partition and offset. Dead letters need
                key, value, headers and timestamp too (`TableDecoder.record_columns` includes them).
            failures: The failures of these records.

        Returns:
            The rows to deliver (DEAD_LETTERS) with `dead-letter`, else None.

        Raises:
            DecodeError: the policy is `fail`, or the share of bad records is above the limit. The message
                names the first bad record of each reason.
        """
        self.record_count += records.num_rows
        if not failures:
            return None
        if self._policy is OnDecodeError.FAIL:
            self.failed_count += len(failures)
            raise _decode_error(records, failures)
        self._check_share(records, failures)
        if self._policy is OnDecodeError.SKIP:
            self.skipped_count += len(failures)
            _log.warning(
                "%d of %d records could not be decoded and are skipped: %s%s",
                len(failures),
                records.num_rows,
                summarise(records, failures),
                _suspicion(len(failures), records.num_rows),
            )
            return None
        self.dead_letter_count += len(failures)
        return self._dead_letters(records, failures)

    def _check_share(self, records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> None:
        bad_count = self.skipped_count + self.dead_letter_count + len(failures)
        if self.record_count < LEAST_RECORDS or bad_count <= self._max_share * self.record_count:
            return
        written = ""
        if self.dead_letter_count:
            written = f" {self.dead_letter_count} of them are in topic {self.dead_letter_topic} already."
        raise _error(
            f"{bad_count} of the {self.record_count} records that this task has read cannot be decoded."
            f"{written} The query stops, because '{MAX_SHARE.key}' is {self._max_share:g}: "
            f"{summarise(records, failures)}{_suspicion(bad_count, self.record_count)} Nothing was lost: the "
            "records are still in Kafka, and the query stops before them. Correct the schema or format. "
            f"If these records really are bad, set '{MAX_SHARE.key}' to 1 until the query has read them.",
            records,
            failures,
        )

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


def _error_headers(bad: pa.RecordBatch, row: int, failure: RecordFailure) -> list[dict[str, Any]]:
    timestamp_ms = bad.column("timestamp")[row].cast(pa.timestamp("ms", tz="UTC")).value
    facts = record_facts(bad, row) | {"timestamp": timestamp_ms, "error": f"{failure.part}: {failure.reason}"}
    return [{"key": HEADER_PREFIX + name, "value": str(fact).encode()} for name, fact in facts.items()]


def _suspicion(bad_count: int, record_count: int) -> str:
    if not looks_like_a_wrong_schema(bad_count, record_count):
        return ""
    return " This looks like a wrong schema or format, not like bad records."


def _decode_error(records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> DecodeError:
    if looks_like_a_wrong_schema(len(failures), records.num_rows):
        advice = (
            f"{_suspicion(len(failures), records.num_rows)} Compare the schema and the format's options with "
            "the records shown, and correct them."
        )
    else:
        advice = (
            " Correct the schema or format, or, if the records are bad, set 'scan.on-decode-error' to 'skip' "
            "or 'dead-letter'."
        )
    return _error(
        f"{len(failures)} of {records.num_rows} records cannot be decoded: {summarise(records, failures)} "
        f"Nothing was lost: the records are still in Kafka, and the query stops before them.{advice}",
        records,
        failures,
    )


def _error(message: str, records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> DecodeError:
    first = failures[0]
    return DecodeError(
        message, **record_facts(records, first.record_index), part=first.part, reason=first.reason
    )
