"""What a broker's answer to a batch means: written, send again, look closer, or give up.

Runs on the executor. Pure. Invariant: ACKNOWLEDGED is returned only when the batch stands in the log
once, and RETRY only when sending the same bytes again cannot write it twice (under idempotence).
"""

from __future__ import annotations

from enum import Enum

from penstock.client.producer_batches import ProducerBatch

NO_ERROR = 0
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46

CORRUPTION_ATTEMPTS_MAX = 3
"""Bytes may break on the way once or twice; after that it is not the network."""

RETRIABLE = {
    7: "REQUEST_TIMED_OUT",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    51: "CONCURRENT_TRANSACTIONS",
    89: "THROTTLING_QUOTA_EXCEEDED",
}
"""Temporary at the same broker. 51: the id's last transaction is still being ended there."""

MAYBE_WRITTEN = frozenset({7, 13, 20, 56})
"""Retriable answers of a broker that may have written all the same."""

LEADER_MOVED = {
    UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    56: "KAFKA_STORAGE_ERROR",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
}
"""Temporary, and our picture of the cluster may be old."""

FINAL = {
    -1: ("UNKNOWN_SERVER_ERROR", "the broker's log says what went wrong"),
    CORRUPT_MESSAGE: ("CORRUPT_MESSAGE", "the broker finds the batch damaged"),
    MESSAGE_TOO_LARGE: (
        "MESSAGE_TOO_LARGE",
        "the batch is larger than the topic's max.message.bytes: raise that, or lower the producer "
        "property batch.size (one record larger than the limit fits in no batch)",
    ),
    17: ("INVALID_TOPIC_EXCEPTION", "the broker refuses writes to this topic"),
    18: (
        "RECORD_LIST_TOO_LARGE",
        "the batch is larger than the broker's segment size: lower the producer property batch.size",
    ),
    21: ("INVALID_REQUIRED_ACKS", "set the producer property acks to all"),
    29: ("TOPIC_AUTHORIZATION_FAILED", "grant this user WRITE on the topic"),
    31: ("CLUSTER_AUTHORIZATION_FAILED", "grant this user IDEMPOTENT_WRITE on the cluster"),
    32: ("INVALID_TIMESTAMP", "a timestamp lies too far from the broker's clock for this topic"),
    35: ("UNSUPPORTED_VERSION", "the broker is too old for this client"),
    42: ("INVALID_REQUEST", "the broker finds the request malformed"),
    43: ("UNSUPPORTED_FOR_MESSAGE_FORMAT", "the topic's message format is too old for idempotent writes"),
    44: ("POLICY_VIOLATION", "a policy of the cluster forbids this write"),
    OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "the broker misses records that this producer wrote before: acknowledged ones may be lost "
        "(an unclean leader election, or the topic was created anew)",
    ),
    DUPLICATE_SEQUENCE_NUMBER: (
        "DUPLICATE_SEQUENCE_NUMBER",
        "the broker holds other records under the same producer id and sequence numbers",
    ),
    47: ("INVALID_PRODUCER_EPOCH", "another producer has taken over this producer id"),
    48: ("INVALID_TXN_STATE", "the transaction is not in a state that allows writes"),
    49: ("INVALID_PRODUCER_ID_MAPPING", "the broker knows another producer id for this transactional id"),
    53: ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "grant this user WRITE on the transactional id"),
    59: ("UNKNOWN_PRODUCER_ID", "the broker has forgotten this producer and what it wrote"),
    76: ("UNSUPPORTED_COMPRESSION_TYPE", "the broker does not know this compression.type"),
    87: ("INVALID_RECORD", "the broker refuses a record, e.g. one without a key for a compacted topic"),
    90: ("PRODUCER_FENCED", "a newer producer has taken over"),
    120: ("TRANSACTION_ABORTABLE", "the transaction must be aborted"),
}
"""Nothing that a resend could heal: the name of the error, and what it means or what to do."""


class Verdict(Enum):
    """What to do with a batch after an answer."""

    ACKNOWLEDGED = "acknowledged"
    RETRY = "send again to the same leader"
    RETRY_ELSEWHERE = "ask who leads, then send again"
    DOUBT = "search the log for it"
    FAILED = "give up"


def judge(error_code: int, batch: ProducerBatch, *, is_first: bool) -> Verdict:
    """Return what the error code means for the batch.

    Args:
        error_code: of the Produce response, 0 for success.
        batch: the batch that was answered.
        is_first: whether all batches of its topic partition before it are acknowledged.
    """
    if error_code == NO_ERROR:
        return Verdict.ACKNOWLEDGED
    if error_code == OUT_OF_ORDER_SEQUENCE_NUMBER:
        return _judge_out_of_order(batch, is_first=is_first)
    if error_code == DUPLICATE_SEQUENCE_NUMBER and batch.is_resend:
        # Sound for a resend only: then the records under these numbers are those of our own earlier
        # sending, for this producer numbers no two batches alike. On a first sending they would be
        # somebody else's, and ours would be lost.
        return Verdict.ACKNOWLEDGED
    if error_code in LEADER_MOVED:
        return Verdict.RETRY_ELSEWHERE
    is_damaged_on_the_way = error_code == CORRUPT_MESSAGE and batch.send_count < CORRUPTION_ATTEMPTS_MAX
    return Verdict.RETRY if error_code in RETRIABLE or is_damaged_on_the_way else Verdict.FAILED


def _judge_out_of_order(batch: ProducerBatch, *, is_first: bool) -> Verdict:
    if not is_first:
        return Verdict.RETRY  # its predecessor was turned away; it goes again right after it
    # A broker that restarted remembers only the last batch of each producer. A resend of an earlier one
    # then looks out of order to it although the records are there, so the log itself has to be asked.
    return Verdict.DOUBT if batch.is_resend else Verdict.FAILED


def describe(error_code: int) -> tuple[str, str]:
    """Return an error code's name and what it means or what to do about it."""
    if error_code in FINAL:
        return FINAL[error_code]
    name = RETRIABLE.get(error_code) or LEADER_MOVED.get(error_code)
    if name is not None:
        return name, "the broker could not write now"
    return f"error code {error_code}", "an error that this version of penstock does not know"
