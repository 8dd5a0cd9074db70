"""What is said of a reader on screens with little room."""

from __future__ import annotations

from penstock.errors import BrokerUnavailableError
from penstock.observe.health import Health, Verdict
from penstock.observe.lag import PartitionLook, Totals
from penstock.observe.monitor import Report, Row, sentences
from penstock.types import TopicPartition


def report(slow: int, away: int) -> Report:
    look = PartitionLook(1, 0, 0, 9, 9)
    rows = [
        Row(TopicPartition("slow", at), look, Verdict(Health.STALLED, f"slow-{at} stands"))
        for at in range(slow)
    ]
    errors = {TopicPartition("away", at): BrokerUnavailableError("broker 3 is silent") for at in range(away)}
    return Report(rows, errors, Totals(9, 9, None), Health.STALLED, None)


def test_a_silent_broker_is_named_however_much_else_is_wrong() -> None:
    said = sentences(report(slow=40, away=1), 5)
    assert said[:2] == ["no answer for away-0: broker 3 is silent", "slow-0 stands"]
    assert (len(said), said[-1]) == (6, "... and 36 more")


def test_topic_partitions_with_the_same_error_share_a_sentence() -> None:
    (said,) = sentences(report(slow=0, away=1_000), 5)
    assert said == "no answer for away-0, away-1, away-2 and 997 more: broker 3 is silent"


def test_nothing_is_left_out_if_there_is_room() -> None:
    assert sentences(report(slow=5, away=0), 5) == [f"slow-{at} stands" for at in range(5)]
    assert sentences(report(slow=0, away=0), 5) == []
