"""The names of a continuous query's transactions, as commands show them."""

from __future__ import annotations

import pytest

from penstock.options.by_hand import ByHand
from penstock.sink.exactly_once.names import (
    ContinuousName,
    continuous_name,
    first_continuous_id,
    how_to_end,
)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("orders-continuous-0-1", ContinuousName("orders", 0, 1)),
        ("a-continuous-3-4-continuous-12-0", ContinuousName("a-continuous-3-4", 12, 0)),
        ("orders-0-1", None),
        ("continuous-0-1", None),
        ("orders-continuous-0", None),
        ("orders-continuous-0-01", None),
        ("orders-continuous-0-\u0661", None),
        ("orders-continuous-0-12345678901", None),
    ],
)
def test_a_name_says_query_task_and_lane(name: str, wanted: ContinuousName | None) -> None:
    assert continuous_name(name) == wanted


def test_to_wait_is_advised_only_where_no_other_program_gives_such_names() -> None:
    advice = how_to_end("orders-continuous-0-1", ByHand())
    condition, _, wait = advice.partition("wait for the time-out")
    assert "If no stream and no Flink job has this prefix" in condition
    assert "A stream or a Flink job with the prefix orders-continuous gives such names, too." in condition
    command, _, why = wait.partition("`: ")
    assert command.startswith(", or run `penstock transactions abort --prefix orders-continuous ")
    assert why.startswith("no record is lost")


def test_each_query_has_the_first_id_of_its_prefix() -> None:
    assert continuous_name(first_continuous_id("orders")) == ContinuousName("orders", 0, 0)
