"""Judge a topic: whether it exists, its rights, and settings that endanger its records.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from penstock.client.cluster.rights import Operation
from penstock.client.transactions.limits import NO_TRANSACTIONS, mark_in
from penstock.doctor.facts import TopicFacts
from penstock.doctor.findings import Finding, bad, good, note, warning

TOPIC_CONFIGS = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "cleanup.policy",
    "retention.ms",
    *NO_TRANSACTIONS,
)
_SHORT_RETENTION_MS = 3_600_000
_LONG_OPEN_MS = 10_000
"""As `penstock lag` says BLOCKED_BY_TRANSACTION."""


def topic_findings(
    topic: TopicFacts, *, broker_count: int, is_source: bool, is_target: bool
) -> Iterator[Finding]:
    """Judge one topic.

    Args:
        topic: what is known.
        broker_count: of the cluster.
        is_source: the topic is read.
        is_target: the topic is written. If neither is known, one of the two rights may be missing.
    """
    subject = f"topic {topic.topic}"
    if topic.is_missing:
        advice = "Check the name, or create it: penstock does not create the topics that it reads or writes."
        yield bad(subject, "it does not exist, or the user may not see it.", advice)
        return
    if topic.error:
        yield bad(subject, topic.error, "Nothing else of this topic could be checked.")
        return
    partitions, replicas = _counted(topic.partition_count, "partition"), _counted(topic.replicas, "replica")
    yield good(subject, f"it has {partitions}, and {replicas} of each.")
    if topic.leaderless:
        names = ", ".join(map(str, topic.leaderless))
        advice = "Start the brokers that hold its replicas."
        yield bad(subject, f"partitions {names} have no leader, so they cannot be read or written.", advice)
    yield from rights_findings(subject, topic.rights, is_source=is_source, is_target=is_target)
    yield from durability_findings(subject, topic, broker_count)
    yield from _retention(subject, topic)
    if is_target and (mark := mark_in(topic.config or {})) is not None:
        advice = "Write to another topic, or set 'sink.delivery-guarantee' to 'at-least-once'."
        yield bad(subject, f"its setting is {mark}, so it has no transactions.", advice)


def holder_findings(topic: TopicFacts, now: datetime) -> Iterator[Finding]:
    """Judge the open transactions of a topic: a short one is normal."""
    now_ms = now.timestamp() * 1000
    for holder in topic.holders:
        who = f"{holder.who} keeps read_committed readers back at {holder.where}"
        if holder.open_since_ms is None:
            yield warning(f"topic {topic.topic}", f"{who}.", holder.advice)
        elif now_ms - holder.open_since_ms >= _LONG_OPEN_MS:
            seconds = (now_ms - holder.open_since_ms) / 1000
            yield warning(f"topic {topic.topic}", f"{who}, open for {seconds:,.0f} s.", holder.advice)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def rights_findings(
    subject: str, rights: frozenset[int] | None, *, is_source: bool, is_target: bool
) -> Iterator[Finding]:
    """Judge the rights on a topic; None: the broker does not tell them."""
    if rights is None:
        yield warning(subject, "the broker does not tell the rights on it.", "A task would find out.")
        return
    is_either = not (is_source or is_target)
    wanted = [
        operation
        for operation, is_wanted in ((Operation.READ, is_source), (Operation.WRITE, is_target))
        if is_wanted or is_either
    ]
    missing = [operation for operation in wanted if operation not in rights]
    for operation in missing:
        text = f"the user lacks the right {operation.name} on it."
        if is_either and len(missing) == 1:
            yield warning(subject, text, f"Grant {operation.name} if the query needs it.")
        else:
            yield bad(subject, text, f"Grant {operation.name} on the topic to the user.")
    if not missing:
        names = " and ".join(operation.name for operation in wanted)
        yield good(subject, f"the user may {names} it.")


def durability_findings(subject: str, topic: TopicFacts, broker_count: int) -> Iterator[Finding]:
    """Judge whether acknowledged records survive the loss of a broker."""
    if topic.replicas == 1 and broker_count > 1:
        yield bad(
            subject,
            "a partition has one replica, so its records are lost with one broker.",
            "Raise its replication factor to 3 (kafka-reassign-partitions).",
        )
    elif topic.replicas == 1:
        yield note(
            subject,
            "a partition has one replica on a cluster of one broker: its records are lost with it.",
            "Use this for development only.",
        )
    if topic.config is None:
        yield warning(
            subject,
            "its settings could not be read, because the user lacks DESCRIBE_CONFIGS on it.",
            "Grant DESCRIBE_CONFIGS, or look at min.insync.replicas and unclean.leader.election.enable.",
        )
        return
    yield from _min_insync(subject, topic, int(topic.config.get("min.insync.replicas") or 1))
    if topic.config.get("unclean.leader.election.enable") == "true":
        yield bad(
            subject,
            "unclean.leader.election.enable is true, so acknowledged records can be lost.",
            "Set it to false.",
        )


def _min_insync(subject: str, topic: TopicFacts, least: int) -> Iterator[Finding]:
    if least > topic.replicas:
        yield bad(
            subject,
            f"min.insync.replicas is {least}, but a partition has {topic.replicas} replicas: no "
            "write succeeds.",
            "Lower min.insync.replicas below the replication factor.",
        )
    elif topic.replicas > 1 and least == 1:
        yield bad(
            subject,
            "min.insync.replicas is 1, so a write is acknowledged when one broker has it, and can be lost.",
            "Set it to 2 with three replicas.",
        )
    elif topic.replicas > 1 and least == topic.replicas:
        yield warning(
            subject,
            f"min.insync.replicas is {least}, as many as there are replicas: one broker that is away "
            "stops all writes.",
            "Lower it by one.",
        )
    elif topic.replicas > 1:
        yield good(subject, f"a write is acknowledged when {least} of {topic.replicas} brokers have it.")


def _retention(subject: str, topic: TopicFacts) -> Iterator[Finding]:
    config = topic.config or {}
    retention_ms = int(config.get("retention.ms") or -1)
    if "delete" in (config.get("cleanup.policy") or "") and 0 <= retention_ms < _SHORT_RETENTION_MS:
        yield warning(
            subject,
            f"retention.ms is {retention_ms}: a query that stands still for longer loses records.",
            "Raise it above the longest pause of a query.",
        )
