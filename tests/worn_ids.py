"""Give a transactional id of a real broker a late producer epoch, as if it had ended many transactions.

With protocol V2 each transaction takes one of the 32,767 epochs of a producer id. Ending so many takes
minutes. So a record with the late epoch is written into the log of the coordinator. Then the coordinator is
killed, and the one that follows it reads the record.
"""

from __future__ import annotations

import struct
import time

from confluent_kafka import Producer

from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import TransactionDescription, Transactions
from penstock.devbroker import DevCluster
from tests import judge
from tests.waiting import wait_until

_LOG = "__transaction_state"
_EMPTY = 0
"""The state of an id that has no transaction."""
_ADMIN = "__admin_client"
"""The client id that may write into topics of Kafka's own."""


def wear(
    cluster: DevCluster, connections: KafkaConnections, transactional_ids: list[str], epoch: int
) -> dict[str, int]:
    """Set the producer epoch of ids that no producer has now. Return their producer ids.

    Each broker that coordinates one of them is killed and started again.
    """
    found = _described(connections, transactional_ids)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": _ADMIN, "acks": "all"})
    partitions = len(producer.list_topics(_LOG, timeout=30).topics[_LOG].partitions)
    places = {name: _java_hash(name) % partitions for name in transactional_ids}
    for name, partition in places.items():
        key = struct.pack(f">hh{len(name)}s", 0, len(name), name.encode())
        value = _record(found[name], epoch)
        producer.produce(_LOG, value, key, partition=partition)
    judge.flush(producer)
    leaders = producer.list_topics(_LOG, timeout=30).topics[_LOG].partitions
    for node_id in {leaders[partition].leader for partition in places.values()}:
        cluster.kill(node_id)
        cluster.restart(node_id)
    wait_until(
        lambda: all(
            each.identity.producer_epoch == epoch for each in _described(connections, places).values()
        ),
        "the coordinators have the late epoch",
    )
    return {name: each.identity.producer_id for name, each in found.items()}


def producer_ids(connections: KafkaConnections, transactional_ids: list[str]) -> dict[str, int]:
    """Return the producer ids that transactional ids have now."""
    found = _described(connections, transactional_ids)
    return {name: each.identity.producer_id for name, each in found.items()}


def _described(connections: KafkaConnections, names: object) -> dict[str, TransactionDescription]:
    found = Transactions(connections).describe(list(names))  # type: ignore[call-overload]  # of names
    return {name: each for name, each in found.items() if each is not None}


def _record(of: TransactionDescription, epoch: int) -> bytes:
    """Return TransactionLogValue of version 0."""
    now_ms = time.time_ns() // 1_000_000
    head = struct.pack(">hqhib", 0, of.identity.producer_id, epoch, of.timeout_ms, _EMPTY)
    return head + struct.pack(">iqq", -1, now_ms, -1)


def _java_hash(text: str) -> int:
    """Return what Kafka's coordinators divide ids by: Java's hash of a string without its sign."""
    found = 0
    for each in text:
        found = (31 * found + ord(each)) & 0xFFFFFFFF
    signed = found - (1 << 32) if found >> 31 else found
    return 0 if signed == -(1 << 31) else abs(signed)
