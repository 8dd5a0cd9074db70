"""A report goes through JSON and comes back the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import BrokerUnavailableError
from penstock.observe.health import Health, HealthRules
from penstock.observe.lag import Holder, PartitionLook
from penstock.observe.monitor import Monitor, report_to_json
from penstock.observe.report_reader import report_from_json
from penstock.types import TopicPartition

NOW_MS = 1_700_000_000_000
HELD, FREE, BEHIND = (TopicPartition(f"my-topic-{at}", at) for at in range(3))


def written() -> dict[str, Any]:
    monitor = Monitor(HealthRules())
    holder = Holder(HELD, 7, "billing", 5, NOW_MS - 60_000)
    looks = {
        HELD: PartitionLook(NOW_MS, 5, 0, 5, 9, NOW_MS - 60_000, holder),
        FREE: PartitionLook(NOW_MS, 4, 2, 4, 4),
        BEHIND: PartitionLook(NOW_MS, 1, 3, 8, 8),
    }
    monitor.add({tp: PartitionLook(NOW_MS - 5_000, 1, 0, 4, 4) for tp in looks})
    found: dict[str, Any] = json.loads(
        json.dumps(
            report_to_json(monitor.add(looks, {TopicPartition("away-x", 3): BrokerUnavailableError("no")}))
        )
    )
    return found


def test_a_report_comes_back_the_same() -> None:
    again = report_from_json(written(), NOW_MS + 3_000)
    assert report_to_json(again) == written()
    assert again.reasons == written()["reasons"]
    assert [str(tp) for tp in again.errors] == ["away-x-3"]


def test_a_report_without_any_answer_comes_back_the_same() -> None:
    silent = Monitor(HealthRules()).add({}, {HELD: BrokerUnavailableError("no")})
    again = report_from_json(json.loads(json.dumps(report_to_json(silent))), NOW_MS)
    assert report_to_json(again) == report_to_json(silent)


def test_a_word_of_a_newer_penstock_is_unknown() -> None:
    data = written()
    data["health"] = data["topic_partitions"][1]["health"] = "TOO_HOT"
    again = report_from_json(data, NOW_MS)
    assert [again.health, again.rows[1].verdict.health] == [Health.UNKNOWN] * 2
    assert again.rows[0].verdict.health.value == data["topic_partitions"][0]["health"]


@pytest.mark.parametrize("without", ["health", "topic_partitions", "errors", "rates"])
def test_another_json_is_an_error(without: str) -> None:
    data = written()
    del data[without]
    for other in (data, {**data, without: 7}, [data], None, {}):
        with pytest.raises(ValueError, match="expected a report of penstock"):
            report_from_json(other, NOW_MS)
