"""A real Apache Kafka for the quickstart and the tests: one or three brokers as child processes.

Runs on the driver or in a test. Invariant: nothing is left behind: the brokers end with their owner
(see `supervisor`), and a folder that the cluster made is removed with it.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from penstock.devbroker.ivy import Progress
from penstock.devbroker.jars import kafka_jars, print_progress
from penstock.devbroker.java import find_java
from penstock.devbroker.node import BrokerNode
from penstock.devbroker.probe import ask_cluster
from penstock.devbroker.properties import (
    CLIENT_LISTENER,
    CONTROLLER_LISTENER,
    HOST,
    NodeAddress,
    check_user_properties,
    server_properties,
)
from penstock.devbroker.shared_classes import archive_key, find_archive, flags_to_use
from penstock.devbroker.storage import bootstrap_checkpoint, random_kafka_uuid
from penstock.errors import DevBrokerError

_PORT_TRIES = 3
_POLL_INTERVAL_S = 0.05
_PROBE_TIMEOUT_S = 2.0
_PORT_TAKEN = ("Address already in use", "BindException")
# For a process that lives for seconds: quick to start, one core, little memory.
_JVM_FLAGS = (
    "-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
    "-XX:-UsePerfData", "-Djava.awt.headless=true",
)  # fmt: skip

# Below the ports that Linux (32768) and macOS (49152) give to outgoing connections, because such a connection
# could take the port of a broker that is being restarted.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 1000


class DevCluster:
    """A development cluster of real brokers, as a context manager or with start() and stop().

    Args:
        brokers: 1, or 3 (replication factor 3 and two in-sync replicas, also of internal topics); each
            is broker and controller. Node ids count from 1; broker.rack is `rack-<node id>`.
        properties: Further server properties, the same for each broker.
        listeners: Further listeners, name to security protocol (`{"SASL": "SASL_PLAINTEXT"}`); their
            settings are properties (`listener.name.sasl...`). See `bootstrap_servers_of`.
        data_dir: Folder for data and logs; it stays at the end, and is used again when it holds a cluster.
            Without it a temporary folder is used, and removed at the end.
        port: Of the client listener of node 1; None: a free one.
        progress: Called with a message before a long step (fetching the jars).
        start_timeout_s: How long brokers may take until they answer.
    """

    def __init__(
        self,
        brokers: int = 1,
        properties: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        data_dir: Path | str | None = None,
        port: int | None = None,
        progress: Progress = print_progress,
        start_timeout_s: float = 60.0,
    ) -> None:
        if brokers not in (1, 3):
            raise DevBrokerError(f"A development cluster has 1 or 3 brokers, not {brokers}.", brokers=brokers)
        self._properties = dict(properties or {})
        check_user_properties(self._properties)
        self._broker_count = brokers
        self._listeners = dict(listeners or {})
        self._data_dir = Path(data_dir).absolute() if data_dir is not None else None
        if "," in str(self._data_dir):
            raise DevBrokerError(
                f"Kafka would take {self._data_dir} for several folders: give a data_dir without a comma.",
                data_dir=str(self._data_dir),
            )
        self._port = port
        self._progress = progress
        self._start_timeout_s = start_timeout_s
        self._temporary: Path | None = None
        self._java_command: list[str] = []
        self._nodes: dict[int, BrokerNode] = {}
        self._addresses: list[NodeAddress] = []
        self._cluster_id = ""

    def __enter__(self) -> DevCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Return `host:port` of the plaintext listener of each broker, separated by commas."""
        return self.bootstrap_servers_of(CLIENT_LISTENER)

    @property
    def node_ids(self) -> list[int]:
        """Return the ids of the brokers."""
        return sorted(self._nodes)

    @property
    def folder(self) -> Path:
        """Return the folder of the brokers' data and logs."""
        folder = self._data_dir or self._temporary
        if folder is None:
            raise DevBrokerError("The cluster was not started, so it has no folder.")
        return folder

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the addresses of one of the further listeners."""
        self._require_started()
        if listener not in self._addresses[0].ports:
            raise DevBrokerError(
                f"The cluster has no listener {listener}, only {sorted(self._addresses[0].ports)}.",
                listener=listener,
            )
        return ",".join(f"{HOST}:{address.ports[listener]}" for address in self._addresses)

    def log_file(self, node_id: int = 1) -> Path:
        """Return the log of one broker."""
        return self._node(node_id).log_file

    def pid(self, node_id: int = 1) -> int | None:
        """Return the process id of one broker; None when it does not run."""
        return self._node(node_id).pid

    def is_alive(self, node_id: int = 1) -> bool:
        """Return whether the process of one broker exists (also while it is paused)."""
        return self._node(node_id).is_alive

    def start(self) -> None:
        """Start all brokers and return when they answer.

        Raises:
            DevBrokerError: They did not start; with the end of a broker's log. Nothing is left running.
        """
        if self._nodes:
            raise DevBrokerError("The cluster was started already.")
        jars = kafka_jars(self._progress)
        is_cached = not os.environ.get("KAFKA_HOME")  # nothing is kept in a folder of the user
        java_command = [str(find_java()), *_JVM_FLAGS, "-cp", ":".join(map(str, jars))]
        self._java_command = [*java_command, *(self._class_flags(jars) if is_cached else ())]
        try:
            if self._data_dir is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="penstock-broker-"))
            self._make_nodes(java_command, keep_in=jars[0].parent if is_cached else None)
            self._launch_all()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all brokers; remove the folder unless the caller gave it. May be called repeatedly."""
        for node in self._nodes.values():
            if self._temporary is not None:
                node.kill()  # its data are not needed any more
            else:
                node.begin_stop()  # all at once: the last of three would wait in vain for a quorum
        for node in self._nodes.values():
            node.stop()
        self._nodes = {}
        self._addresses = []
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def kill(self, node_id: int = 1) -> None:
        """End one broker as a crash would (SIGKILL); return when it is gone."""
        self._node(node_id).kill()

    def pause(self, node_id: int = 1) -> None:
        """Pause one broker (SIGSTOP): its connections stay open, but it does not answer."""
        self._node(node_id).pause()

    def resume(self, node_id: int = 1) -> None:
        """End the pause of one broker (SIGCONT)."""
        self._node(node_id).resume()

    def restart(self, node_id: int = 1) -> None:
        """Stop one broker if it runs, start it with the same ports and data, return when it answers."""
        node = self._node(node_id)
        node.stop()
        node.launch(self._java_command)
        self._wait_until_ready([node], {node_id})

    def _class_flags(self, jars: Sequence[Path]) -> list[str]:
        return flags_to_use(find_archive(jars[0].parent, archive_key(find_java(), jars)))

    def _require_started(self) -> None:
        if not self._addresses:
            raise DevBrokerError(
                "The cluster does not run: use it in a with statement, or call start() first."
            )

    def _node(self, node_id: int) -> BrokerNode:
        self._require_started()
        if node_id not in self._nodes:
            raise DevBrokerError(
                f"The cluster has no broker {node_id}, only {sorted(self._nodes)}.", node_id=node_id
            )
        return self._nodes[node_id]

    def _make_nodes(self, java_command: Sequence[str], *, keep_in: Path | None) -> None:
        node_ids = range(1, self._broker_count + 1)
        is_temporary = self._temporary is not None
        nodes = {
            node_id: BrokerNode(node_id, self.folder / f"node-{node_id}", is_temporary=is_temporary)
            for node_id in node_ids
        }
        cluster_ids = {node.cluster_id for node in nodes.values()} - {None}
        if len(cluster_ids) > 1:
            names = sorted(map(str, cluster_ids))
            raise DevBrokerError(
                f"{self.folder} holds brokers of different clusters: {names}. Give another folder.",
                folder=str(self.folder),
            )
        self._cluster_id = cluster_ids.pop() or "" if cluster_ids else random_kafka_uuid()
        new_nodes = [node for node in nodes.values() if node.cluster_id is None]
        if new_nodes:
            bootstrap = bootstrap_checkpoint(java_command, keep_in)
            for node in new_nodes:
                node.format_data(self._cluster_id, bootstrap)
        self._nodes = nodes

    def _launch_all(self) -> None:
        for tries_left in reversed(range(_PORT_TRIES)):
            self._addresses = self._choose_addresses()
            for address, node in zip(self._addresses, self._nodes.values(), strict=True):
                node.prepare(
                    address,
                    server_properties(
                        address, self._addresses, node.log_dir, self._listeners, self._properties
                    ),
                )
                node.log_file.unlink(missing_ok=True)
            for node in self._nodes.values():
                node.launch(self._java_command)
            try:
                self._wait_until_ready(list(self._nodes.values()), set(self._nodes))
            except DevBrokerError as error:
                if tries_left == 0 or not any(sign in str(error) for sign in _PORT_TAKEN):
                    raise
                for node in self._nodes.values():
                    node.kill()
            else:
                return

    def _choose_addresses(self) -> list[NodeAddress]:
        names = [CLIENT_LISTENER, CONTROLLER_LISTENER, *self._listeners]
        ports = iter(free_ports(len(names) * self._broker_count))
        addresses = [
            NodeAddress(node_id, {name: next(ports) for name in names})
            for node_id in range(1, self._broker_count + 1)
        ]
        if self._port is not None:
            if not is_free(self._port):
                raise DevBrokerError(
                    f"Port {self._port} is taken by another process. Choose another one, or none.",
                    port=self._port,
                )
            first = addresses[0]
            addresses[0] = NodeAddress(first.node_id, {**first.ports, CLIENT_LISTENER: self._port})
        return addresses

    def _wait_until_ready(self, nodes: list[BrokerNode], expected: set[int]) -> None:
        """Wait until each of `nodes` answers, belongs to this cluster and knows all `expected` ones."""
        deadline_s = time.monotonic() + self._start_timeout_s
        waiting = list(nodes)
        while waiting:
            for node in nodes:
                if not node.is_alive:
                    excerpt = node.log_excerpt()
                    raise DevBrokerError(
                        f"Broker {node.node_id} ended while it was starting. From its log:\n{excerpt}",
                        node_id=node.node_id,
                    )
            if time.monotonic() > deadline_s:
                node = waiting[0]
                raise DevBrokerError(
                    f"Broker {node.node_id} did not answer within {self._start_timeout_s:.0f} s. "
                    f"From its log:\n{node.log_excerpt()}",
                    node_id=node.node_id,
                )
            waiting = [node for node in waiting if not self._is_ready(node, expected)]
            if waiting:
                waiting[0].wait_until_ended(_POLL_INTERVAL_S)

    def _is_ready(self, node: BrokerNode, expected: set[int]) -> bool:
        address = next(address for address in self._addresses if address.node_id == node.node_id)
        answer = ask_cluster(HOST, address.ports[CLIENT_LISTENER], timeout_s=_PROBE_TIMEOUT_S)
        return (
            answer is not None
            and answer.cluster_id == self._cluster_id
            and answer.controller_id >= 0
            and expected <= answer.node_ids
        )


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now. If another process takes one, `start` picks others."""
    chosen: list[int] = []
    source = random.SystemRandom()  # never a seeded sequence: parallel test runs would collide
    for _ in range(_TRIES):
        port = source.randrange(_FIRST, _LAST)
        if port not in chosen and is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise DevBrokerError(f"No {count} free ports between {_FIRST} and {_LAST} were found in {_TRIES} tries.")


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as Kafka does: old connections do not count
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True
