"""The option of Spark by which one thread plans all shuffles of a batch."""

from __future__ import annotations

import threading
from unittest.mock import MagicMock

import pytest

from penstock.spark.one_thread import (
    ADAPTIVE,
    left_to_the_start,
    plan_in_one_thread,
    planned_in_one_thread,
)


def session_with(conf: dict[str, str]) -> MagicMock:
    session = MagicMock()
    session.conf.get.side_effect = conf.get
    session.conf.set.side_effect = conf.__setitem__
    session.conf.unset.side_effect = conf.pop
    return session


@pytest.mark.parametrize(
    ("before", "switch", "after"),
    [
        ({ADAPTIVE: "true"}, "", {ADAPTIVE: "false"}),
        ({ADAPTIVE: "false"}, "", {ADAPTIVE: "false"}),
        ({}, "", {ADAPTIVE: "false"}),  # the default of Spark 4.3 is true
        ({ADAPTIVE: "true"}, "off", {ADAPTIVE: "true"}),
    ],
)
def test_adaptive_execution_of_streams_is_turned_off(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str], switch: str, after: dict[str, str]
) -> None:
    monkeypatch.setenv("PENSTOCK_ONE_THREAD", switch)
    conf = dict(before)
    plan_in_one_thread(session_with(conf))
    assert conf == after


@pytest.mark.parametrize("before", [{}, {ADAPTIVE: "true"}, {ADAPTIVE: "false"}])
def test_who_starts_a_query_gives_the_value_of_the_user_back(before: dict[str, str]) -> None:
    conf = dict(before)
    session = session_with(conf)
    for _ in range(2):
        with left_to_the_start():
            plan_in_one_thread(session)
        assert conf == before
        with planned_in_one_thread(session):
            assert conf == {ADAPTIVE: "false"}
        assert conf == before
    plan_in_one_thread(session)
    with planned_in_one_thread(session):
        pass
    assert conf == {ADAPTIVE: "false"}, "the query of that operator may not have started"


def test_the_switch_leaves_the_option_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ONE_THREAD", "off")
    conf = {ADAPTIVE: "true"}
    with planned_in_one_thread(session_with(conf)):
        assert conf == {ADAPTIVE: "true"}


@pytest.mark.parametrize("other", [plan_in_one_thread, planned_in_one_thread])
def test_another_thread_waits_until_a_start_has_ended(other: object) -> None:
    conf = {ADAPTIVE: "true"}
    session = session_with(conf)

    def run() -> None:
        if other is plan_in_one_thread:
            plan_in_one_thread(session)
        else:
            with planned_in_one_thread(session):
                seen.append(conf[ADAPTIVE])

    seen: list[str] = []
    thread = threading.Thread(target=run)
    with planned_in_one_thread(session):
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "it waits for the end of the start"
    thread.join(10)
    assert conf == {ADAPTIVE: "false" if other is plan_in_one_thread else "true"}
    assert seen == ([] if other is plan_in_one_thread else ["false"])
