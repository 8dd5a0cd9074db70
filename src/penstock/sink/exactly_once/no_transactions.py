"""Name topics that cannot take part in transactions, instead of passing on what a broker says about them.

Runs on driver and executor. Diskless topics (KIP-1150) refuse transactions, and brokers differ in how they
say so. Invariant: an error is renamed only if the topic's settings or the broker's answer say it.
"""

from __future__ import annotations

import logging

from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.limits import mark_of_no_transactions
from penstock.errors import NoTransactionsError, PenstockError

_log = logging.getLogger(__name__)
_PATIENCE_MS = 10_000

_MAY_MEAN_IT = frozenset(
    (
        codes.INVALID_TOPIC_EXCEPTION,
        codes.UNSUPPORTED_VERSION,
        codes.INVALID_REQUEST,
        codes.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        codes.POLICY_VIOLATION,
        codes.INVALID_RECORD,
        codes.INVALID_TXN_STATE,
        codes.UNKNOWN_SERVER_ERROR,
    )
)
"""Answers with which a broker may refuse a transactional write to such a topic."""


def no_transactions(topic: str, why: str) -> NoTransactionsError:
    """Return the error for a topic that has no transactions; `why` says how that is known."""
    return NoTransactionsError(
        f"Topic {topic!r} cannot be written exactly-once, because it has no transactions: {why}. Nothing of "
        "this batch is visible to read_committed readers. Write to a topic that is not diskless, or set "
        "'sink.delivery-guarantee' to 'at-least-once'.",
        topic=topic,
    )


def refusal_named(connections: KafkaConnections, error: PenstockError) -> PenstockError:
    """Return the named error if a broker refused a write because its topic has no transactions.

    Otherwise return the error as it is.
    """
    topic, code = error.facts.get("topic"), error.facts.get("error_code")
    if not isinstance(topic, str) or code not in _MAY_MEAN_IT:
        return error
    try:
        mark = mark_of_no_transactions(connections, topic, timeout_ms=_PATIENCE_MS)
    except PenstockError as second:
        _log.warning("Cannot tell whether topic %s has transactions: %s", topic, second)
        return error
    if mark is None:
        return error
    refused = f"its setting is {mark}, and the broker refused the write ({error.message})"
    return no_transactions(topic, refused)
