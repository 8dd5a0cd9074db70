"""A Kafka cluster in this process: real sockets and Kafka's protocol, but no disk, no JVM and no replication.

Runs in tests only. All replicas of a topic partition share one log, so a broker that is stopped never loses
records. A test that wants a loss truncates the log. Invariant: a call of `FakeKafka` is done when it returns,
and clients that wait in a Fetch see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from penstock.testing.fake._coordinator import Transaction
from penstock.testing.fake._dispatch import Dispatcher
from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake._server import BrokerServer
from penstock.testing.fake._state import Node, Partition, State
from penstock.testing.fake.clock import Clock
from penstock.testing.fake.control import Action, Choose, Control, Controls
from penstock.testing.fake.rights import Rights

_GROUP, _TRANSACTION = 0, 1


class FakeKafka:
    """A cluster for one test. It serves as soon as it is made, until `close`. Usable as a context manager.

    Args:
        brokers: how many. Their ids begin at 1.
        clock: the time; default: that of the machine.
        rights: who may log in, and who may do what. Default: everybody everything.
        properties: settings of the brokers, e.g. `auto.create.topics.enable`.
        transaction_version: 2 for the protocol of Kafka 4, 0 or 1 for the one before.
        max_versions: the highest offered version of some APIs, to play an older broker. -1: not offered.
        racks: of the brokers, by id.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        clock: Clock | None = None,
        rights: Rights | None = None,
        properties: Mapping[str, str] | None = None,
        transaction_version: int = 2,
        max_versions: Mapping[str, int] | None = None,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        self._state = State(clock or Clock(), rights or Rights(), properties or {}, transaction_version)
        self._controls = Controls()
        self._dispatcher = Dispatcher(self._state, self._controls, max_versions or {})
        self._servers: dict[int, BrokerServer] = {}
        for node_id in range(1, brokers + 1):
            server = BrokerServer(node_id, self._dispatcher.serve)
            self._servers[node_id] = server
            self._state.nodes[node_id] = Node(node_id, server.host, server.port, (racks or {}).get(node_id))

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all brokers, as clients want them."""
        return ",".join(f"{node.host}:{node.port}" for _, node in sorted(self._state.nodes.items()))

    @property
    def node_ids(self) -> list[int]:
        """Return the ids of all brokers, also of those that are stopped."""
        return sorted(self._state.nodes)

    def close(self) -> None:
        """Stop all brokers. Calling it again does nothing.

        Raises:
            RuntimeError: the fake, or a function of the test, failed on a request.
        """
        with self._state.changed:
            self._state.is_closed = True
            self._state.changed.notify_all()
        self._controls.end()
        for server in self._servers.values():
            server.stop()
        self._servers.clear()
        if self._dispatcher.failures:
            error = self._dispatcher.failures.pop()
            raise RuntimeError(
                f"The fake Kafka failed on a request: {error!r}. Either a function that the test gave to "
                "`control` failed, or this is a bug of the fake."
            ) from error

    def __enter__(self) -> FakeKafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ----- topics and logs

    def create_topic(
        self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. All brokers are replicas of its partitions, which they lead in turn."""
        with self._changing():
            if name in self._state.topics:
                raise ValueError(f"topic {name!r} exists already")
            self._state.create_topic(name, partitions, config or {})

    def delete_topic(self, name: str) -> None:
        """Delete a topic. If it is created again, it has another id."""
        with self._changing():
            self._state.delete_topic(self._state.topics[name])

    @contextmanager
    def log(self, topic: str, partition: int = 0) -> Iterator[PartitionLog]:
        """Give the log of a topic partition to look at or to change. No request is handled meanwhile."""
        with self._changing():
            yield self._partition(topic, partition).log

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the id of the leader; -1: there is none."""
        with self._state.changed:
            return self._partition(topic, partition).leader_id

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Let another broker lead a topic partition, in the next leader epoch. -1: no one leads it."""
        with self._changing():
            found = self._partition(topic, partition)
            found.leader_id = node_id
            found.leader_epoch += 1

    # ----- brokers

    def stop_broker(self, node_id: int) -> None:
        """Stop a broker. Other replicas take over what it leads, if they run."""
        with self._changing():
            self._state.stopped.add(node_id)
            for partition in self._partitions():
                if partition.leader_id == node_id:
                    alive = (each for each in partition.replicas if each not in self._state.stopped)
                    partition.leader_id = next(alive, -1)
                    partition.leader_epoch += 1
        self._servers.pop(node_id).stop()

    def start_broker(self, node_id: int) -> None:
        """Start a stopped broker again, on its port. It leads only topic partitions that have no leader.

        In these it knows only the last batch of each producer, as a restarted broker of Kafka does.
        """
        node = self._state.nodes[node_id]
        with self._changing():
            self._state.stopped.discard(node_id)
            for partition in self._partitions():
                if partition.leader_id == -1 and node_id in partition.replicas:
                    partition.leader_id = node_id
                    partition.leader_epoch += 1
                    partition.log.restart(self._state.forgotten_before_ms)
        self._servers[node_id] = BrokerServer(node_id, self._dispatcher.serve, node.port)

    # ----- transactions and groups

    def transaction(self, transactional_id: str) -> Transaction | None:
        """Return what the coordinator knows of a transactional id; None: nothing."""
        with self._changing():
            self._state.expire()
            return self._state.transactions.ids.get(transactional_id)

    def expire_transactional_id(self, transactional_id: str) -> None:
        """Let the coordinator forget an id, as `transactional.id.expiration.ms` does."""
        with self._changing():
            del self._state.transactions.ids[transactional_id]

    def hold_markers(self) -> None:
        """Let the coordinator decide transactions, but write no markers until `release_markers`."""
        with self._changing():
            self._state.transactions.holds_markers = True

    def release_markers(self) -> None:
        """Write the markers of all decided transactions."""
        with self._changing():
            self._state.transactions.release_markers()

    def move_transaction_coordinator(self, transactional_id: str, node_id: int) -> None:
        """Let another broker coordinate a transactional id."""
        with self._changing():
            self._state.moved_coordinators[f"{_TRANSACTION}:{transactional_id}"] = node_id

    def move_group_coordinator(self, group_id: str, node_id: int) -> None:
        """Let another broker coordinate a consumer group."""
        with self._changing():
            self._state.moved_coordinators[f"{_GROUP}:{group_id}"] = node_id

    # ----- faults

    def control(self, api: str, action: Action | Choose, *, times: int | None = 1) -> Control:
        """Decide what happens to the next requests of an API.

        Args:
            api: Kafka's name of it, e.g. "Produce" or "EndTxn".
            action: one such as `Refuse(7)`; or a function that looks at a request and returns an action, or
                None for a request that is handled as usual.
            times: to how many requests an action is applied; None: to all until the control is ended.

        Returns:
            The control, which also has the requests.
        """
        return self._controls.add(api, action, times)

    # ----- helpers

    def _partition(self, topic: str, index: int) -> Partition:
        found = self._state.partition(topic, index)
        if found is None:
            raise KeyError(f"no topic partition {topic}-{index}")
        return found

    def _partitions(self) -> Iterator[Partition]:
        return (partition for topic in self._state.topics.values() for partition in topic.partitions)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._state.changed:
            yield
            self._state.changed.notify_all()
