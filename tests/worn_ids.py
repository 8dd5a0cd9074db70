"""Give a transactional id of a real broker a late producer epoch, as if it had ended many transactions.

With protocol V2 each transaction takes one of the 32,767 epochs of a producer id. Ending so many takes
minutes. There are two shorter ways. `wear` writes a record with the late epoch into the log of the
coordinator. Then the coordinator is killed, and the one that follows it reads the record. `wear_by_requests`
forges nothing: it takes the id again and again, which takes an epoch each time.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Mapping

from confluent_kafka import Producer

from penstock.client.cluster.coordinators import DID_NOTHING, transaction_coordinators
from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import TransactionDescription, TransactionIdentity, Transactions
from penstock.devbroker import DevCluster
from tests import judge
from tests.waiting import wait_until

_LOG = "__transaction_state"
_INIT_PRODUCER_ID, _VERSION = 22, 1
_TIMEOUT_MS = 60_000
_TRIES = 100
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


def wear_by_requests(connections: KafkaConnections, wanted: Mapping[str, int]) -> None:
    """Take each id until its producer has the wanted epoch: up to 32,766 requests for each, side by side.

    No producer may have the ids now.
    """
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            wait_until(lambda: _is_taken(connections, name, wanted[name]), f"{name} is worn")
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(name,)) for name in wanted]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed, failed
    found = _described(connections, list(wanted))
    assert {name: each.identity.producer_epoch for name, each in found.items()} == dict(wanted)


def _is_taken(connections: KafkaConnections, name: str, epoch: int) -> bool:
    """Take an id until its producer has an epoch. Return False if its coordinator moves meanwhile."""
    if _described(connections, [name])[name].identity.producer_epoch == epoch:
        return True
    broker = fetch_metadata(connections, []).brokers[coordinator_of(connections, name)]
    try:
        return _take_until(broker.host, broker.port, name, epoch)
    except OSError:
        return False


def _take_until(host: str, port: int, name: str, epoch: int) -> bool:
    """Send one InitProducerId after the other on a connection. Its bytes are always the same."""
    text = name.encode()
    head = struct.pack(">hhih", _INIT_PRODUCER_ID, _VERSION, 0, -1)
    request = head + struct.pack(f">h{len(text)}si", len(text), text, _TIMEOUT_MS)
    refused = 0
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = _received(connection, struct.calcsize(">iiihqh"))
            *_, code, _, found = struct.unpack(">iiihqh", answer)
            if code == codes.NO_ERROR and found == epoch:
                return True
            if code in DID_NOTHING:
                return False
            refused += code != codes.NO_ERROR
            assert code in (codes.NO_ERROR, codes.CONCURRENT_TRANSACTIONS), f"{name}: error code {code}"
            assert refused < _TRIES, f"{name}: another producer has it"


def _received(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ConnectionResetError("the broker has closed the connection")
        found += more
    return found


def coordinator_of(connections: KafkaConnections, transactional_id: str) -> int:
    """Return the broker that coordinates an id now."""
    _described(connections, [transactional_id])  # a coordinator that has moved is noticed
    found, problems = transaction_coordinators(connections).locate([transactional_id], {}, _TIMEOUT_MS)
    assert found, problems
    return found[transactional_id].node_id


def producer_ids(connections: KafkaConnections, transactional_ids: list[str]) -> dict[str, int]:
    """Return the producer ids that transactional ids have now."""
    return {name: each.producer_id for name, each in identities(connections, transactional_ids).items()}


def identities(connections: KafkaConnections, transactional_ids: list[str]) -> dict[str, TransactionIdentity]:
    """Return the producer ids and epochs that transactional ids have now."""
    return {name: each.identity for name, each in _described(connections, transactional_ids).items()}


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
