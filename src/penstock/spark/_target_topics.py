"""Whether the topic exists that an option names for writing, before any task finds out.

Runs on the driver: where a writer is made, which Spark does for each batch, and where a read is planned.
Invariants: one request for each process, cluster and topic, however many batches; only a topic that is
missing, or that the user may not see, stops anything. A broker that is away is left to the tasks.
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
    """Look for the topic that `option` names; nothing to do where each row names its own.

    Raises:
        UnknownTopicOrPartitionError: it does not exist, also after a short grace.
        AuthorizationError: it may not be described, so not written either.
    """
    if config.topic is None:
        return
    # Here and not above: tasks load this module's caller, and check nothing.
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
        _log.info("Whether topic %s (%s) exists is left to the tasks: %s", config.topic, option, error)
    else:
        _found.add((settings, config.topic))
    finally:
        connections.close()


def _missing(topic: str, option: str) -> UnknownTopicError:
    return UnknownTopicError(
        f"Topic {topic!r}, which option '{option}' names, does not exist, or this user may not see it. "
        "Nothing was read or written. Check the name, or create the topic: penstock makes none.",
        topic=topic,
        option=option,
    )
