"""Make the names of the sink's transactional ids, and tell to which prefix an id belongs.

Runs on driver and executor. Pure. Invariant: no transactional id belongs to two prefixes. So recovery and
`penstock transactions abort`, which act on all transactions of a prefix, never touch those of another one.

    <prefix>-<spark partition>-<attempt>   transactions with data
    <prefix>-<number>-<count>              the same, of a process that uses its ids again (`_reused_ids`)
    <prefix>-committer                     the driver's, for the decision log

Both end in fields of a fixed shape. Without those fields an id is its prefix: `app-2-0-1` belongs to the
prefix `app-2`, and not to `app`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.errors import OptionError
from penstock.options.by_hand import ByHand
from penstock.types import TopicPartition

PREFIX_OPTION = "sink.transactional-id-prefix"
PREFIX_MAX_CHARS = 200
"""A topic is named after it, and Kafka allows 249 characters."""

_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = r"(0|[1-9][0-9]{0,9})"
_CONTINUOUS_ID = re.compile(rf"(?P<prefix>.+)-continuous-(?P<task>{_NUMBER})-(?P<lane>{_NUMBER})")
_DATA_ID = re.compile(rf"(?P<prefix>.+)-(?P<spark_partition_id>{_NUMBER})-(?P<attempt>{_NUMBER})")
_COMMITTER_SUFFIX = "-committer"
LOG_SUFFIX = "-decisions"
"""The end of the default name of a decision log."""


class DataTransactionName(NamedTuple):
    """The parts of the transactional id of a transaction with data."""

    spark_partition_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class TransactionNames:
    """The transactional ids of one prefix. Raises OptionError for a prefix that is not allowed.

    For messages: `property_prefix` is what the user writes before the names of Kafka's properties, and
    `by_hand` makes commands.
    """

    prefix: str
    property_prefix: str = field(default="", compare=False)
    by_hand: ByHand = field(default_factory=ByHand, compare=False)

    def __post_init__(self) -> None:
        if len(self.prefix) > PREFIX_MAX_CHARS or _PREFIX.fullmatch(self.prefix) is None:
            raise OptionError(
                f"Expected 1 to {PREFIX_MAX_CHARS} of the characters A-Z a-z 0-9 . _ - for "
                f"{PREFIX_OPTION}, got {self.prefix[:300]!r}. Transactional ids and a topic are named after "
                "it. Choose a different prefix for each query that writes to this cluster.",
                option=PREFIX_OPTION,
                value=self.prefix,
            )

    @property
    def timeout_option(self) -> str:
        return f"{self.property_prefix}transaction.timeout.ms"

    @property
    def committer_id(self) -> str:
        return self.prefix + _COMMITTER_SUFFIX

    @property
    def default_log_topic(self) -> str:
        """Return the decision log's topic, unless `sink.commit-log.topic` names another."""
        return self.prefix + LOG_SUFFIX

    def command(self, action: str, *options: str) -> str:
        """Return a command of `penstock transactions` on this prefix, complete, for a message."""
        return self.by_hand.of_prefix(action, self.prefix, *options)

    def resolving(self, query_id: str, resolution: str) -> str:
        """Return the command that ends the decision about a query's newest batch by hand."""
        return self.command("abort", "--query", query_id, "--resolution", resolution, "--yes")

    def data_id(self, spark_partition_id: int, attempt: int) -> str:
        return f"{self.prefix}-{spark_partition_id}-{attempt}"

    def parse(self, transactional_id: str) -> DataTransactionName | None:
        """Return the parts of an id, if it is one of this prefix with data; None otherwise."""
        match = _DATA_ID.fullmatch(transactional_id)
        if match is None or match["prefix"] != self.prefix:
            return None
        return DataTransactionName(int(match["spark_partition_id"]), int(match["attempt"]))

    def claims(self, transactional_id: str) -> bool:
        return transactional_id == self.committer_id or self.parse(transactional_id) is not None


def prefix_of(transactional_id: str) -> str | None:
    """Return the prefix of an id, if it has the form of one with data or of a committer's; None otherwise."""
    match = _DATA_ID.fullmatch(transactional_id)
    if match is not None:
        return match["prefix"]
    prefix = transactional_id.removesuffix(_COMMITTER_SUFFIX)
    return prefix if prefix and prefix != transactional_id else None


class ContinuousName(NamedTuple):
    """What a transactional id of a continuous query says (`QuerySettings.transactional_ids`)."""

    prefix: str
    task: int
    lane: int


def first_continuous_id(prefix: str) -> str:
    """Return the transactional id that each continuous query with a prefix has taken."""
    return f"{prefix}-continuous-0-0"


def continuous_name(transactional_id: str) -> ContinuousName | None:
    """Return the parts of an id, if it has the form of a continuous query's; None otherwise.

    A stream or a Flink job whose prefix ends with `-continuous` gives such names, too.
    """
    match = _CONTINUOUS_ID.fullmatch(transactional_id)
    if match is None:
        return None
    return ContinuousName(match["prefix"], int(match["task"]), int(match["lane"]))


def how_to_end_open(
    topic_partition: TopicPartition,
    start_offset: int,
    transactional_id: str | None,
    by_hand: ByHand,
    *,
    is_looked_up: bool,
) -> str:
    """Return the sentence for an open transaction, whatever is known of it."""
    if not is_looked_up:
        return (
            f"A coordinator did not answer, so the transactional id at {topic_partition} is unknown. Run the "
            "command again."
        )
    if transactional_id is None:
        return how_to_end_hanging(topic_partition, start_offset, by_hand)
    return how_to_end(transactional_id, by_hand)


def how_to_end(transactional_id: str, by_hand: ByHand) -> str:
    """Return the sentence for an open transaction of any program that has a coordinator.

    It says when ending it is right, because that can lose what a program that still runs is writing.
    """
    prefix = prefix_of(transactional_id)
    continuous = continuous_name(transactional_id)
    if continuous is not None and prefix is not None:
        command = by_hand.of_prefix("recover", prefix, "--yes")
        return (
            f"{transactional_id} has the name of task {continuous.task}, lane {continuous.lane}, of the "
            f"continuous query with the prefix {continuous.prefix}. A stream or a Flink job with the prefix "
            f"{prefix} gives such names, too. If there is one and it no longer runs, start it again. For a "
            f"stream you can also run `{command}`. If no stream and no Flink job has this prefix, and the "
            "continuous query no longer runs, start the continuous query again, wait for the time-out, or "
            f"run `{by_hand.of_prefix('abort', prefix, '--yes')}`: no record is lost, because the offsets "
            "are in the same transaction."
        )
    if prefix is not None:
        return (
            f"{transactional_id} has a name of the prefix {prefix}, as penstock and Flink give them. If its "
            f"query no longer runs, start it again, or run `{by_hand.of_prefix('recover', prefix, '--yes')}`."
        )
    return (
        f"{transactional_id} is not a transaction of penstock. If its program no longer runs, run "
        f"`{by_hand.abort_foreign(transactional_id)}`: it aborts the transaction and fences the program."
    )


def how_to_end_hanging(topic_partition: TopicPartition, start_offset: int, by_hand: ByHand) -> str:
    """Return the sentence for an open transaction that no coordinator shows."""
    command = by_hand.abort_hanging(*topic_partition, start_offset)
    return (
        f"The transaction at {topic_partition} is hidden from this user (right DESCRIBE on its transactional "
        f"id), or no time-out ends it. In that case run `{command}`."
    )
