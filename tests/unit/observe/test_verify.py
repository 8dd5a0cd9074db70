"""`penstock verify` on the fake Kafka: it finds what is planted, and invents nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from penstock.cli import verify as command
from penstock.cli.app import app
from penstock.observe.verify._read import Hole, Part, Why, read_pieces
from penstock.observe.verify.check import verify
from penstock.observe.verify.found import BatchResult, Finding, Inputs, Report, Verdict
from penstock.testing.fake._batches import Batch
from penstock.types import OffsetRange
from tests import corruptions
from tests.scenarios.cluster import batch
from tests.unit.sink_cluster import TARGET
from tests.unit.virtual_time import client_waits_in_virtual_time

SEEDS = range(6)


@pytest.fixture(autouse=True)
def _virtual_time() -> Iterator[None]:
    with client_waits_in_virtual_time():
        yield


@pytest.mark.parametrize("name", corruptions.CORRUPTIONS)
def test_a_corruption_is_found_where_it_is(name: str) -> None:
    failures = [corruptions.corruption_failure(seed, name) for seed in SEEDS]
    assert [each for each in failures if each] == []


@pytest.mark.parametrize("name", corruptions.HONEST)
def test_nothing_is_invented(name: str) -> None:
    failures = [corruptions.honest_failure(seed, name) for seed in SEEDS]
    assert [each for each in failures if each] == []


def _history(seed: int = 1) -> corruptions.History:
    history = corruptions.write_history(seed)
    history.is_copy, history.is_only_writer = True, False
    return history


def _kinds(report: Report) -> set[str]:
    return {each.kind for one in report.batches for each in one.findings}


def test_a_batch_without_its_receipt_is_not_proven() -> None:
    history = next(each for each in map(_history, range(9)) if len(each.receipts) > 2)
    del history.receipts[1]
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert _kinds(report) == {"no-receipt"}


def test_what_is_not_a_copy_says_so_only_if_it_should_be_one() -> None:
    history = _history()
    with history.cluster.kafka.log(corruptions.SOURCE.topic) as log:
        first = log.batches[0]
        log.batches[0] = Batch.of(batch(*[b"x"] * first.record_count)).at(0, 0)
    report = history.report()
    assert report.batches[0].inputs is Inputs.DIFFER
    assert {"not-a-copy", "lost-row", "extra-row"} <= {each.kind for each in report.batches[0].findings}
    assert [each.verdict for each in report.batches[1:]] == [Verdict.PROVEN] * (len(report.batches) - 1)
    history.is_copy = False
    report = history.report()
    assert report.verdict is Verdict.PROVEN
    assert report.batches[0].inputs is Inputs.NOT_COMPARED


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("retention of the target", "deleted"),
        ("a target that was created again", "recreated"),
        ("an open transaction", "open"),
        ("compaction of the target", "compacted"),
        ("retention of the source", "input-gone"),
    ],
)
def test_what_cannot_be_proven_has_its_reason(event: str, kind: str) -> None:
    history = _history()
    if event.startswith("retention"):
        topic = TARGET.topic if kind == "deleted" else corruptions.SOURCE.topic
        with history.cluster.kafka.log(topic) as log:
            log.delete_before(1)
    else:
        for seed in range(9):  # compaction may take a record of another program
            history = _history(seed)
            corruptions.HONEST[event](history)
            if history.report().verdict is not Verdict.PROVEN:
                break
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert kind in _kinds(report)


def test_a_receipt_of_an_older_version_has_no_ids_and_is_not_cut_back() -> None:
    history = _history()
    history.receipts = [replace(each, topic_ids={}) for each in history.receipts]
    assert history.report().verdict is Verdict.PROVEN
    history.cluster.recreate_target()
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert "cut-or-recreated" in _kinds(report)


def test_a_withdrawn_batch_is_not_lost_unless_its_records_are_visible() -> None:
    history = _history()
    connections = history.cluster.client.connections
    batch_id, query_id = history.receipts[0].batch_id, history.receipts[0].query_id
    found = verify(
        connections, connections, history.receipts, history.receipts, {(query_id, batch_id): "withdrawn"}
    )
    assert {each.kind for each in found.batches[0].findings} == {"doubled"}
    corruptions.HONEST["a target that was created again"](history)
    found = verify(
        connections, connections, history.receipts, history.receipts, {(query_id, batch_id): "withdrawn"}
    )
    assert {each.kind for each in found.batches[0].findings} == {"withdrawn"}


def test_a_damaged_record_batch_hides_only_itself() -> None:
    history = _history()
    with history.cluster.kafka.log(corruptions.SOURCE.topic) as log:
        damaged, end = log.batches[0], log.end_offset
        data = bytearray(damaged.data)
        data[-1] ^= 1
        log.batches[0] = damaged._replace(data=bytes(data))
    connections = history.cluster.client.connections
    pieces = list(read_pieces(connections, [OffsetRange(corruptions.SOURCE, 0, end)], {}))
    holes = [each for each in pieces if isinstance(each, Hole)]
    assert [(each.first, each.end, each.why) for each in holes] == [(0, damaged.last_offset + 1, Why.DAMAGED)]
    count = sum(each.rows.num_rows for each in pieces if isinstance(each, Part))
    assert count == end - damaged.last_offset - 1


# ----- the command

_REPORTS = {
    command.PROVEN: [],
    command.DIFFERS: [Finding(Verdict.DIFFERS, "lost", "1 of 2 records are missing.", TARGET, 5, 7)],
    command.NOT_ALL_PROVABLE: [Finding(Verdict.NOT_PROVABLE, "deleted", "They are gone.", TARGET, 5, 7)],
}


def _run(monkeypatch: pytest.MonkeyPatch, code: int, *arguments: str) -> str:
    receipt = corruptions.write_history(1).receipts[0]
    report = Report([BatchResult(receipt, list(_REPORTS[code]))])
    monkeypatch.setattr(command, "_report", lambda *_, **__: report)
    result = CliRunner().invoke(app, ["verify", "--prefix", "p", "-b", "localhost:1", *arguments])
    assert result.exit_code == code, result.exception
    return result.stdout


@pytest.mark.parametrize("code", _REPORTS)
def test_the_exit_code_says_what_was_found(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    shown = _run(monkeypatch, code)
    assert "batch 0 of query query-1" in shown
    assert ("lost at target-0[5, 7): 1 of 2 records are missing." in shown) is (code == command.DIFFERS)
    told = json.loads(_run(monkeypatch, code, "--json"))
    assert [each["kind"] for each in told["batches"][0]["findings"]] == [each.kind for each in _REPORTS[code]]
    assert told["verdict"] in {each.value for each in Verdict}


def test_no_receipt_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_report", lambda *_, **__: Report([]))
    result = CliRunner().invoke(app, ["verify", "--prefix", "p", "-b", "localhost:1"])
    assert result.exit_code == command.NOT_ALL_PROVABLE
    assert "Nothing is proven" in result.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--prefix", "p", "--copy", "offset"], ["--prefix", "p", "--from", "noon"]]
)
def test_wrong_options_have_their_own_code(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["verify", "-b", "localhost:1", *arguments])
    assert result.exit_code == command.USAGE


def test_a_command_that_fails_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.errors import BrokerUnavailableError  # noqa: PLC0415 - one test

    def fail(*_: object, **__: object) -> Report:
        raise BrokerUnavailableError("No broker answered.")

    monkeypatch.setattr(command, "_report", fail)
    result = CliRunner().invoke(app, ["verify", "--prefix", "p", "-b", "localhost:1"])
    assert result.exit_code == command.FAILED
    assert "No broker answered." in result.stderr
