"""The cached picture of a cluster: one for all threads, and none that a fork could lock up."""

from __future__ import annotations

import threading

from penstock.client.cluster.metadata import ClusterView, cluster_view
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from tests.waiting import PATIENCE_S


def test_all_threads_share_one_view() -> None:
    connections = KafkaConnections(ConnectionSettings(("127.0.0.1:1",), "shared-view"))
    found: list[ClusterView] = []
    together = threading.Barrier(8)

    def look() -> None:
        together.wait(PATIENCE_S)
        found.append(cluster_view(connections))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    connections.close()
    assert len(found) == 8
    assert all(view is found[0] for view in found)
