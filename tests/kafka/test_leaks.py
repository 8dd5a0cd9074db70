"""Opening, writing or reading, and closing leave nothing behind; `tests.soak.leaks` does it 1,000 times."""

from __future__ import annotations

import pytest

from tests import judge
from tests.fix_broker import MakeTopic
from tests.leak_task import TASKS, grown


@pytest.mark.parametrize("task", sorted(TASKS))
def test_rounds_of_open_and_close_leave_nothing_behind(
    bootstrap: str, make_topic: MakeTopic, task: str
) -> None:
    topic = make_topic(2)
    judge.produce(bootstrap, topic, *(judge.Record(b"%d" % number) for number in range(100)))
    # A new exactly-once driver in each round would read a decision log that grows with the rounds.
    keeps = task == "write_once"
    found = grown(task, rounds=40, warm_up=20, keeps=keeps, bootstrap_servers=bootstrap, topic=topic)
    assert found.threads <= 0, str(found)
    assert found.files <= 0, str(found)
    assert found.memory_mb < 8, str(found)
    assert found.objects < 40, f"an object or more stays of each round: {found}"
