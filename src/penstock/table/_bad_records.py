"""The policy for records that cannot be decoded (fail, skip, dead letters), and the limit on their share.

Runs on executors, without I/O: dead letters are returned as rows for a sink, and the caller delivers them
before the batch counts as done, or in its transaction. Invariant: every skipped record is counted; with
`fail` no record is skipped; a batch that breaks the limit on bad records gives no dead letters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.schema import HEADERS_TYPE
from penstock.errors import DecodeError
from penstock.options.table import MAX_SHARE
from penstock.options.table_spec import OnDecodeError
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
ENDLESS_RECORDS = 1_000
"""After so many records a task without an end gives all of them half their weight in the share.

Otherwise a task that has read a million good records would write half a million dead letters before it stops.
"""


class BadRecords:
    """Applies one policy to the bad records of one task, and counts them.

    Args:
        policy: What happens with a bad record.
        dead_letter_topic: Given with `dead-letter`, and only then.
        max_share: With `skip` and `dead-letter`, the largest share of bad records among the records that the
            task has read so far, from 0 to 1. 1 sets no limit. It is checked after LEAST_RECORDS records.
        is_endless: whether the task does not end by itself, and writes dead letters in transactions. Then
            the share is that of the last records; see ENDLESS_RECORDS.
    """

    def __init__(
        self,
        policy: OnDecodeError,
        dead_letter_topic: str | None = None,
        max_share: float = 1.0,
        *,
        is_endless: bool = False,
    ) -> None:
        if (policy is OnDecodeError.DEAD_LETTER) != (dead_letter_topic is not None):
            raise ValueError(
                "the dead-letter policy needs a dead-letter topic, and other policies must have none"
            )
        self._policy = policy
        self.dead_letter_topic = dead_letter_topic
        self._max_share = max_share
        self._is_endless = is_endless
        self._recent_count = self._recent_bad_count = 0
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
        self._count(records.num_rows, len(failures))
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

    def _count(self, record_count: int, bad_count: int) -> None:
        if self._is_endless and self._recent_count >= ENDLESS_RECORDS:
            self._recent_count //= 2
            self._recent_bad_count //= 2
        self._recent_count += record_count
        self._recent_bad_count += bad_count

    def _check_share(self, records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> None:
        bad_count, count = self._recent_bad_count, self._recent_count
        if count < LEAST_RECORDS or bad_count <= self._max_share * count:
            return
        which = f"{count} records that this task has read"
        written = ""
        if self._is_endless:
            which = f"last {count} records that this task has read"
        elif self.dead_letter_count:
            written = f" {self.dead_letter_count} of them are in topic {self.dead_letter_topic} already."
        raise _error(
            f"{bad_count} of the {which} cannot be decoded."
            f"{written} The query stops, because '{MAX_SHARE.key}' is {self._max_share:g}: "
            f"{summarise(records, failures)}{_suspicion(bad_count, count)} Nothing was lost: the "
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


_REASONS_SHOWN_MAX = 3
_NEARLY_ALL_SHARE = 0.9
# Field names tell reasons apart. Other quoted texts and numbers (bytes, values) belong to one record.
_OF_ONE_RECORD = re.compile(r"(?P<kept>\b(?:field|column) '[^']*')|'[^']*'|\"[^\"]*\"|\d+")


def record_facts(records: pa.RecordBatch, row: int) -> dict[str, Any]:
    return {name: records.column(name)[row].as_py() for name in ("topic", "partition", "offset")}


def describe(records: pa.RecordBatch, failure: RecordFailure) -> str:
    """Say which record is bad, why, and how the record begins."""
    facts = record_facts(records, failure.record_index)
    return (
        f"topic {facts['topic']}, partition {facts['partition']}, offset {facts['offset']}: {failure.part}: "
        f"{failure.reason}; it begins: {failure.excerpt}"
    )


def by_reason(failures: Sequence[RecordFailure]) -> list[list[RecordFailure]]:
    """Group failures by error and field, the most frequent reason first."""
    groups: dict[tuple[str, str], list[RecordFailure]] = {}
    for one in failures:
        kind = _OF_ONE_RECORD.sub(lambda found: found["kept"] or "?", one.reason)
        groups.setdefault((one.part, kind), []).append(one)
    return sorted(groups.values(), key=len, reverse=True)


def looks_like_a_wrong_schema(bad_count: int, record_count: int) -> bool:
    """Return whether so many records are bad that the schema is more likely wrong than the records."""
    return bad_count > 1 and bad_count >= _NEARLY_ALL_SHARE * record_count


# Two failures have the same reason when the same error happened in the same field. Bytes and texts of single
# records make no difference.
def summarise(records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> str:
    """Say why these records are bad: the most frequent reasons, each with its count and first record."""
    groups = by_reason(failures)
    if len(failures) == 1:
        return f"{describe(records, failures[0])}."
    shown = [f"{_times(len(group))}: {describe(records, group[0])}" for group in groups[:_REASONS_SHOWN_MAX]]
    rest = groups[_REASONS_SHOWN_MAX:]
    if rest:
        others = sum(len(group) for group in rest)
        shown.append(f"{_times(others)}: {len(rest)} other reason{'s' if len(rest) > 1 else ''}")
    return ". ".join(shown) + "."


def _times(count: int) -> str:
    return "Once" if count == 1 else f"{count} times"
