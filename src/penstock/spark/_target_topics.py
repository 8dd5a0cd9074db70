"""Check on the driver, before any task starts, that the topic of a write exists and may be written.

Runs on the driver when a writer is made (Spark makes one for each batch) and when a read is planned.
Invariants: one request for each process, cluster and topic, for any number of batches; only a topic that is
missing, or that the user may not write, is an error. If a broker cannot be reached, the tasks will report it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.client.settings import ConnectionSettings, connection_settings
from penstock.errors import AuthorizationError, NoTransactionsError, PenstockError
from penstock.errors import UnknownTopicOrPartitionError as UnknownTopicError
from penstock.options.config import DeliveryGuarantee, SinkConfig
from penstock.options.spelling import did_you_mean

if TYPE_CHECKING:
    from penstock.client.net.connection import KafkaConnections

_log = logging.getLogger(__name__)

PATIENCE_MS = 10_000
_SUGGESTION_MS = 3_000
_CLIENT_ID = "penstock-sink"
_found: set[tuple[ConnectionSettings, str]] = set()


def check_target_topic(config: SinkConfig, option: str, *, recovers_from_topic: bool = True) -> None:
    """Check the topic named by `option`; do nothing if each row names its own topic.

    `recovers_from_topic`: whether a recovery of an exactly-once write may have to read the topic. That of a
    continuous query reads only the offsets of its group.

    Raises:
        UnknownTopicOrPartitionError: the topic does not exist, also after a short grace.
        AuthorizationError: the topic may not be written.
        NoTransactionsError: the write is exactly-once, and the topic cannot take part in transactions.
    """
    if config.topic is None:
        return
    # Imported here because tasks load this module's caller and check nothing.
    from penstock.client.cluster.rights import Operation, check_topics  # noqa: PLC0415
    from penstock.client.net.connection import KafkaConnections  # noqa: PLC0415

    settings = connection_settings(config.properties, client_id=_CLIENT_ID)
    if (settings, config.topic) in _found:
        return
    connections = KafkaConnections(settings)
    try:
        timeout_ms = min(PATIENCE_MS, settings.default_api_timeout_ms)
        wanted, effect = [Operation.WRITE], "Nothing was read or written."
        check_topics(connections, [config.topic], wanted, effect, timeout_ms=timeout_ms)
        if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            _check_transactions(connections, config.topic, timeout_ms)
            if recovers_from_topic:
                _warn_of_recovery(connections, config.topic)
    except UnknownTopicError:
        raise _missing(config.topic, option, _meant(connections, config.topic)) from None
    except (AuthorizationError, NoTransactionsError):
        raise
    except PenstockError as error:
        _log.info("Could not check topic %s (%s); the tasks will: %s", config.topic, option, error)
    else:
        _found.add((settings, config.topic))
    finally:
        connections.close()


def _check_transactions(connections: KafkaConnections, topic: str, timeout_ms: int) -> None:
    from penstock.client.transactions.limits import mark_of_no_transactions  # noqa: PLC0415
    from penstock.sink.exactly_once.no_transactions import no_transactions  # noqa: PLC0415

    try:
        mark = mark_of_no_transactions(connections, topic, timeout_ms=timeout_ms)
    except PenstockError as error:
        _log.info("Could not ask whether topic %s has transactions; a broker would refuse: %s", topic, error)
        return
    if mark is not None:
        raise no_transactions(topic, f"its setting is {mark}")


def _warn_of_recovery(connections: KafkaConnections, topic: str) -> None:
    """Warn if a recovery could not read how a transaction ended; to write alone needs no READ."""
    from penstock.client.cluster.metadata import cluster_view  # noqa: PLC0415
    from penstock.client.cluster.rights import Operation, known_rights  # noqa: PLC0415

    rights = known_rights(cluster_view(connections).topic(topic).authorized_operations)
    if rights is not None and Operation.READ not in rights:
        _log.warning(
            "The Kafka user may not READ topic %r. A recovery after a crash reads there how a transaction "
            "ended, if the coordinator has forgotten it. It would stop until READ on the topic is granted.",
            topic,
        )


def _meant(connections: KafkaConnections, topic: str) -> str:
    from penstock.client.cluster.log_offsets import describe_topics  # noqa: PLC0415

    try:
        found = describe_topics(connections, timeout_ms=_SUGGESTION_MS)
    except PenstockError:
        return ""  # the error that is about to be raised is the one that matters
    return did_you_mean([topic], (name for name, each in found.items() if not each.is_internal))


def _missing(topic: str, option: str, meant: str) -> UnknownTopicError:
    return UnknownTopicError(
        f"Topic {topic!r} of option '{option}' does not exist, or this user may not see it.{meant} Nothing "
        "was read or written. Check the name, or create the topic: penstock does not create it.",
        topic=topic,
        option=option,
    )
