"""Make the errors with which a producer ends: which topic partition, the fate of the records, what to do.

Runs on the executor. Pure. Invariant: "not written" is said only when it is certain.
"""

from __future__ import annotations

from penstock.client.net import error_codes as codes
from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.verdicts import describe
from penstock.errors import PenstockError, ProduceError

_RETRY = "; the task fails, and writes all its rows again when Spark retries it."


def refused(batch: ProducerBatch, error_code: int, broker_message: str) -> ProduceError:
    """Return the error for a batch that the broker refuses permanently."""
    name, advice = describe(error_code)
    words = f" ({broker_message.rstrip('.')})" if broker_message else ""
    return ProduceError(
        f"{_subject(batch)} were refused by broker {batch.node_id}: {name}{words}: {advice}. "
        f"{_fate(may_be_written=batch.is_resend or error_code == codes.UNKNOWN_SERVER_ERROR)}",
        **_facts(batch),
        kafka_error=name,
        error_code=error_code,
    )


def lost_by_broker(batch: ProducerBatch) -> ProduceError:
    """Return the error for a topic partition whose log lacks records of this producer."""
    return ProduceError(
        f"{_subject(batch)} cannot be written in order: the leader's log was searched from the last "
        "acknowledged record to its end and does not hold the records that come before them. The broker has "
        "lost records, perhaps by an unclean leader election; acknowledged records may be lost too. "
        f"{_fate(may_be_written=False)}",
        **_facts(batch),
        kafka_error="OUT_OF_ORDER_SEQUENCE_NUMBER",
    )


def undecided(batch: ProducerBatch, why: str) -> ProduceError:
    """Return the error for a batch in doubt whose topic partition's log cannot be searched."""
    return ProduceError(
        f"{_subject(batch)} were sent, but their acknowledgement was lost and the broker can no longer tell "
        f"whether it wrote them. Searching its log failed: {why.rstrip('.')}. {_fate(may_be_written=True)}",
        **_facts(batch),
    )


def expired(batch: ProducerBatch, option: str, delivery_timeout_ms: int) -> ProduceError:
    """Return the error for a batch that was not acknowledged in time; `option` as the user writes it."""
    if not batch.send_count:
        history = "they could not be sent. Is the leader of the topic partition available?"
    else:
        history = f"sent {batch.send_count} times, last problem: {batch.last_problem or 'no answer yet'}."
    return ProduceError(
        f"{_subject(batch)} were not acknowledged within '{option}' = {delivery_timeout_ms}: "
        f"{history} {_fate(may_be_written=batch.send_count > 0)}",
        **_facts(batch),
        timeout_ms=delivery_timeout_ms,
    )


def broken(batch: ProducerBatch, error: PenstockError) -> ProduceError:
    """Return the error for a batch whose request failed permanently."""
    return ProduceError(
        f"{_subject(batch)} could not be written: {error.message} {_fate(may_be_written=True)}",
        **{**error.facts, **_facts(batch)},
    )


def recreated(topic: str) -> ProduceError:
    """Return the error for a topic that was recreated while the producer wrote into it."""
    return ProduceError(
        f"Topic {topic!r} was deleted and created again during the write. Records that were written before "
        "were deleted with the old topic. Nothing was written into the new one; start the write again.",
        topic=topic,
    )


def buffer_full(held_bytes: int, limit_bytes: int, waited_ms: int) -> ProduceError:
    """Return the error for a full buffer, because brokers acknowledge too slowly."""
    return ProduceError(
        f"The producer's buffer was full for {waited_ms} ms (max.block.ms): {held_bytes} bytes wait for "
        f"acknowledgement, the limit (buffer.memory) is {limit_bytes}. The brokers are too slow or cannot "
        "be reached. Earlier rows of this task may or may not have been written; the task fails, and writes "
        "all its rows again when Spark retries it.",
        timeout_ms=waited_ms,
    )


def crashed(error: BaseException) -> ProduceError:
    """Return the error for a defect of our own in the sender thread."""
    return ProduceError(
        f"The producer stopped because of a defect in penstock ({type(error).__name__}: {error}). Please "
        "report it. Unacknowledged records may or may not have been written; the task fails, and writes all "
        "its rows again when Spark retries it."
    )


def without_retry(error: PenstockError) -> str:
    """Return the message of an error after which the task does not fail."""
    return error.message.replace(_RETRY, ".")


def _subject(batch: ProducerBatch) -> str:
    return f"{batch.record_count} records for {batch.topic_partition} ({len(batch.data)} bytes)"


def _fate(*, may_be_written: bool) -> str:
    fate = "may or may not have been written" if may_be_written else "were not written"
    return f"They {fate}{_RETRY}"


def _facts(batch: ProducerBatch) -> dict[str, object]:
    topic, partition = batch.topic_partition
    return {
        "topic": topic,
        "partition": partition,
        "record_count": batch.record_count,
        "size_bytes": len(batch.data),
    }
