"""A few random SIGKILLs at a query with two states. `python -m tests.chaos.chain_hunt` does more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.devbroker import DevCluster
from tests.chaos.chain_hunt import EXECUTOR, ChainHunt, make_chain
from tests.chaos.random_kills import BROKER, DRIVER, WORKER


@pytest.mark.parametrize("driver_every", [1, 2, 10])
def test_the_driver_dies_once_in_so_many_kills(driver_every: int) -> None:
    brokers: Any = SimpleNamespace(node_ids=[1, 2, 3])
    scene: Any = SimpleNamespace(cluster=object())
    hunt = ChainHunt(brokers, scene, 1, driver_every)
    victims = []
    for _ in range(300):
        victims.append(hunt.next_victim())
        hunt.next_victim()  # one that had ended already does not count
        hunt.kills[victims[-1]] += 1
    for first in range(0, 300, driver_every):
        assert victims[first : first + driver_every].count(DRIVER) == 1
    assert set(victims) == ({DRIVER} if driver_every == 1 else {DRIVER, WORKER, EXECUTOR, BROKER})


@pytest.mark.promise
@pytest.mark.long
def test_each_row_is_that_of_the_reference_whatever_is_killed(
    broker: DevCluster, topic_name: str, tmp_path: Path
) -> None:
    hunt = make_chain(broker, tmp_path, topic_name[-20:], seed=2, driver_every=2)
    hunt.run(2)
    assert hunt.kills.total() == 2
    assert hunt.scene.row_count > 0


@pytest.mark.long
def test_a_server_of_spark_connect_and_its_client_die_in_a_batch(
    broker: DevCluster, topic_name: str, tmp_path: Path
) -> None:
    hunt = make_chain(broker, tmp_path, topic_name[-20:], seed=3, driver_every=1, is_connect=True)
    hunt.run(1)
    assert hunt.kills == {DRIVER: 1}
    assert hunt.scene.row_count > 0
