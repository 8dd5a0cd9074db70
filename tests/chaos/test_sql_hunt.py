"""Two random SIGKILLs at a script of Flink's SQL. `python -m tests.chaos.sql_hunt` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.devbroker import DevCluster
from tests.chaos.sql_hunt import make_sql_hunt


@pytest.mark.long
def test_each_row_of_a_script_is_right_whatever_is_killed(
    broker: DevCluster, topic_name: str, tmp_path: Path
) -> None:
    hunt = make_sql_hunt(broker, tmp_path, topic_name[-20:], seed=2, driver_every=2)
    hunt.run(2)
    assert hunt.kills.total() == 2
    assert hunt.scene.row_count > 0
