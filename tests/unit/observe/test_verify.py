"""`penstock verify` on the fake Kafka: it finds what is planted, and invents nothing."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock.cli import verify as command
from penstock.cli.app import app
from penstock.observe.verify._read import Hole, Part, Why, read_pieces
from penstock.observe.verify._rows import differing_rows
from penstock.observe.verify.check import verify
from penstock.observe.verify.found import BatchResult, Finding, Inputs, Report, Verdict
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX
from penstock.sink.exactly_once.receipt import (
    Receipt,
    WrittenTransaction,
    decode_receipt,
    encode_receipt,
    newest,
)
from penstock.testing.fake.batches import Batch
from penstock.types import OffsetRange
from tests.corruptions import beside, planted
from tests.corruptions.checks import corruption_failure, honest_failure, unprovable_failure
from tests.corruptions.histories import SOURCE, History, index_of, write_history
from tests.scenarios.cluster import batch
from tests.unit.sink_cluster import TARGET
from tests.unit.virtual_time import client_waits_in_virtual_time

SEEDS = range(6)
ONE_OR_SEVERAL = pytest.mark.parametrize("partitions", [1, 3])


@pytest.fixture(autouse=True)
def _virtual_time() -> Iterator[None]:
    with client_waits_in_virtual_time():
        yield


@ONE_OR_SEVERAL
@pytest.mark.parametrize("name", planted.CORRUPTIONS)
def test_a_corruption_is_found_where_it_is(name: str, partitions: int) -> None:
    failures = [corruption_failure(seed, name, partitions) for seed in SEEDS]
    assert [each for each in failures if each] == []


@ONE_OR_SEVERAL
@pytest.mark.parametrize("name", beside.HONEST)
def test_nothing_is_invented(name: str, partitions: int) -> None:
    failures = [honest_failure(seed, name, partitions) for seed in SEEDS]
    assert [each for each in failures if each] == []


@ONE_OR_SEVERAL
@pytest.mark.parametrize("name", beside.UNPROVABLE)
def test_what_is_missing_is_not_called_proven(name: str, partitions: int) -> None:
    failures = [unprovable_failure(seed, name, partitions) for seed in SEEDS]
    assert [each for each in failures if each] == []


def _history(seed: int = 1) -> History:
    history = write_history(seed)
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


def _with_idle_batch(history: History) -> int:
    """Let batch 1 have written nothing. Return how many records it read."""
    before, idle, after, *_ = history.receipts
    assert after.previous == idle.batch_id
    history.receipts[1:3] = [replace(after, previous=before.batch_id, idle=idle.read)]
    return sum(map(len, idle.read or ()))


def _long_history() -> History:
    """Return a history of three batches or more, each of which has read two records or more."""
    return next(
        each
        for each in map(_history, range(30))
        if len(each.receipts) > 2 and all(len(one) > 1 for of in each.receipts for one in of.read or ())
    )


def test_batches_that_wrote_nothing_are_proven_if_a_receipt_says_so() -> None:
    history = _long_history()
    count = _with_idle_batch(history)
    history.is_copy, history.has_other_writers = False, True
    assert history.report().verdict is Verdict.PROVEN
    history.is_copy = True
    report = history.report()
    (found,) = (each for one in report.batches for each in one.findings)
    # They may have written without exactly-once.
    assert (report.verdict, found.kind) == (Verdict.NOT_PROVABLE, "nothing-written")
    assert f"read {count:,} records of" in found.text
    history.receipts[1] = replace(history.receipts[1], topic_ids={})
    texts = [each.text for each in history.report().batches[1].findings if each.kind == "nothing-written"]
    assert "no id of it is known" in texts[0]


def test_what_batches_that_wrote_nothing_read_is_not_a_copy_of_what_is_gone() -> None:
    history = _long_history()
    _with_idle_batch(history)
    idle = history.receipts[1].idle or ()
    with history.cluster.kafka.log(SOURCE.topic) as log:
        log.delete_before(idle[0].stopping_offset)
    history.receipts = history.receipts[1:2]
    history.receipts[0] = replace(history.receipts[0], previous=0)
    history.has_other_writers = True
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    (found,) = report.batches[0].findings
    assert (found.kind, found.first, found.end) == (
        "input-gone",
        idle[0].starting_offset,
        idle[0].stopping_offset,
    )
    history.is_copy = False
    assert history.report().verdict is Verdict.PROVEN


def test_batches_before_the_first_receipt_are_not_proven_unless_they_read_nothing() -> None:
    history = _history()
    history.is_copy, history.has_other_writers = False, True
    history.receipts = [replace(history.receipts[1], previous=None)]
    (receipt,) = history.receipts
    (read,) = receipt.read or ()
    start = read.starting_offset
    some, nothing = (OffsetRange(read.topic_partition, first, start) for first in (0, start))
    for idle, is_proven in ((None, False), ((some,), False), ((nothing,), True)):
        history.receipts = [replace(receipt, idle=idle)]
        report = history.report()
        assert (report.verdict is Verdict.PROVEN) is is_proven
        assert _kinds(report) == (set() if is_proven else {"no-receipt"})
    history.receipts = [replace(receipt, previous=0)]  # the receipt before has left the log
    assert history.report().verdict is Verdict.PROVEN


def test_a_receipt_without_ranges_leaves_unknown_who_read_what_follows() -> None:
    history = _long_history()
    history.is_copy = False
    first, idle, last = history.receipts[:3]
    (read,) = idle.read or ()
    unknown = replace(idle, batch_id=2, read=None, previous=0, idle=())
    history.receipts = [first, unknown, replace(last, batch_id=3, previous=2)]
    report = history.report()
    assert (report.verdict, _kinds(report)) == (Verdict.NOT_PROVABLE, {"no-ranges", "no-receipt"})
    # A batch between them has read the first offset, that without ranges may have read the others.
    part = OffsetRange(read.topic_partition, read.starting_offset, read.starting_offset + 1)
    history.receipts[1] = replace(unknown, idle=(part,))
    report = history.report()
    assert (report.verdict, _kinds(report)) == (Verdict.NOT_PROVABLE, {"no-ranges", "no-receipt"})


def test_batches_that_wrote_nothing_have_read_each_offset_once() -> None:
    history = _long_history()
    _with_idle_batch(history)
    history.is_copy, history.has_other_writers = False, True
    receipt = history.receipts[1]
    (read,) = receipt.idle or ()
    later, earlier = (
        OffsetRange(read.topic_partition, read.starting_offset + step, read.stopping_offset)
        for step in (1, -1)
    )
    for wrong, kind in ((later, "not-read"), (earlier, "read-twice")):
        history.receipts[1] = replace(receipt, idle=(wrong,))
        assert _kinds(history.report()) >= {kind}
    for unknown in (
        replace(receipt, idle=None),
        replace(receipt, previous=1),
        replace(receipt, previous=None),
    ):
        history.receipts[1] = unknown
        report = history.report()
        assert (report.verdict, _kinds(report)) == (Verdict.NOT_PROVABLE, {"no-receipt"})


def test_a_batch_that_was_taken_as_written_is_not_called_lost() -> None:
    history = _history()
    receipt = next(each for each in history.receipts if len(each.transactions) > 1)
    at, (kept, lost) = history.receipts.index(receipt), receipt.transactions[:2]
    planted.aborted_at(history, receipt, lost, TARGET)
    assert "lost" in _kinds(history.report())
    transactions = tuple(each for each in receipt.transactions if each is not lost)
    assert kept in transactions
    count = lost.content.record_count
    history.receipts[at] = replace(
        receipt, transactions=transactions, superseded=(*receipt.superseded, lost), taken_lost=count
    )
    report = history.report()
    assert (report.verdict, _kinds(report)) == (Verdict.NOT_PROVABLE, {"taken-as-written"})
    assert f"{count:,} of its records" in report.batches[at].findings[0].text


def test_a_batch_that_was_taken_as_written_stays_in_the_log_and_misses_no_neighbour() -> None:
    history = _long_history()
    history.is_copy, history.has_other_writers = False, True
    first, _, last = history.receipts[:3]
    left = Receipt(first.query_id, first.batch_id, first.at_ms, (), taken_lost=3)
    history.receipts = [left, last]
    report = history.report()
    assert [{each.kind for each in one.findings} for one in report.batches] == [{"taken-as-written"}, set()]
    history.receipts = [replace(left, spark="4.2.1"), last]  # its decision is there: others are missing
    assert "no-receipt" in _kinds(history.report())


def test_a_transaction_of_unknown_outcome_may_be_visible_in_a_batch_that_was_taken_as_written() -> None:
    history = _history()
    receipt = next(each for each in history.receipts if len(each.transactions) > 1)
    at, unknown = history.receipts.index(receipt), receipt.transactions[-1]
    kept = receipt.transactions[:-1]
    taken = Receipt(
        receipt.query_id,
        receipt.batch_id,
        receipt.at_ms,
        tuple(replace(each, spans=()) for each in kept),
        unknown=(replace(unknown, spans=()),),
    )
    history.receipts[at] = newest([receipt, decode_receipt(encode_receipt(taken))])[0]
    history.is_only_writer, history.has_other_writers = False, True
    report = history.report()
    assert (report.verdict, _kinds(report)) == (Verdict.NOT_PROVABLE, {"taken-as-written"})
    text = report.batches[at].findings[0].text
    assert f"unknown whether {unknown.content.record_count:,} of its records are committed" in text
    assert "aborted" not in text


def test_what_is_not_a_copy_says_so_only_if_it_should_be_one() -> None:
    history = _history()
    with history.cluster.kafka.log(SOURCE.topic) as log:
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
        first = history.receipts[0].transactions[0].spans[0].span.first or 0
        at, first = (TARGET, first) if kind == "deleted" else (SOURCE, 0)
        with history.cluster.kafka.log(*at) as log:
            log.delete_before(first + 1)
    else:
        for seed in range(9):  # compaction may take a record of another program
            history = _history(seed)
            beside.HONEST[event](history)
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
    beside.HONEST["a target that was created again"](history)
    found = verify(
        connections, connections, history.receipts, history.receipts, {(query_id, batch_id): "withdrawn"}
    )
    assert {each.kind for each in found.batches[0].findings} == {"withdrawn"}


def test_a_damaged_record_batch_hides_only_itself() -> None:
    history = _history()
    with history.cluster.kafka.log(SOURCE.topic) as log:
        damaged, end = log.batches[0], log.end_offset
        data = bytearray(damaged.data)
        data[-1] ^= 1
        log.batches[0] = damaged._replace(data=bytes(data))
    connections = history.cluster.client.connections
    pieces = list(read_pieces(connections, [OffsetRange(SOURCE, 0, end)], {}))
    holes = [each for each in pieces if isinstance(each, Hole)]
    assert [(each.first, each.end, each.why) for each in holes] == [(0, damaged.last_offset + 1, Why.DAMAGED)]
    count = sum(each.rows.num_rows for each in pieces if isinstance(each, Part))
    assert count == end - damaged.last_offset - 1


def _taken_over() -> tuple[History, Receipt]:
    """Return a history with a batch whose producer id has aborted a transaction in the same log before."""
    for seed in range(99):
        history = _history(seed)
        begin = history.receipts[0].transactions[0].spans[0].span.first or 0
        with history.cluster.kafka.log(TARGET.topic) as log:
            aborted = [each for each in log.aborted if each.first_offset > begin]
        for receipt in history.receipts:
            written = receipt.transactions[0]
            ends = [each.marker_offset for each in aborted if each.producer_id == written.producer_id]
            if len(receipt.transactions) > 1 and ends and ends[0] < (written.spans[0].span.first or 0):
                return history, receipt
    raise AssertionError("no seed has one")


def _first_batch(history: History, written: WrittenTransaction) -> int:
    with history.cluster.kafka.log(TARGET.topic) as log:
        return index_of(log.batches, written)


def test_a_damaged_batch_hides_no_committed_transaction_of_a_producer_that_has_aborted_another() -> None:
    history, receipt = _taken_over()
    damaged = receipt.transactions[1]
    at = _first_batch(history, damaged)
    with history.cluster.kafka.log(TARGET.topic) as log:
        data = bytearray(log.batches[at].data)
        data[-1] ^= 1
        log.batches[at] = log.batches[at]._replace(data=bytes(data))
    report = history.report()
    assert {each.receipt.batch_id for each in report.batches if each.findings} == {receipt.batch_id}
    found = next(each for each in report.batches if each.receipt is receipt)
    assert {each.kind for each in found.findings} == {"torn"}
    assert {(each.first, each.end) for each in found.findings} == {
        (damaged.spans[0].span.first, (damaged.spans[0].span.last or 0) + 1)
    }


def test_a_damaged_marker_leaves_unknown_whether_the_producer_id_still_aborts() -> None:
    history, receipt = _taken_over()
    producer_id = receipt.transactions[0].producer_id
    with history.cluster.kafka.log(TARGET.topic) as log:
        ends = {each.marker_offset for each in log.aborted if each.producer_id == producer_id}
        for at, each in enumerate(log.batches):
            if each.base_offset in ends:
                data = bytearray(each.data)
                data[-1] ^= 1
                log.batches[at] = each._replace(data=bytes(data))
    assert "lost" not in _kinds(history.report())


def test_compaction_that_leaves_the_header_of_a_batch_has_not_aborted_it() -> None:
    history, receipt = _taken_over()
    at = _first_batch(history, receipt.transactions[0])
    with history.cluster.kafka.log(TARGET.topic) as log:
        log.batches[at] = beside.emptied(log.batches[at])
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert "compacted" in _kinds(report)


def test_a_longer_log_of_a_topic_without_a_known_id_has_lost_nothing() -> None:
    history = _history()
    history.receipts = [replace(each, topic_ids={}) for each in history.receipts]
    history.cluster.recreate_target()
    with history.cluster.kafka.log(TARGET.topic) as log:
        for _ in range(99):
            log.append(Batch.of(batch(b"new")), leader_epoch=0)
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert _kinds(report) >= {"lost-or-recreated"}
    assert not _kinds(report) & {"lost", "not-a-copy", "lost-row"}


def test_a_source_without_a_known_id_may_be_another_one() -> None:
    history = _history()
    planted.source_changed(history)
    assert history.report().verdict is Verdict.DIFFERS
    history.receipts = [
        replace(each, topic_ids={TARGET.topic: each.topic_ids[TARGET.topic]}) for each in history.receipts
    ]
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert _kinds(report) == {"input-unknown"}


@pytest.mark.parametrize("status", ["withdrawn", "lost"])
def test_a_batch_that_is_not_finished_is_not_called_a_wrong_copy(status: str) -> None:
    history = _history()
    first = history.receipts[0]
    planted.aborted_at(history, first, first.transactions[0], TARGET)
    if status == "withdrawn":
        for each in first.transactions[1:]:
            planted.aborted_at(history, first, each, TARGET)
    connections = history.cluster.client.connections
    report = verify(
        connections,
        connections,
        history.receipts,
        history.receipts,
        {(first.query_id, first.batch_id): status},
        copied=("value",),
        has_other_writers=True,
    )
    assert report.verdict is Verdict.NOT_PROVABLE


def test_an_older_receipt_does_not_take_the_id_of_a_newer_one_for_its_own() -> None:
    history = _history()
    first, *others = history.receipts
    history.cluster.recreate_target()
    with history.cluster.kafka.log(TARGET.topic) as log:
        for _ in range(99):
            log.append(Batch.of(batch(b"new")), leader_epoch=0)
    ids = {**first.topic_ids, TARGET.topic: history.cluster.target().topic_id or ""}
    history.receipts = [replace(first, topic_ids={}), *(replace(each, topic_ids=ids) for each in others)]
    kinds = {each.kind for each in history.report().batches[0].findings}
    assert "lost-or-recreated" in kinds
    assert "lost" not in kinds


def test_a_source_that_was_created_again_is_named() -> None:
    history = _history()
    last = history.receipts[-1]
    ids = {**last.topic_ids, SOURCE.topic: "00000000-0000-0000-0000-00000000000a"}
    history.receipts[-1] = replace(last, topic_ids=ids)
    history.is_copy = False
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert _kinds(report) == {"recreated"}


def test_ranges_of_a_source_without_a_known_id_may_be_of_another_topic() -> None:
    history = _history()
    history.is_copy = False
    planted.not_read(history)
    assert history.report().verdict is Verdict.DIFFERS
    history.receipts = [
        replace(each, topic_ids={TARGET.topic: each.topic_ids[TARGET.topic]}) for each in history.receipts
    ]
    assert history.report().verdict is Verdict.NOT_PROVABLE


def _verified(history: History, chosen: Sequence[Receipt], **options: Any) -> Report:
    connections = history.cluster.client.connections
    return verify(connections, connections, history.receipts, chosen, {}, has_other_writers=True, **options)


def test_a_done_batch_without_a_receipt_at_the_end_is_not_proven() -> None:
    history = _history()
    last = history.receipts[-1]
    assert (
        _verified(history, history.receipts, newest={last.query_id: last.batch_id}).verdict is Verdict.PROVEN
    )
    report = _verified(history, history.receipts, newest={last.query_id: last.batch_id + 1})
    assert report.verdict is Verdict.NOT_PROVABLE
    assert [each.kind for each in report.batches[-1].findings] == ["no-receipt"]
    report = _verified(history, history.receipts[:-1], newest={last.query_id: last.batch_id + 1})
    assert report.verdict is Verdict.PROVEN  # the time does not reach to the end


def test_a_query_without_any_receipt_is_named() -> None:
    history = _history()
    report = _verified(history, history.receipts, newest={"query-of-0.0.9": 4})
    assert report.verdict is Verdict.NOT_PROVABLE
    assert [each.kind for each in report.findings] == ["no-receipt"]


def test_the_first_chosen_batch_is_compared_with_the_one_before_the_time() -> None:
    history = _history()
    planted.read_twice(history)
    (touched,) = history.touched
    chosen = [each for each in history.receipts if each.batch_id == touched]
    assert [each.kind for each in _verified(history, chosen).batches[0].findings] == ["read-twice"]


def test_a_batch_write_has_no_ranges_and_is_proven() -> None:
    history = _history()
    first = history.receipts[0]
    history.receipts = [replace(first, query_id=f"{BATCH_WRITE_PREFIX}x", read=None)]
    history.is_copy = False
    assert history.report().verdict is Verdict.PROVEN


def test_a_record_of_a_batch_without_a_receipt_is_not_called_another_writer() -> None:
    history = next(each for each in map(_history, range(9)) if len(each.receipts) > 2)
    history.is_only_writer = True
    del history.receipts[1]
    report = history.report()
    assert report.verdict is Verdict.NOT_PROVABLE
    assert [each.verdict for each in report.findings] == [Verdict.NOT_PROVABLE] * len(report.findings)
    assert "other-writer" in {each.kind for each in report.findings}


def test_records_of_batches_that_ran_without_exactly_once_are_no_difference() -> None:
    """They leave no receipt, so the next one says that they wrote nothing."""
    history = next(each for each in map(_history, range(99)) if len(each.receipts) > 3)
    history.is_copy, history.is_only_writer, history.has_other_writers = True, True, False
    _with_idle_batch(history)
    report = history.report()
    kinds = {each.kind for each in report.findings}
    assert (report.verdict, kinds) == (Verdict.NOT_PROVABLE, {"other-writer"})
    assert _kinds(report) == {"nothing-written"}


def test_equal_rows_take_no_memory_each() -> None:
    def side(count: int) -> Iterator[Part]:
        for first in range(0, count, 500):
            rows = min(500, count - first)
            values, offsets = pa.array([b"x"] * rows), pa.array(range(first, first + rows))
            yield Part(TARGET, (1, 0), pa.record_batch({"value": values, "offset": offsets}))

    tracemalloc.start()
    try:
        (found,) = differing_rows(lambda: side(20_000), lambda: side(19_999), ["value"])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.kind, found.first) == ("lost-row", 19_999)
    assert "20000 times in what was read, 19999 times in what was written" in found.text
    assert peak_bytes < 3 << 20


# ----- the command

_REPORTS = {
    command.PROVEN: [],
    command.DIFFERS: [Finding(Verdict.DIFFERS, "lost", "1 of 2 records are missing.", TARGET, 5, 7)],
    command.NOT_ALL_PROVABLE: [Finding(Verdict.NOT_PROVABLE, "deleted", "They are gone.", TARGET, 5, 7)],
}


def _run(monkeypatch: pytest.MonkeyPatch, code: int, *arguments: str) -> str:
    receipt = write_history(1).receipts[0]
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
    "arguments",
    [
        [],
        ["--prefix", "p", "--copy", "offset"],
        ["--prefix", "p", "--from", "noon"],
        ["--prefix", "p", "--only-writer", "--other-writers"],
    ],
)
def test_wrong_options_have_their_own_code(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["verify", "-b", "localhost:1", *arguments])
    assert result.exit_code == command.USAGE


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), KeyboardInterrupt()])
def test_no_error_has_the_code_of_a_difference(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> Report:
        raise error

    monkeypatch.setattr(command, "_report", fail)
    result = CliRunner().invoke(app, ["verify", "--prefix", "p", "-b", "localhost:1"])
    assert result.exit_code == command.FAILED
    assert f"verify failed ({type(error).__name__}). Nothing is proven." in result.stderr


def test_a_command_that_fails_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.errors import BrokerUnavailableError  # noqa: PLC0415 - one test

    def fail(*_: object, **__: object) -> Report:
        raise BrokerUnavailableError("No broker answered.")

    monkeypatch.setattr(command, "_report", fail)
    result = CliRunner().invoke(app, ["verify", "--prefix", "p", "-b", "localhost:1"])
    assert result.exit_code == command.FAILED
    assert "No broker answered." in result.stderr
