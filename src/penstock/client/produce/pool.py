"""Open producers, and keep one for the next task of this process.

Runs on the executor. Invariant: a producer serves one task at a time, and is kept only after a task that
flushed it, or whose user has turned flushing off. A producer that failed, or whose task failed, is closed. A
kept producer holds no records if it was flushed. It keeps its producer id, because brokers remember every id
for a day: a new id for each task of each micro-batch would fill their memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.client.cluster.ask import repeat
from penstock.client.cluster.metadata import cluster_view
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections, connections_for
from penstock.client.net.error_codes import CLUSTER_AUTHORIZATION_FAILED
from penstock.client.produce.idempotence import ANONYMOUS, ProducerIdentity
from penstock.client.produce.producer import Producer
from penstock.client.produce.requests import init_producer_id_request
from penstock.client.settings import ConnectionSettings, ProduceSettings
from penstock.errors import ProduceError

_KEPT_MAX = 4
"""Producers kept per process. More than one is kept only when queries with other settings share it."""

_Key = tuple[ConnectionSettings, ProduceSettings]


def request_identity(connections: KafkaConnections, timeout_ms: int) -> ProducerIdentity:
    """Ask any broker for a new producer id.

    Raises:
        BrokerUnavailableError: no broker gave one in time.
        AuthorizationError: this user may not write idempotently.
    """

    def attempt(left_ms: int) -> ProducerIdentity:
        response = connections.request(init_producer_id_request(), timeout_ms=left_ms)
        if response.error_code == CLUSTER_AUTHORIZATION_FAILED:
            from penstock.client.cluster.rights import Operation, denied  # noqa: PLC0415 - rarely needed

            topics = "the topics to write (before Kafka 2.8: IDEMPOTENT_WRITE on the cluster)"
            raise denied(connections, Operation.WRITE, topics, "Nothing was written.")
        if response.error_code:
            raise error_from_code(response.error_code, "Asking for a producer id")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    return repeat(connections, attempt, timeout_ms)


def open_producer(connections: KafkaConnections, settings: ProduceSettings) -> Producer:
    """Return a new producer; idempotent if the settings say so. Raises as `request_identity()`."""
    identity = ANONYMOUS
    if settings.enable_idempotence:
        identity = request_identity(connections, settings.max_block_ms)
    return Producer(connections, cluster_view(connections), settings, identity)


_kept: dict[_Key, tuple[KafkaConnections, Producer]] = {}
_kept_lock = threading.Lock()


@contextmanager
def borrowed_producer(connection: ConnectionSettings, produce: ProduceSettings) -> Iterator[Producer]:
    """Lend a producer to one task, which flushes it before the block ends."""
    key = (connection, produce)
    connections = connections_for(connection)
    producer = _take(key, connections) or open_producer(connections, produce)
    try:
        yield producer
    except ProduceError as error:
        producer.close()
        from penstock.client.cluster.rights import write_denied  # noqa: PLC0415 - rarely needed

        if (named := write_denied(connections, error)) is not error:
            raise named from error
        raise
    except BaseException:
        producer.close()
        raise
    _keep(key, connections, producer)


def close_kept_producers() -> None:
    """Close all producers that wait for their next task."""
    with _kept_lock:
        producers = [producer for _, producer in _kept.values()]
        _kept.clear()
    for producer in producers:
        producer.close()


def _take(key: _Key, connections: KafkaConnections) -> Producer | None:
    with _kept_lock:
        opened_on, producer = _kept.pop(key, (None, None))
    if producer is None or (opened_on is connections and producer.is_usable):
        return producer
    producer.close()
    return None


def _keep(key: _Key, connections: KafkaConnections, producer: Producer) -> None:
    """Keep the producer, and close the longest kept one when they become too many."""
    superfluous = [producer]
    with _kept_lock:
        if producer.is_usable and key not in _kept:
            _kept[key] = (connections, producer)
            superfluous = []
        if len(_kept) > _KEPT_MAX:
            oldest = next(iter(_kept))
            superfluous.append(_kept.pop(oldest)[1])
    for each in superfluous:
        each.close()


def _forget_after_fork() -> None:
    """Forget the parent's producers in a forked child, because their sender threads do not exist there."""
    global _kept_lock  # noqa: PLW0603  # a thread of the parent that is not here may have held the lock
    _kept_lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
