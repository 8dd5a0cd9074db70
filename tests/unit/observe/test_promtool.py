"""Prometheus's own checker accepts what we ship; its recorded answers stand in where it is not installed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judges.promtool import ANSWERS, ask, digest, find_promtool, questions

RECORDED: dict[str, Any] = json.loads(ANSWERS.read_text())
KINDS = ["rules", "expressions", "config", "config of compose", "metrics", "metrics with aliases"]


def test_every_question_has_an_answer() -> None:
    assert RECORDED.keys() - {"promtool"} == set(KINDS) == questions().keys()


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_about_what_is_shipped(kind: str) -> None:
    assert RECORDED[kind]["sha256"] == digest(kind, questions()[kind]), (
        "it has changed since promtool was asked: run `python -m tests.judges.promtool`"
    )


def test_promtool_has_accepted_everything() -> None:
    for kind in KINDS[:-1]:
        status, *lines = RECORDED[kind]["answer"]
        assert status == "status 0", (kind, lines)
        assert [line for line in lines if "FAILED" in line or "WARNING" in line] == []
    assert "SUCCESS: 12 rules found" in RECORDED["rules"]["answer"]
    assert RECORDED["metrics"]["answer"] == ["status 0"], "it finds nothing to say"
    # Flink's names are not in snake_case. That is all.
    _, *complaints = RECORDED["metrics with aliases"]["answer"]
    assert all(
        line.startswith("flink_") and line.endswith("written in 'snake_case' not 'camelCase'")
        for line in complaints
    )


@pytest.mark.skipif(find_promtool() is None, reason="no promtool here (on Debian: prometheus)")
@pytest.mark.parametrize("kind", KINDS)
def test_promtool_still_accepts_it(kind: str) -> None:
    status, *lines = ask(kind, questions()[kind])
    assert status == RECORDED[kind]["answer"][0], lines
