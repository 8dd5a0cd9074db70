"""Each notebook of examples/ runs from its first cell to its last, on real parts, and draws."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import notebooks


@pytest.fixture(autouse=True)
def _memory(spark: SparkSession) -> Iterator[None]:
    """A notebook takes the session that there is."""
    with notebooks.without_a_screen():
        yield


def lines(names: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Return what the plot shows: the points of each line, by its name in the legend."""
    [axes] = names["figure"].axes
    return {each.get_label(): list(map(tuple, each.get_xydata())) for each in axes.get_lines()}


def test_latency() -> None:
    names = notebooks.run("latency.ipynb")
    drawn = lines(names)
    assert set(drawn) == {"in-batches", "continuous"}
    for points in drawn.values():
        assert len(points) == names["RECORDS"]
        assert points[-1][1] == 1
        assert all(0 <= here[0] <= there[0] for here, there in pairwise(points)), (
            "no copy came before its record"
        )


def test_table_freshness() -> None:
    names = notebooks.run("table_freshness.ipynb")
    drawn = lines(names)
    last = names["CHANGES"] - 1
    assert [count for _, count in drawn["the database"]] == list(range(1, last + 1))
    seen = [count for _, count in drawn["the table"]]
    assert seen == sorted(seen)
    assert seen[-1] == last
    assert len(names["ages"]) == last
    assert min(names["ages"]) >= 0
