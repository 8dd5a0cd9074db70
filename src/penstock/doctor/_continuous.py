"""Judge what a continuous query depends on: its group, its transactional ids, the brokers' transactions.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.doctor._topics import durability_findings
from penstock.doctor.facts import BrokerFacts, ContinuousFacts, Facts, TopicFacts
from penstock.doctor.findings import Finding, bad, good, note, warning

RETRY_BACKOFF = "add.partitions.to.txn.retry.backoff.ms"
VERIFICATION = "transaction.partition.verification.enable"
MAX_TIMEOUT = "transaction.max.timeout.ms"
OFFSETS_RETENTION = "offsets.retention.minutes"
BROKER_CONFIGS = (RETRY_BACKOFF, VERIFICATION, MAX_TIMEOUT, OFFSETS_RETENTION)
_KAFKAS_BACKOFF_MS = 20
_SHORT_RETENTION_MINUTES = 1_440
_LOST = {
    "__transaction_state": "which transactions were committed",
    "__consumer_offsets": "where the query is, and it has no other state",
}


def continuous_findings(facts: Facts, continuous: ContinuousFacts) -> Iterator[Finding]:
    """Judge everything but the group, and the topics that are read and written."""
    yield from _ids(continuous)
    yield _protocol(facts.brokers, continuous)
    for topic in continuous.internal_topics:
        yield from _internal(topic, len(facts.brokers))
    yield from _settings(facts.brokers, continuous)


def group_findings(continuous: ContinuousFacts) -> Iterator[Finding]:
    """Judge the consumer group of a continuous query."""
    group = continuous.group
    subject = f"consumer group {group.group_id}"
    if group.error:
        yield bad(subject, group.error, "")
        return
    if group.may_describe is False or group.may_read is False:
        text = "the user lacks the right READ on it, so the query can neither join it nor commit offsets."
        yield bad(subject, text, "Grant READ on the consumer group.")
        return
    if continuous.is_running:
        yield warning(
            subject,
            "a continuous query is its member, or was killed less than a minute ago.",
            "Do not start the query a second time: the newest start wins, and the other one ends.",
        )
    elif group.member_count:
        text = f"it is in use by {group.member_count} consumers, so a continuous query cannot join it."
        yield bad(subject, text, "Stop them, or give the query a group id of its own.")
    else:
        yield good(subject, "no consumer is a member of it.")
    if continuous.offsets_error:
        yield bad(subject, f"its offsets could not be read: {continuous.offsets_error}", "")
    elif continuous.has_offsets_of_stream:
        yield bad(
            subject,
            "a stream with micro-batches has committed its offsets, which may be behind its checkpoint.",
            "Stop the stream, and let the query take over: docs/continuous-take-over.md has the steps.",
        )


def _ids(continuous: ContinuousFacts) -> Iterator[Finding]:
    names = f"{continuous.prefix}-continuous-"
    subject = f"transactional ids {names}*"
    if continuous.write_error:
        yield bad(subject, continuous.write_error, f"Grant WRITE on those that begin with '{names}'.")
    elif continuous.ids_error:
        yield bad(subject, continuous.ids_error, "Their rights could not be checked.")
    else:
        yield good(subject, "the user may write with them.")


def _protocol(brokers: tuple[BrokerFacts, ...], continuous: ContinuousFacts) -> Finding:
    subject = "transaction protocol"
    if continuous.protocol_error:
        return bad(subject, continuous.protocol_error, "")
    if continuous.is_protocol_2:
        return good(subject, "transaction.version is 2: each transaction has an epoch of its own.")
    if not continuous.refuses_late_writes:
        return bad(
            subject,
            "transaction.version is below 2, and the brokers are older than Kafka 3.6. They may accept a "
            "record after the end of its transaction (KIP-890), so exactly-once is refused.",
            "Update the brokers, or set 'sink.delivery-guarantee' to 'at-least-once'.",
        )
    if any(value == "false" for value in _values(brokers, VERIFICATION)):
        return bad(
            subject,
            f"transaction.version is below 2, and {VERIFICATION} is false. A broker may accept a record "
            "after the end of its transaction, so a record could be doubled.",
            f"Set {VERIFICATION} to true, or raise transaction.version to 2 (kafka-features.sh).",
        )
    return good(subject, "transaction.version is below 2, and the brokers refuse late writes (Kafka 3.6).")


def _internal(topic: TopicFacts, broker_count: int) -> Iterator[Finding]:
    subject = f"topic {topic.topic}"
    if topic.is_missing:
        yield note(
            subject,
            "it does not exist yet, or the user may not see it.",
            "The brokers create it at the first use. Its replication factor should be 3 then: see "
            "transaction.state.log.replication.factor and offsets.topic.replication.factor.",
        )
        return
    if topic.error:
        yield warning(subject, topic.error, "Its replication could not be checked.")
        return
    of_it = _LOST[topic.topic]
    yield good(subject, f"it has {topic.replicas} replicas of each partition. It holds {of_it}.")
    yield from durability_findings(subject, topic, broker_count)


def _settings(brokers: tuple[BrokerFacts, ...], continuous: ContinuousFacts) -> Iterator[Finding]:
    subject = "broker settings"
    if any(broker.config is None for broker in brokers if not broker.error):
        yield warning(
            subject,
            "they could not be read, because the user lacks DESCRIBE_CONFIGS on the cluster.",
            f"Grant it, or check by hand: {', '.join(BROKER_CONFIGS)}.",
        )
        return
    yield _timeout(brokers, continuous.transaction_timeout_ms)
    backoff_ms = max(map(int, _values(brokers, RETRY_BACKOFF)), default=None)
    if backoff_ms is not None and backoff_ms > _KAFKAS_BACKOFF_MS:
        yield warning(
            RETRY_BACKOFF,
            f"it is {backoff_ms}. A transaction waits for so long if it begins while the markers of the last "
            "one are being written.",
            f"Set it to {_KAFKAS_BACKOFF_MS}, Kafka's default, or use lanes=2.",
        )
    elif backoff_ms is not None:
        yield good(RETRY_BACKOFF, f"it is {backoff_ms}. With lanes=2 transactions seldom wait for it.")
    retention = min(map(int, _values(brokers, OFFSETS_RETENTION)), default=None)
    if retention is not None and retention < _SHORT_RETENTION_MINUTES:
        yield warning(
            OFFSETS_RETENTION,
            f"it is {retention}. A query that was stopped for longer begins as a new one.",
            "Raise it to 7 days (10080), Kafka's default, or set 'scan.startup.mode' to 'group-offsets', "
            "which makes such a start an error.",
        )


def _timeout(brokers: tuple[BrokerFacts, ...], wanted_ms: int) -> Finding:
    allowed_ms = min(map(int, _values(brokers, MAX_TIMEOUT)), default=900_000)
    if wanted_ms > allowed_ms:
        text = f"transaction.timeout.ms is {wanted_ms}, but the brokers allow {allowed_ms} at most."
        return bad("transaction time-outs", text, f"Set it to {allowed_ms} or less on the sink.")
    text = f"readers wait at most {wanted_ms} ms for a task that died, if nothing takes its place."
    return good("transaction time-outs", text)


def _values(brokers: tuple[BrokerFacts, ...], name: str) -> list[str]:
    """Return the values of a setting on the brokers that have it."""
    found = ((broker.config or {}).get(name) for broker in brokers)
    return [value for value in found if value is not None]
