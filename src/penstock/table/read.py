"""KafkaRecords to the rows of a table, with the policy for bad records applied.

Runs on executors, one object for each task. Invariant: the policy is applied to a bad record before the rows
around it leave. A dead letter is given to `deliver`, which returns after Kafka has acknowledged it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from penstock.formats import LeftOut
from penstock.table._bad_records import BadRecords, summarise
from penstock.table._decode import TableRows

_log = logging.getLogger("penstock.table")


class RecordsToRows(Protocol):
    """Makes the rows of one task: rows of a table, or keys and values as bytes."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of KafkaRecords that `rows` needs."""
        ...

    def outcomes(self) -> dict[str, int]:
        """Return how many records could not be decoded, by what happened to them."""
        ...

    def rows(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Make the rows of some records."""
        ...


class RecordDecoder(Protocol):
    """A TableDecoder or a PythonDecoder."""

    @property
    def record_columns(self) -> tuple[str, ...]:
        """The columns of KafkaRecords that `decode` needs."""
        ...

    def decode(self, records: pa.RecordBatch) -> TableRows:
        """Decode records to rows."""
        ...


class TableRowMaker:
    """Makes the rows of a table. One for each task.

    Args:
        decoder: Makes the rows.
        bad_records: Applies the policy for records that cannot be decoded.
        deliver: Writes dead letters (rows of DEAD_LETTERS) and returns after Kafka has acknowledged them.
        is_new: Returns whether a warning was not logged yet, by this task or by others of its query.
        wanted: Returns the rows of a batch that are wanted; None for all.
    """

    def __init__(
        self,
        decoder: RecordDecoder,
        bad_records: BadRecords,
        deliver: Callable[[pa.RecordBatch], object],
        is_new: Callable[[str], bool] = lambda _: True,
        wanted: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    ) -> None:
        self._decoder = decoder
        self._bad_records = bad_records
        self._deliver = deliver
        self._is_new = is_new
        self._wanted = wanted
        self._said: set[str] = set()
        self._ignored_count = 0

    @property
    def columns(self) -> Sequence[str]:
        return self._decoder.record_columns

    def outcomes(self) -> dict[str, int]:
        policy = self._bad_records
        return {
            "decodeErrors.failed": policy.failed_count,
            "decodeErrors.skipped": policy.skipped_count,
            "decodeErrors.deadLetters": policy.dead_letter_count,
            "decodeErrors.ignored": self._ignored_count,
        }

    def rows(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Decode records. There may be fewer rows than records, or more.

        Raises:
            DecodeError: a record cannot be decoded and the policy is `fail`, or too many records are bad.
            ProduceError: a dead letter was not acknowledged.
        """
        found = self._decoder.decode(records)
        dead_letters = self._bad_records.handle(records, found.failures)
        if dead_letters is not None:
            self._deliver(dead_letters)
            _log.warning(
                "%d of %d records could not be decoded and went to topic %s: %s",
                dead_letters.num_rows,
                records.num_rows,
                self._bad_records.dead_letter_topic,
                summarise(records, found.failures),
            )
        if found.left_out is not None:
            self._warn_of(found.left_out, str(records.column("topic")[found.left_out.value_index]))
        self._ignored_count += found.dropped_count
        if found.dropped_count:
            _log.info("%d records gave no row, because 'ignore-parse-errors' is set.", found.dropped_count)
        return found.rows if self._wanted is None else self._wanted(found.rows)

    def _warn_of(self, left_out: LeftOut, topic: str) -> None:
        """Log the fields of a topic that are not in the schema, each once."""
        for name in sorted(left_out.names):
            message = (
                f"field {name!r} of topic {topic} is not in the schema and is left out. If the column was "
                "added to the source's table, docs/debezium.md, 'The source's table changes', says how to "
                "take it."
            )
            if message not in self._said:
                self._said.add(message)
                if self._is_new(message):
                    _log.warning(message)
