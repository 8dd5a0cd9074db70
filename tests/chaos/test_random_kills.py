"""A few random SIGKILLs in each run. `python -m tests.chaos.random_kills` does as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.devbroker import DevCluster
from tests.chaos.random_kills import RandomKills, make_scene


@pytest.mark.long
@pytest.mark.parametrize("kind", ["chained", "older"])
def test_every_record_once_whatever_is_killed(
    broker: DevCluster, topic_name: str, tmp_path: Path, kind: str
) -> None:
    is_chained, is_older = kind == "chained", kind == "older"
    scene = make_scene(broker, tmp_path, topic_name[-20:], is_chained=is_chained, is_older=is_older)
    chaos = RandomKills(broker, scene, seed=3)
    chaos.run(3)
    assert chaos.kills.total() == 3
