"""The scrapes of the benchmark of metrics: without a page nothing is measured."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

import pytest
from benchmarks import metrics_cost

from tests.http_server import QuietHandler, serving
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, nullcontext()), (404, pytest.raises(RuntimeError, match="the last time with status 404"))],
)
def test_a_page_that_is_never_given_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, status: int, expected: AbstractContextManager[object]
) -> None:
    was_asked = threading.Event()

    class Page(QuietHandler):
        def do_GET(self) -> None:
            self.send(status, b"")
            was_asked.set()

    monkeypatch.setattr(metrics_cost, "SCRAPE_EVERY_S", 0.01)
    with serving(Page) as url, expected, metrics_cost._scraped(f"{url}/metrics"):
        assert was_asked.wait(PATIENCE_S)
