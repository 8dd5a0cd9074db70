"""When `run_until_bounded` sees that a query is at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import OptionError
from penstock.spark.run_until_bounded import run_until_bounded

STOP = '$penstock/1 stop {"t":{"0":9}}'


def report(start: Any, end: Any) -> dict[str, Any]:
    return {"sources": [{"startOffset": start, "endOffset": end}]}


def at(position: int, *markers: str) -> str:
    return json.dumps({**{marker: {} for marker in markers}, "t": {"0": position}})


class Query:
    """A query that makes one report after the other."""

    def __init__(self, *reports: dict[str, Any]) -> None:
        self._left = list(reports)
        self.recentProgress: list[dict[str, Any]] = []
        self.is_stopped = False

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def awaitTermination(self, _: float) -> bool:
        assert self._left, "it waits for a report that does not come"
        self.recentProgress.append(self._left.pop(0))
        return False

    def stop(self) -> None:
        self.is_stopped = True


def as_in_spark_4_1(told: dict[str, Any]) -> dict[str, Any]:
    """PySpark 4.1 makes a text of each offset that it has parsed."""
    source = told["sources"][0]
    return report(*(str(each and json.loads(each)) for each in (source["startOffset"], source["endOffset"])))


IDLE, UNTOLD = report(None, None), report("None", "None")
FIRST, LAST = report(None, at(5, STOP)), report(at(9, STOP), at(9, STOP))


@pytest.mark.parametrize(
    "reports",
    [
        (FIRST, LAST),
        (IDLE, FIRST, IDLE, LAST),
        ({"sources": []}, FIRST, LAST),
        (UNTOLD, FIRST, LAST),
        tuple(map(as_in_spark_4_1, (FIRST, LAST))),
    ],
)
def test_a_report_without_offsets_says_nothing(reports: tuple[dict[str, Any], ...]) -> None:
    query = Query(*reports)
    assert run_until_bounded(query)
    assert query.is_stopped


def test_the_end_is_seen_although_the_query_is_idle_afterwards() -> None:
    query = Query()
    query.recentProgress = [FIRST, LAST, IDLE]
    assert run_until_bounded(query)


def test_a_query_without_an_end_is_an_error() -> None:
    with pytest.raises(OptionError, match="No source of this query has an end"):
        run_until_bounded(Query(IDLE, report(None, at(5))))
