"""Decide what happens when records that a query still has to read are gone.

Runs on driver and executor. Invariant: no record is skipped silently. Either the query fails with an error
that names the wanted and the available offsets, or the same text is logged as a warning first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import DataLossError, OffsetOutOfRangeError, TopicPartitionsRemovedError
from penstock.options.config import SourceConfig
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)
_GO_ON = "set failOnDataLoss to false (in Flink's dialect scan.on-data-loss to continue)"
_OR_DROP = ", or scan.on-removed-partition to drop"
_NEW_CHECKPOINT = (
    " Or delete the checkpoint of the stream, or give it a new location: it then begins at its starting "
    "offsets, as a new query. What it has kept and written is of the old topic."
)


@dataclass(frozen=True)
class _Words:
    """The words of one dialect for accepting losses."""

    go_on: str
    or_drop: str
    because_of_loss: str
    because_of_removal: str


_IN_SPARKS = _Words(
    "set 'failOnDataLoss' to false", "", "'failOnDataLoss' is false", "'failOnDataLoss' is false"
)
_IN_FLINKS = _Words(
    "set 'scan.on-data-loss' to continue",
    ", or 'scan.on-removed-partition' to drop",
    "'scan.on-data-loss' is continue",
    "'scan.on-removed-partition' is drop",
)
_WORDS = {"kafka.": _IN_SPARKS, "properties.": _IN_FLINKS}
"""The words by the prefix that the user writes before Kafka's properties."""
_OF_BOTH = _Words(_GO_ON, _OR_DROP, "the options say so", "the options say so")


@dataclass(frozen=True)
class LossPolicy:
    """What the options of a read say about lost records.

    Attributes:
        fail_on_loss: whether lost records are an error.
        fail_on_removal: whether deleted topic partitions are an error.
        property_prefix: of the user's options, so that errors name what this user can set.
    """

    fail_on_loss: bool
    fail_on_removal: bool
    property_prefix: str = ""

    @classmethod
    def of(cls, config: SourceConfig) -> LossPolicy:
        return cls(config.fail_on_data_loss, config.fails_on_removal, config.properties.prefix)

    def report(self, error: DataLossError) -> None:
        """Raise the error, or log it if the options say to continue.

        Raises:
            DataLossError: the given error, in words of the dialect of the user.
        """
        words = _WORDS.get(self.property_prefix, _OF_BOTH)
        message = error.message.replace(_GO_ON, words.go_on).replace(_OR_DROP, words.or_drop)
        is_removal = isinstance(error, TopicPartitionsRemovedError)
        if self.fail_on_removal if is_removal else self.fail_on_loss:
            raise type(error)(message, **error.facts)
        because = words.because_of_removal if self.fail_on_loss else words.because_of_loss
        _log.warning("%s (Continuing because %s.)", message, because)


def records_gone(topic_partition: TopicPartition, wanted: int, log_start: int) -> OffsetOutOfRangeError:
    """Return the error for a position before the first record that the broker still has."""
    return OffsetOutOfRangeError(
        f"Data loss in {topic_partition}: the query needs offset {wanted}, but the first offset "
        f"that Kafka still has is {log_start}. Up to {log_start - wanted} records were deleted before they "
        "were read, by retention or by hand. Nothing after them was read yet. To accept the loss and go on "
        f"at the first available record, {_GO_ON}; to avoid it, raise the retention.",
        **_facts(topic_partition, wanted),
        log_start_offset=log_start,
    )


def position_past_end(
    topic_partition: TopicPartition, wanted: int, log_start: int, log_end: int
) -> OffsetOutOfRangeError:
    """Return the error for a position after the last record of the log."""
    return OffsetOutOfRangeError(
        f"Data loss in {topic_partition}: the query needs offset {wanted}, but Kafka has only "
        f"[{log_start}, {log_end}). Either this offset never existed (check the starting offsets), or the "
        "topic was deleted and created again, or its log was cut back in an unclean leader election. Nothing "
        f"was read past {log_end}. To go on at offset {log_start}, the first one that is there, {_GO_ON}."
        f"{_NEW_CHECKPOINT}",
        **_facts(topic_partition, wanted),
        log_start_offset=log_start,
        log_end_offset=log_end,
    )


def range_not_available(
    topic_partition: TopicPartition, stopping_offset: int, log_end: int
) -> OffsetOutOfRangeError:
    """Return the error for a planned range that ends after the last record."""
    return OffsetOutOfRangeError(
        f"Data loss in {topic_partition}: the range to read ends at offset {stopping_offset}, but Kafka has "
        f"nothing from {log_end} on. Either the ending offset is wrong, or the topic was deleted and created "
        f"again, or its log was cut back. To read only what is there, {_GO_ON}.",
        **_facts(topic_partition, stopping_offset),
        log_end_offset=log_end,
    )


def range_goes_back(
    topic_partition: TopicPartition, starting_offset: int, stopping_offset: int
) -> OffsetOutOfRangeError:
    """Return the error for a batch of the checkpoint that ends before it starts."""
    return OffsetOutOfRangeError(
        f"Data loss in {topic_partition}: a batch of the checkpoint starts at offset {starting_offset} and "
        f"ends before that, at {stopping_offset}. The topic was deleted and created again, or its log was "
        f"cut back, before the batch was planned. Nothing of it was read. To go on from {stopping_offset}, "
        f"{_GO_ON}.",
        **_facts(topic_partition, starting_offset),
        stopping_offset=stopping_offset,
    )


def removed(topic_partitions: Iterable[TopicPartition]) -> TopicPartitionsRemovedError:
    """Return the error for topic partitions of the checkpoint that do not exist any more."""
    gone = sorted(topic_partitions)
    names = ", ".join(str(topic_partition) for topic_partition in gone)
    return TopicPartitionsRemovedError(
        f"Data loss: the query was reading {names}, which Kafka does not have any more. Records there that "
        f"were not read yet are gone. To go on without them, {_GO_ON}{_OR_DROP}. "
        f"Another topic of that name is then read from its start.{_NEW_CHECKPOINT}",
        topic_partitions=tuple(gone),
    )


def recreated(topic_partitions: Iterable[TopicPartition]) -> TopicPartitionsRemovedError:
    """Return the error for topics of the checkpoint that were deleted and created again."""
    gone = sorted(topic_partitions)
    names = ", ".join(str(topic_partition) for topic_partition in gone)
    return TopicPartitionsRemovedError(
        f"Data loss: the query was reading {names} of a topic that was deleted and created again under the "
        "same name. Records of the first topic that were not read yet are gone. Nothing of the second topic "
        f"was read. To read the second topic from its start, {_GO_ON}{_OR_DROP}."
        f"{_NEW_CHECKPOINT}",
        topic_partitions=tuple(gone),
    )


def _facts(topic_partition: TopicPartition, wanted: int) -> dict[str, object]:
    return {"topic": topic_partition.topic, "partition": topic_partition.partition, "offset": wanted}
