"""`penstock receipts` without a broker."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from penstock.cli import receipts as command
from penstock.cli.app import app
from penstock.client.produce.spans import WrittenSpan
from penstock.errors import OptionError
from penstock.sink.exactly_once.committable import TaskSpan
from penstock.sink.exactly_once.decision import Decision, DecisionStatus
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.receipt import Receipt, WrittenTransaction
from penstock.types import OffsetRange, TopicPartition

_DAY_MS = round(datetime(2026, 11, 26, tzinfo=UTC).timestamp() * 1000)


def _receipt(batch_id: int, at_ms: int, read: tuple[OffsetRange, ...] | None) -> Receipt:
    spans = tuple(TaskSpan(TopicPartition("copy", at), WrittenSpan(2, 0, 1)) for at in range(2))
    written = WrittenTransaction(7, 3, RecordDigest(4, 1, 2), "", spans)
    return Receipt("q", batch_id, at_ms, (written,), "0.1.0", "4.2.1", read)


RECEIPTS = [
    _receipt(0, _DAY_MS - 1, None),
    _receipt(1, _DAY_MS, (OffsetRange(TopicPartition("orders", 0), 5, 9),)),
    _receipt(2, _DAY_MS + 1, None),
]


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(command, "receipts_of", lambda *_: (RECEIPTS, {("q", 2): "lost"}))
    result = CliRunner().invoke(app, ["receipts", "--prefix", "p", "-b", "localhost:1", *arguments])
    assert result.exit_code == 0, result.exception
    return result.stdout


def test_receipts_are_shown_as_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _run(monkeypatch).splitlines()
    assert len(lines) == 3
    assert "batch 1 of query q: 4 records (copy 4)" in lines[1]
    assert "read orders-0[5, 9)" in lines[1]
    assert "what it read is not in the receipt" in lines[2]
    assert ["lost in part" in each for each in lines] == [False, False, True]


def test_records_whose_topics_are_unknown_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    (written,) = RECEIPTS[0].transactions
    mixed = (written, replace(written, producer_id=8, spans=()))
    cases = (mixed, "8 records (copy 4, other topics 4)"), (mixed[1:], "4 records (topics unknown)")
    for transactions, shown in cases:
        receipt = replace(RECEIPTS[0], transactions=transactions)
        monkeypatch.setitem(globals(), "RECEIPTS", [receipt])
        assert shown in _run(monkeypatch)


def test_a_batch_that_was_taken_as_written_says_what_is_lost_and_what_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receipt = replace(RECEIPTS[0], taken_lost=3, unknown=RECEIPTS[0].transactions)
    monkeypatch.setitem(globals(), "RECEIPTS", [receipt])
    shown = _run(monkeypatch)
    assert "taken as written without 3 records" in shown
    assert "while it was unknown whether 4 records are committed" in shown
    (found,) = json.loads(_run(monkeypatch, "--json"))
    assert (found["taken_as_written_without"], found["taken_as_written_unknown"]) == (3, 4)


@pytest.mark.parametrize("status", list(DecisionStatus))
def test_a_batch_that_is_not_finished_has_its_status(status: DecisionStatus) -> None:
    decision = Decision("q", 2, status, 1, 4)
    is_finished = status is DecisionStatus.FINISHED
    assert command.unfinished_of([decision]) == ({} if is_finished else {("q", 2): status.value})


def test_receipts_of_a_time_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    times = ["--from", "2026-11-26T00:00:00Z", "--to", "2026-11-26T00:00:00.001+00:00"]
    (found,) = json.loads(_run(monkeypatch, "--json", *times))
    assert found["batch_id"] == 1
    assert found["read"] == {"orders": [[0, 5, 9]]}
    assert found["written"] == [{"topic": "copy", "partition": at, "records": 2} for at in range(2)]
    assert found["record_count"] == 4
    assert found["status"] is None
    assert [each["status"] for each in json.loads(_run(monkeypatch, "--json"))] == [None, None, "lost"]


def test_no_receipt_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No receipt of prefix p" in _run(monkeypatch, "--to", "2020-01-01")


def test_a_wrong_time_names_its_option() -> None:
    result = CliRunner().invoke(app, ["receipts", "--prefix", "p", "-b", "localhost:1", "--to", "noon"])
    assert isinstance(result.exception, OptionError)
    assert "--to, got 'noon'" in str(result.exception)
