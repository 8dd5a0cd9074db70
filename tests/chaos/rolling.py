"""Restart all brokers of a cluster in order, as an administrator does for an upgrade, while a query runs.

Each broker gets SIGTERM. It hands its leaders over (Kafka's controlled shutdown) and ends by itself. Then it
starts again. The next one follows when each replica of each topic partition is in sync. Runs in tests only.
Invariant: a restart is counted only if the broker has shut down in this way: the other controllers say so,
and the broker leads no topic partition when it has ended.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence

from kafka import KafkaAdminClient
from kafka.protocol.admin import ElectionType

from penstock.devbroker import DevCluster
from penstock.testing.brokers import lagging_replicas
from tests import judge
from tests.waiting import wait_until

REGISTRATION = "modifying the registration for broker {}:"
IN_ORDER = "inControlledShutdown=1"
"""What a controller writes into its log when a broker asks to shut down in order. Of one that has crashed it
says only that it is fenced. The log of the broker itself may lack its last lines."""
LIMIT_S = 300.0
"""For each step. The machine may be busy."""
ANSWER_S = 30.0


class RollingRestart:
    """One rolling restart, in a thread of its own. Nothing else may stop brokers meanwhile.

    Attributes:
        restarted: the brokers that were stopped in order and are back, in their order.
        moved: how many topic partitions each of them led when it was stopped.
    """

    def __init__(self, cluster: DevCluster, order: Sequence[int]) -> None:
        self.restarted: list[int] = []
        self.moved: list[int] = []
        self._cluster = cluster
        self._order = list(order)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_over(self) -> bool:
        """Return whether it has ended. Raise what went wrong in it."""
        if self._thread.is_alive():
            return False
        self.join()
        return True

    def join(self) -> None:
        """Wait until it has ended. Raise what went wrong in it."""
        self._thread.join(len(self._order) * 4 * LIMIT_S)
        assert not self._thread.is_alive(), "the rolling restart does not end"
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for node_id in self._order:
                self.restart(node_id)
        except BaseException as error:  # noqa: BLE001 - raised by `join`, in the thread of the hunt
            self._error = error

    def restart(self, node_id: int) -> None:
        """Stop one broker in order, and start it again. Return when all replicas are in sync.

        Raises:
            AssertionError: the broker did not shut down in order.
        """
        self._wait_for_replicas()
        elect_preferred(self._cluster)
        others = [each for each in self._cluster.node_ids if each != node_id]
        sizes = {each: self._cluster.log_file(each).stat().st_size for each in others}
        wait_until(lambda: self._led_by(node_id), f"broker {node_id} to lead something", timeout_s=ANSWER_S)
        led = self._led_by(node_id)
        self._stop(node_id)
        what = f"brokers {others} to say that broker {node_id} was stopped in order"
        wait_until(
            lambda: all(is_in_order(self._said(each, sizes[each]), node_id) for each in others),
            what,
            timeout_s=ANSWER_S,
        )
        what = f"the leaders of broker {node_id} to be on other brokers"
        wait_until(lambda: not self._led_by(node_id, others), what, timeout_s=ANSWER_S)
        self._cluster.restart(node_id)
        self._wait_for_replicas()
        self.restarted.append(node_id)
        self.moved.append(led)

    def _stop(self, node_id: int) -> None:
        pid = self._cluster.pid(node_id)
        assert pid is not None, f"broker {node_id} does not run"
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not self._cluster.is_alive(node_id), f"broker {node_id} to end", timeout_s=LIMIT_S)

    def _wait_for_replicas(self) -> None:
        what = "all replicas to be in sync"
        wait_until(lambda: not lagging_replicas(self._cluster, timeout_s=ANSWER_S), what, timeout_s=LIMIT_S)

    def _said(self, node_id: int, size_bytes: int) -> str:
        """Return what the log of a broker has behind its first bytes."""
        return self._cluster.log_file(node_id).read_bytes()[size_bytes:].decode(errors="replace")

    def _led_by(self, node_id: int, asked: Sequence[int] | None = None) -> int:
        """Return how many topic partitions a broker leads, or that have no leader, by each of the brokers."""
        addresses = dict(zip(self._cluster.node_ids, self._cluster.bootstrap_servers.split(","), strict=True))
        return max(
            sum(each.leader in (-1, node_id) for topic in topics for each in topic.partitions.values())
            for number in asked or addresses
            for topics in [judge.admin(addresses[number]).list_topics(timeout=ANSWER_S).topics.values()]
        )


def elect_preferred(cluster: DevCluster) -> None:
    """Let each broker lead its share of the topic partitions, as Kafka does by itself after five minutes."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        admin.elect_leaders(ElectionType.PREFERRED, timeout_ms=round(1000 * ANSWER_S))
    finally:
        admin.close()


def is_in_order(said: str, node_id: int) -> bool:
    """Return whether the log of a controller says that a broker has asked to shut down in order."""
    about = REGISTRATION.format(node_id)
    return any(about in line and IN_ORDER in line for line in said.splitlines())
