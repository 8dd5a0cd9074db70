"""A few random SIGKILLs in each run. `python -m tests.chaos.random_kills` does as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.devbroker import DevCluster
from tests.chaos.random_kills import RandomKills, make_scene


@pytest.mark.parametrize("is_chained", [False, True])
def test_every_record_once_whatever_is_killed(
    broker: DevCluster, topic_name: str, tmp_path: Path, is_chained: bool
) -> None:
    scene = make_scene(broker, tmp_path, topic_name[-20:], is_chained=is_chained)
    chaos = RandomKills(broker, scene, seed=3)
    chaos.run(3)
    assert chaos.kills.total() == 3
