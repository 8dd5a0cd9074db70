"""A short fight each time; `python -m tests.chaos.prefix_fight` fights as long as one likes."""

from __future__ import annotations

from tests.chaos.prefix_fight import Fight
from tests.fix_broker import MakeTopic

STOP_COUNT = 12


def test_queries_with_one_prefix_stop_one_another_with_errors_that_say_so(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    fight = Fight(bootstrap, make_topic(3))
    fight.run(lambda: len(fight.stops) >= STOP_COUNT)
