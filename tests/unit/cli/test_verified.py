"""`penstock verify` finds all decision logs of what it is asked for, over the fake Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.cli._verified import Wanted, report_of
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.errors import AuthorizationError, OptionError
from penstock.observe.verify.check import with_checkpoint
from penstock.observe.verify.found import Report, Verdict
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.names import first_continuous_id
from penstock.sink.exactly_once.receipt import Facts
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.types import OffsetRange, TopicPartition
from tests.checkpoint_files import write_checkpoint
from tests.unit.fake_driver import QUERY, driver, run_task, with_spans
from tests.unit.sink_cluster import LOG, TARGET, SinkCluster
from tests.unit.virtual_time import client_waits_in_virtual_time

ALWAYS = range(1 << 62)
SOURCE = TopicPartition("source", 0)


@pytest.fixture(autouse=True)
def _virtual_time() -> Iterator[None]:
    with client_waits_in_virtual_time():
        yield


def _cluster() -> SinkCluster:
    cluster = SinkCluster()
    cluster.kafka.create_topic(SOURCE.topic)
    return cluster


def _write(
    cluster: SinkCluster, prefix: str, batch_id: int, log: str = LOG, siblings: Sequence[str] = ()
) -> None:
    side = driver(cluster, prefix, log)
    mandate = side.recover()
    reports = [run_task(cluster, mandate, batch_id, number) for number in range(2)]
    topic_id = str(cluster.kafka._state.topics[SOURCE.topic].topic_id)
    read = (OffsetRange(SOURCE, batch_id, batch_id + 1),)
    side.commit(with_spans(reports), siblings, Facts("0.1.0", "4.2.1", read, {SOURCE.topic: topic_id}))


def _checkpoint(folder: Path, batches: int) -> str:
    write_checkpoint(folder, *({SOURCE.topic: {"0": batch_id + 1}} for batch_id in range(batches)))
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    return str(folder)


def _report(cluster: SinkCluster, checkpoint: str | None, log_topic: str | None = None) -> Report:
    connections = cluster.client.connections
    prefix = None if checkpoint else "app"
    return report_of(connections, connections, Wanted(prefix, checkpoint, log_topic or LOG, ALWAYS))


def _kinds(report: Report) -> set[str]:
    return {each.kind for each in [*report.findings, *(it for one in report.batches for it in one.findings)]}


def test_each_prefix_of_a_query_is_verified_also_in_a_shared_log(tmp_path: Path) -> None:
    cluster = _cluster()
    for batch_id in range(2):
        _write(cluster, "app", batch_id)
        _write(cluster, "beside", batch_id, siblings=["app"])
    checkpoint = _checkpoint(tmp_path / "one", 2)
    report = _report(cluster, checkpoint)
    assert [each.receipt.batch_id for each in report.batches] == [0, 1, 0, 1]
    assert (report.verdict, _kinds(report), report.other_writers) == (Verdict.PROVEN, set(), 0)
    _write(cluster, "beside", 2, siblings=["app"])
    report = _report(cluster, _checkpoint(tmp_path / "two", 3))
    assert report.verdict is Verdict.NOT_PROVABLE
    assert [[it.kind for it in each.findings] for each in report.batches] == [[], ["no-receipt"], [], [], []]


def test_logs_of_the_default_name_are_found_and_others_are_asked_for(tmp_path: Path) -> None:
    cluster = _cluster()
    _write(cluster, "app", 0, "app-decisions")
    _write(cluster, "beside", 0, "hidden", siblings=["app"])
    checkpoint = _checkpoint(tmp_path / "one", 1)
    connections = cluster.client.connections
    report = report_of(connections, connections, Wanted(None, checkpoint, "hidden", ALWAYS))
    assert (report.verdict, len(report.batches)) == (Verdict.PROVEN, 2)
    _write(cluster, "app", 1, "app-decisions", siblings=["beside"])
    checkpoint = _checkpoint(tmp_path / "two", 2)
    report = report_of(
        connections, connections, Wanted(None, checkpoint, None, ALWAYS, has_other_writers=True)
    )
    assert report.verdict is Verdict.NOT_PROVABLE
    assert _kinds(report) == {"other-prefix"}


def test_a_query_that_has_moved_to_another_prefix_has_the_receipts_of_both(tmp_path: Path) -> None:
    cluster = _cluster()
    for batch_id in range(4):
        _write(cluster, "app" if batch_id < 2 else "new", batch_id)
    report = _report(cluster, _checkpoint(tmp_path / "one", 4))
    assert [each.receipt.batch_id for each in report.batches] == [0, 1, 2, 3]
    assert (report.verdict, _kinds(report)) == (Verdict.PROVEN, set())


def test_a_checkpoint_names_done_batches_without_a_receipt(tmp_path: Path) -> None:
    cluster = _cluster()
    _write(cluster, "app", 0)
    report = _report(cluster, _checkpoint(tmp_path / "one", 3))
    assert (report.verdict, _kinds(report)) == (Verdict.NOT_PROVABLE, {"no-receipt"})
    assert "Batches 1 to 2 have no receipt" in report.batches[-1].findings[0].text


def test_a_decision_without_a_receipt_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster()
    _write(cluster, "app", 0)
    # penstock leaves it out if it is too large.
    monkeypatch.setattr(DecisionLog, "_receipt", lambda *_, **__: ())
    _write(cluster, "app", 1)
    report = _report(cluster, None)
    assert (report.verdict, _kinds(report)) == (Verdict.NOT_PROVABLE, {"no-receipt"})


def test_an_open_transaction_of_the_log_is_named() -> None:
    cluster = _cluster()
    _write(cluster, "app", 0)
    assert _report(cluster, None).verdict is Verdict.PROVEN
    _write(cluster, "app", 1)
    with cluster.kafka.log(LOG) as log:
        start = next(each.base_offset for each in reversed(log.batches) if not each.is_control)
        next(iter(log.producers.values())).transaction_start = start
    report = _report(cluster, None)
    assert report.verdict is Verdict.NOT_PROVABLE
    assert ("open", TopicPartition(LOG, 0), start) in {
        (each.kind, each.topic_partition, each.first) for each in report.findings
    }


def test_ids_of_a_checkpoint_are_not_those_of_a_target_with_the_same_name(tmp_path: Path) -> None:
    cluster = _cluster()
    _write(cluster, "app", 0)
    log = DecisionLog(cluster.log_store, "app")
    assert log.open(create=False)
    (receipt,) = (replace(each, read=None, topic_ids={}) for each in log.receipts())
    own = "00000000-0000-0000-0000-00000000000a"
    markers = Markers(whole_start={TARGET: 0}, topic_ids={TARGET.topic: own})
    source = SourceOffset({TARGET: 5}, markers).to_json()
    folder = write_checkpoint(tmp_path / "one", source)
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    (found,) = with_checkpoint([receipt], str(folder))
    assert found.read == (OffsetRange(TARGET, 0, 5),)
    assert TARGET.topic not in found.topic_ids


def test_a_prefix_of_a_continuous_query_is_refused_by_name() -> None:
    cluster = _cluster()
    name, protocol = first_continuous_id("app"), TransactionProtocol.V2
    Transactions(cluster.client.connections).init_producer(
        name, transaction_timeout_ms=10_000, protocol=protocol
    )
    with pytest.raises(OptionError, match=r"app is the prefix of a continuous query .*no receipts"):
        _report(cluster, None)
    _write(cluster, "app", 0)  # a stream with the same prefix does have receipts
    assert len(_report(cluster, None).batches) == 1


def test_a_continuous_query_that_may_not_be_described_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise AuthorizationError("no right to describe it")

    monkeypatch.setattr(Transactions, "describe", denied)
    assert _report(_cluster(), None).batches == []
