"""The names of a continuous query's transactions, as commands show them."""

from __future__ import annotations

import pytest

from penstock.sink.exactly_once.names import ContinuousName, continuous_name


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("orders-continuous-0-1", ContinuousName("orders", 0, 1)),
        ("a-continuous-3-4-continuous-12-0", ContinuousName("a-continuous-3-4", 12, 0)),
        ("orders-0-1", None),
        ("continuous-0-1", None),
        ("orders-continuous-0", None),
    ],
)
def test_a_name_says_query_task_and_lane(name: str, wanted: ContinuousName | None) -> None:
    assert continuous_name(name) == wanted
