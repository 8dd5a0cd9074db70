"""`penstock transactions list` and a transaction that is decided and does not end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.client.transactions import hanging
from penstock.testing import FakeKafka

NAME = "billing-0-0"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    monkeypatch.setattr(hanging, "HANGS_AFTER_S", 0.5)
    with FakeKafka(3) as made:
        made.create_topic("orders", 2)
        yield made


def decide(fake: FakeKafka, *, is_commit: bool) -> None:
    """Decide the end of a transaction, without its markers."""
    fake.hold_markers()
    of = fake._state.transactions
    with fake._state.changed:
        taken = of.init(NAME, 60_000, -1, -1)
        assert of.add(NAME, taken.producer_id, taken.producer_epoch, {("orders", 0), ("orders", 1)}) == 0
        producer = (taken.producer_id, taken.producer_epoch)
        assert of.end(NAME, *producer, is_commit=is_commit, is_v2=True).code == 0


def listed(fake: FakeKafka, *more: str) -> str:
    arguments = ["transactions", "list", "-b", fake.bootstrap_servers, *more]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("more", [[], ["--prefix", "billing"]])
def test_a_topic_partition_without_a_leader_is_named(fake: FakeKafka, more: list[str]) -> None:
    decide(fake, is_commit=True)
    fake.move_leader("orders", 1, -1)
    shown = listed(fake, *more)
    assert f"{NAME}  PrepareCommit" in shown
    assert "It hangs: it is decided as a commit" in shown
    assert "No broker leads orders-1. Start the brokers that have it" in shown
    assert "Records that are committed would be lost." in shown
    assert "recover" not in shown
    (found,) = json.loads(listed(fake, "--json", *more))
    assert found["hangs"]["decided"] == "commit"
    assert found["hangs"]["without_leader"] == [["orders", 1]]


def test_otherwise_the_coordinator_is_to_be_restarted(fake: FakeKafka) -> None:
    decide(fake, is_commit=False)
    fake.move_transaction_coordinator(NAME, 2)
    shown = listed(fake)
    assert "It hangs: it is decided as an abort" in shown
    assert "Restart broker 2, which has to write the markers" in shown
    assert "KAFKA-19999" in shown
    assert "would be lost" not in shown


def test_an_end_that_comes_a_moment_later_does_not_hang(
    fake: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging, "HANGS_AFTER_S", 60.0)  # the test ends when the markers are there
    decide(fake, is_commit=True)
    described = threading.Semaphore(0)
    fake.control("DescribeTransactions", lambda _: described.release(), times=None)

    def release() -> None:
        for _ in range(2):  # the second time it is asked whether it hangs
            described.acquire()
        fake.release_markers()

    releasing = threading.Thread(target=release)
    releasing.start()
    shown = listed(fake)
    releasing.join()
    assert "PrepareCommit" in shown  # as it was first described
    assert "hangs" not in shown


def test_an_open_transaction_does_not_hang(fake: FakeKafka) -> None:
    with fake._state.changed:
        of = fake._state.transactions
        taken = of.init(NAME, 60_000, -1, -1)
        assert of.add(NAME, taken.producer_id, taken.producer_epoch, {("orders", 0)}) == 0
    shown = listed(fake)
    assert f"{NAME}  Ongoing" in shown
    assert "hangs" not in shown
    (found,) = json.loads(listed(fake, "--json"))
    assert found["hangs"] is None
