"""`python -m tests.faults` says what it has done, whatever ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.client.transactions.steps import TransactionProtocol
from tests.chaos.answer_proxy import HELD_REQUEST
from tests.faults import __main__ as command
from tests.faults.run import Tally


class Cluster:
    """Stands in for the brokers."""

    bootstrap_servers = "fake:1"


class Run:
    """A run of two batches, of which the second one ends the process, or fails."""

    last: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, *_: object) -> None:
        self.tally = Tally()
        self.on_batch: Callable[[Tally], None] = lambda tally: None

    def run(self, count: int) -> None:
        self.tally.faults["EndTxn", HELD_REQUEST] += 1
        self.tally.batches += command.PROGRESS_EVERY
        self.on_batch(self.tally)
        type(self).last()


@pytest.fixture(autouse=True)
def _without_brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(command, "DevCluster", lambda *_, **__: nullcontext(Cluster()))
    monkeypatch.setattr(command, "use_protocol", lambda *_: None)
    monkeypatch.setattr(command, "FaultyRun", Run)
    monkeypatch.setattr("sys.argv", ["tests.faults", "--count", "20", "--protocol", "2"])
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _fails() -> None:
    raise AssertionError("a row is lost")


def _is_ended() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("last", "error", "words"),
    [
        (lambda: None, None, "0 lost, 0 doubled, 0 open"),
        (_fails, AssertionError, "FAILED"),
        (_is_ended, SystemExit, "NOT JUDGED"),
    ],
)
def test_the_end_of_a_run_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], last: Any, error: Any, words: str
) -> None:
    monkeypatch.setattr(Run, "last", staticmethod(last))
    with nullcontext() if error is None else pytest.raises(error):
        assert command.main() == 0
    said = capsys.readouterr().out
    assert f"10 of 20 done, 1 faults, {words}." in said
    assert "| EndTxn | 0 | 0 | 0 | 0 | 1 |" in said
    assert "10 done after" in said


def test_only_the_wanted_protocol_runs(capsys: pytest.CaptureFixture[str]) -> None:
    command.main()
    said = capsys.readouterr().out
    assert f"protocol {TransactionProtocol.V2.value}," in said
    assert f"protocol {TransactionProtocol.V1.value}," not in said
