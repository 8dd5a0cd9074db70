"""The option of Spark by which two parts of a query read one shuffle."""

from __future__ import annotations

import logging
from unittest.mock import MagicMock

import pytest

from penstock.spark import reused_shuffles
from penstock.spark.one_thread import left_to_the_start
from penstock.spark.reused_shuffles import REUSE, keep_watermarks, without_reused_shuffles
from tests.unit.spark.test_one_thread import session_with


@pytest.mark.parametrize(
    ("count", "before", "after"),
    [(0, "true", "true"), (1, "true", "true"), (2, "true", "false"), (2, "false", "false")],
)
def test_a_stream_with_two_watermarks_turns_it_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, count: int, before: str, after: str
) -> None:
    monkeypatch.setattr(reused_shuffles, "watermark_count", lambda _: count)
    conf = {REUSE: before}
    frame = MagicMock(sparkSession=session_with(conf))
    with left_to_the_start():
        keep_watermarks(frame)
    assert conf == {REUSE: before}, "who starts the query sets it"
    with caplog.at_level(logging.WARNING):
        keep_watermarks(frame)
    assert conf == {REUSE: after}
    assert ("is now false" in caplog.text) is (before != after)


@pytest.mark.parametrize("before", [{}, {REUSE: "true"}, {REUSE: "false"}])
def test_a_start_gives_the_value_of_the_user_back(before: dict[str, str]) -> None:
    conf = dict(before)
    with without_reused_shuffles(session_with(conf)):
        assert conf == {REUSE: "false"}
    assert conf == before
