"""Check on the driver, before any task starts, that the topic of a write exists.

Runs on the driver when a writer is made (Spark makes one for each batch) and when a read is planned.
Invariants: one request for each process, cluster and topic, for any number of batches; only a topic that is
missing, or that the user may not see, is an error. If a broker cannot be reached, the tasks will report it.
"""

from __future__ import annotations

import logging

from penstock.client.settings import ConnectionSettings, connection_settings
from penstock.errors import AuthorizationError, PenstockError
from penstock.errors import UnknownTopicOrPartitionError as UnknownTopicError
from penstock.options.config import SinkConfig

_log = logging.getLogger(__name__)

PATIENCE_MS = 10_000
_CLIENT_ID = "penstock-sink"
_found: set[tuple[ConnectionSettings, str]] = set()


def check_target_topic(config: SinkConfig, option: str) -> None:
    """Check that the topic named by `option` exists; do nothing if each row names its own topic.

    Raises:
        UnknownTopicOrPartitionError: the topic does not exist, also after a short grace.
        AuthorizationError: the topic may not be described, and so not written.
    """
    if config.topic is None:
        return
    # Imported here because tasks load this module's caller and check nothing.
    from penstock.client.cluster.metadata import cluster_view  # noqa: PLC0415
    from penstock.client.net.connection import KafkaConnections  # noqa: PLC0415

    settings = connection_settings(config.properties, client_id=_CLIENT_ID)
    if (settings, config.topic) in _found:
        return
    connections = KafkaConnections(settings)
    try:
        timeout_ms = min(PATIENCE_MS, settings.default_api_timeout_ms)
        cluster_view(connections).topic(config.topic, timeout_ms=timeout_ms)
    except UnknownTopicError:
        raise _missing(config.topic, option) from None
    except AuthorizationError:
        raise
    except PenstockError as error:
        _log.info("Could not check topic %s (%s); the tasks will: %s", config.topic, option, error)
    else:
        _found.add((settings, config.topic))
    finally:
        connections.close()


def _missing(topic: str, option: str) -> UnknownTopicError:
    return UnknownTopicError(
        f"Topic {topic!r} of option '{option}' does not exist, or this user may not see it. Nothing was read "
        "or written. Check the name, or create the topic: penstock does not create it.",
        topic=topic,
        option=option,
    )
