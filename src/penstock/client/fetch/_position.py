"""The fetch position in a range, and the errors of reading it.

Runs on the executor. Invariant: every message names topic partition, range and position, what it means
for the data, and what to do.
"""

from __future__ import annotations

import uuid
from typing import Any

from penstock.client.fetch.requests import FetchedPartition
from penstock.errors import (
    ClientError,
    FetchError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    PenstockError,
    TopicPartitionsRemovedError,
)
from penstock.types import OffsetRange

_GO_ON = {"kafka.": "'failOnDataLoss' = 'false'", "properties.": "'scan.on-data-loss' = 'continue'"}
"""The option that continues after lost records, by the user's prefix of Kafka's properties."""


class FetchPosition:
    """The fetch position in a range, and the brokers' last statement about the log."""

    def __init__(self, offset_range: OffsetRange, *, read_committed: bool, property_prefix: str = "") -> None:
        self._property_prefix = property_prefix
        self.offset_range = offset_range
        self.offset = offset_range.starting_offset
        self.topic_id: uuid.UUID | None = None
        self.is_topic_certain = False
        """Whether the plan named `topic_id`; otherwise it is the first id that a broker told."""
        self.leader_epoch = -1
        self.has_read = False
        self._read_committed = read_committed
        self._log_ends: tuple[int, int, int] | None = None

    def saw(self, fetched: FetchedPartition) -> None:
        self._log_ends = (fetched.log_start_offset, fetched.last_stable_offset, fetched.high_watermark)

    @property
    def facts(self) -> dict[str, Any]:
        """Return the position as values, for programs."""
        topic, partition = self.offset_range.topic_partition
        return {
            "topic": topic,
            "partition": partition,
            "offset": self.offset,
            "starting_offset": self.offset_range.starting_offset,
            "stopping_offset": self.offset_range.stopping_offset,
        }

    def __str__(self) -> str:
        return f"{self.offset_range} at offset {self.offset}"

    def no_progress(self, timeout_ms: int, cause: PenstockError | None) -> PenstockError:
        """Return the error for a read that took too long without progress."""
        parts = [f"Reading {self} made no progress for {timeout_ms} ms."]
        if cause is not None:
            parts.append(f"Last problem: {cause}")
        parts.append(self._end_of_log())
        limit = f"'{self._property_prefix}default.api.timeout.ms'"
        parts.append(f"No record was skipped; the read can be repeated. The time limit is {limit}.")
        return FetchError(" ".join(filter(None, parts)), **self.facts, timeout_ms=timeout_ms)

    def _end_of_log(self) -> str:
        if self._log_ends is None:
            return ""
        log_start_offset, last_stable_offset, high_watermark = self._log_ends
        if self.offset >= high_watermark:
            return (
                f"The log ends at offset {high_watermark} (high watermark), before the end of the range "
                f"({self.offset_range.stopping_offset}). Was the log truncated?"
            )
        if self._read_committed and self.offset >= last_stable_offset:
            return (
                f"An open transaction holds the last stable offset at {last_stable_offset} (high watermark "
                f"{high_watermark}). Records after it become readable when the transaction is committed or "
                "aborted. If its producer died, the broker aborts it after transaction.timeout.ms."
            )
        return f"The log holds offsets {log_start_offset} to {high_watermark}."

    def out_of_range(self, log_start_offset: int, log_end_offset: int) -> PenstockError:
        """Return the error for an offset that the broker does not hold."""
        if self.offset > log_end_offset and self.has_read:
            return self.truncated(self.leader_epoch, log_end_offset)
        if self.offset < log_start_offset:
            why = (
                f"{log_start_offset - self.offset} offsets were deleted before they were read "
                "(by retention.ms, retention.bytes or DeleteRecords)."
            )
        else:
            why = "The log was truncated, or the topic was deleted and created again."
        return OffsetOutOfRangeError(
            f"Reading {self.offset_range} needs offset {self.offset} of "
            f"{self.offset_range.topic_partition}, but the log now holds offsets "
            f"{log_start_offset} to {log_end_offset}. {why} {self._choose()}",
            **self.facts,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
        )

    def truncated(self, leader_epoch: int, end_offset: int) -> PenstockError:
        """Return the error for a new leader whose log does not hold the records that were read."""
        where = "does not know that leader epoch" if end_offset < 0 else f"ends it at offset {end_offset}"
        return LogTruncatedError(
            f"The log of {self.offset_range.topic_partition} was truncated: records were read up to offset "
            f"{self.offset} (leader epoch {leader_epoch}), but the new leader {where}. Some records that "
            "were read do not exist any more, usually because of an unclean leader election "
            "(unclean.leader.election.enable). Results that were computed from them may be wrong. "
            + self._choose(),
            **self.facts,
            leader_epoch=leader_epoch,
            end_offset=end_offset,
        )

    def recreated(self, topic_id: uuid.UUID) -> PenstockError:
        """Return the error for a topic whose id has changed since the plan or the start of the read."""
        when = f"while {self} was read" if self.has_read else f"after {self} was planned"
        return TopicPartitionsRemovedError(
            f"Topic {self.offset_range.topic_partition.topic!r} was deleted and created again {when} "
            f"(topic id {self.topic_id}, now {topic_id}). The offsets of the old topic are not valid "
            f"in the new one. {self._choose()}",
            **self.facts,
        )

    def _choose(self) -> str:
        go_on = _GO_ON.get(self._property_prefix, " or ".join(_GO_ON.values()))
        return (
            "Restore the records, or continue without them: start a new query from the records that are "
            f"left, or set {go_on}."
        )

    def batch_too_large(self, limit_bytes: int) -> PenstockError:
        """Return the error for a record batch that no response can hold."""
        return FetchError(
            f"The record batch of {self} does not fit into a response of {limit_bytes} bytes. No record "
            "from this offset on was read, and none is lost. Write such records in smaller batches.",
            **self.facts,
            limit_bytes=limit_bytes,
        )

    def lost_position(self, expected_offset: int, decoded_offset: int) -> PenstockError:
        """Return the error for a codec that disagrees with the batch headers: a defect of penstock."""
        return FetchError(
            f"Decoding {self.offset_range} ended at offset {decoded_offset}, but the batch headers end at "
            f"{expected_offset}. No record after offset {decoded_offset} was returned. This is a defect of "
            "penstock; please report it.",
            **{**self.facts, "offset": decoded_offset},
        )

    def failed(self, error: PenstockError) -> PenstockError:
        """Return an error that another attempt does not cure, with the position."""
        kind = FetchError if type(error) is ClientError else type(error)
        return kind(f"Reading {self} failed. {error}", **{**error.facts, **self.facts})
