"""Judge a broker's answer to a batch: written, send again, search the log, or fail.

Runs on the executor. Pure. Invariant: ACKNOWLEDGED is returned only when the log holds the batch once, and
RETRY only when sending the same bytes again cannot write it twice (with idempotence).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from penstock.client.net import error_codes as codes
from penstock.client.produce.batches import ProducerBatch

CORRUPTION_ATTEMPTS_MAX = 3
"""The network may damage bytes once or twice; more often is another fault."""


class Verdict(Enum):
    """The next step for a batch after an answer."""

    ACKNOWLEDGED = "acknowledged"
    RETRY = "send again to the same leader"
    RETRY_ELSEWHERE = "ask who leads, then send again"
    DOUBT = "search the log for it"
    FAILED = "give up"


class Meaning(NamedTuple):
    """The meaning of an error code for a batch; for some codes `judge` also looks at the batch."""

    verdict: Verdict
    advice: str = "the broker could not write now"
    """The cause of the error, or what to do."""
    may_be_written: bool = False
    """Whether a broker that answers with this code may have written the batch."""


MEANINGS: dict[int, Meaning] = {
    # Temporary at the same broker.
    codes.REQUEST_TIMED_OUT: Meaning(Verdict.RETRY, may_be_written=True),
    codes.NOT_ENOUGH_REPLICAS: Meaning(Verdict.RETRY),
    codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Meaning(Verdict.RETRY, may_be_written=True),
    # The last transaction of the id is still being ended there.
    codes.CONCURRENT_TRANSACTIONS: Meaning(Verdict.RETRY),
    codes.THROTTLING_QUOTA_EXCEEDED: Meaning(Verdict.RETRY),
    # Temporary, and our picture of the cluster may be old.
    codes.UNKNOWN_TOPIC_OR_PARTITION: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.LEADER_NOT_AVAILABLE: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.NOT_LEADER_OR_FOLLOWER: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.BROKER_NOT_AVAILABLE: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.REPLICA_NOT_AVAILABLE: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.NETWORK_EXCEPTION: Meaning(Verdict.RETRY_ELSEWHERE, may_be_written=True),
    codes.KAFKA_STORAGE_ERROR: Meaning(Verdict.RETRY_ELSEWHERE, may_be_written=True),
    codes.FENCED_LEADER_EPOCH: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.UNKNOWN_LEADER_EPOCH: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.UNKNOWN_TOPIC_ID: Meaning(Verdict.RETRY_ELSEWHERE),
    codes.INCONSISTENT_TOPIC_ID: Meaning(Verdict.RETRY_ELSEWHERE),
    # A resend would fail too.
    codes.UNKNOWN_SERVER_ERROR: Meaning(Verdict.FAILED, "the broker's log says what went wrong"),
    codes.CORRUPT_MESSAGE: Meaning(Verdict.FAILED, "the broker finds the batch damaged"),
    codes.MESSAGE_TOO_LARGE: Meaning(
        Verdict.FAILED,
        "the batch is larger than the topic's max.message.bytes: raise that, or lower the producer "
        "property batch.size (one record larger than the limit fits in no batch)",
    ),
    codes.INVALID_TOPIC_EXCEPTION: Meaning(Verdict.FAILED, "the broker refuses writes to this topic"),
    codes.RECORD_LIST_TOO_LARGE: Meaning(
        Verdict.FAILED,
        "the batch is larger than the broker's segment size: lower the producer property batch.size",
    ),
    codes.INVALID_REQUIRED_ACKS: Meaning(Verdict.FAILED, "set the producer property acks to all"),
    codes.TOPIC_AUTHORIZATION_FAILED: Meaning(Verdict.FAILED, "grant this user WRITE on the topic"),
    codes.CLUSTER_AUTHORIZATION_FAILED: Meaning(
        Verdict.FAILED, "grant this user IDEMPOTENT_WRITE on the cluster"
    ),
    codes.INVALID_TIMESTAMP: Meaning(
        Verdict.FAILED, "a timestamp lies too far from the broker's clock for this topic"
    ),
    codes.UNSUPPORTED_VERSION: Meaning(Verdict.FAILED, "the broker is too old for this client"),
    codes.INVALID_REQUEST: Meaning(Verdict.FAILED, "the broker finds the request malformed"),
    codes.UNSUPPORTED_FOR_MESSAGE_FORMAT: Meaning(
        Verdict.FAILED, "the topic's message format is too old for idempotent writes"
    ),
    codes.POLICY_VIOLATION: Meaning(Verdict.FAILED, "a policy of the cluster forbids this write"),
    codes.OUT_OF_ORDER_SEQUENCE_NUMBER: Meaning(
        Verdict.FAILED,
        "the broker misses records that this producer wrote before: acknowledged ones may be lost "
        "(an unclean leader election, or the topic was deleted and created again)",
    ),
    codes.DUPLICATE_SEQUENCE_NUMBER: Meaning(
        Verdict.FAILED, "the broker holds other records under the same producer id and sequence numbers"
    ),
    codes.INVALID_PRODUCER_EPOCH: Meaning(Verdict.FAILED, "another producer has taken over this producer id"),
    codes.INVALID_TXN_STATE: Meaning(Verdict.FAILED, "the transaction is not in a state that allows writes"),
    codes.INVALID_PRODUCER_ID_MAPPING: Meaning(
        Verdict.FAILED, "the broker knows another producer id for this transactional id"
    ),
    codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Meaning(
        Verdict.FAILED, "grant this user WRITE on the transactional id"
    ),
    codes.UNKNOWN_PRODUCER_ID: Meaning(
        Verdict.FAILED, "the broker has forgotten this producer and what it wrote"
    ),
    codes.UNSUPPORTED_COMPRESSION_TYPE: Meaning(
        Verdict.FAILED, "the broker does not know this compression.type"
    ),
    codes.INVALID_RECORD: Meaning(
        Verdict.FAILED, "the broker refuses a record, e.g. one without a key for a compacted topic"
    ),
    codes.PRODUCER_FENCED: Meaning(Verdict.FAILED, "a newer producer has taken over"),
    codes.TRANSACTION_ABORTABLE: Meaning(Verdict.FAILED, "the transaction must be aborted"),
}

_UNKNOWN = Meaning(Verdict.FAILED, "an error that this version of penstock does not know")


def judge(error_code: int, batch: ProducerBatch, *, is_first: bool) -> Verdict:
    """Return what the error code means for the batch.

    Args:
        error_code: of the Produce response, 0 for success.
        batch: the batch that was answered.
        is_first: whether all batches of its topic partition before it are acknowledged.
    """
    if error_code == codes.NO_ERROR:
        return Verdict.ACKNOWLEDGED
    if error_code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return _judge_out_of_order(batch, is_first=is_first)
    if error_code == codes.DUPLICATE_SEQUENCE_NUMBER and batch.is_resend:
        # Valid for a resend only: then the log holds the records of our own earlier request, because this
        # producer never gives a sequence number twice. After a first request they would be the records of
        # another producer, and ours would be lost.
        return Verdict.ACKNOWLEDGED
    if error_code == codes.CORRUPT_MESSAGE and batch.send_count < CORRUPTION_ATTEMPTS_MAX:
        return Verdict.RETRY  # damaged on the way
    return MEANINGS.get(error_code, _UNKNOWN).verdict


def _judge_out_of_order(batch: ProducerBatch, *, is_first: bool) -> Verdict:
    if not is_first:
        return Verdict.RETRY  # the broker refused its predecessor, which is sent again before it
    # A broker that restarted remembers only the last batch of each producer. It refuses the resend of an
    # earlier batch as out of order although the log holds its records, so the log has to be searched.
    return Verdict.DOUBT if batch.is_resend else Verdict.FAILED


def may_be_written(error_code: int) -> bool:
    """Return whether a broker that answers with this code may have written the batch."""
    return MEANINGS.get(error_code, _UNKNOWN).may_be_written


def describe(error_code: int) -> tuple[str, str]:
    """Return an error code's name, and its cause or what to do."""
    name = codes.NAMES.get(error_code) if error_code in MEANINGS else None
    return name or f"error code {error_code}", MEANINGS.get(error_code, _UNKNOWN).advice
