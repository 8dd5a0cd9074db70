"""A few random SIGKILLs at a query with two states. `python -m tests.chaos.chain_hunt` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.devbroker import DevCluster
from tests.chaos.chain_hunt import make_chain


@pytest.mark.long
def test_each_row_is_that_of_the_reference_whatever_is_killed(
    broker: DevCluster, topic_name: str, tmp_path: Path
) -> None:
    hunt = make_chain(broker, tmp_path, topic_name[-20:], seed=2)
    hunt.run(2)
    assert hunt.kills.total() == 2
    assert hunt.scene.row_count > 0
