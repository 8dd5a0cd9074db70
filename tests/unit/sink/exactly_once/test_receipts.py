"""Each decided batch leaves a receipt, over the fake Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.produce.spans import NOTHING_WRITTEN, WrittenSpan
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.errors import DecisionLogError, TransactionsLostError
from penstock.sink.exactly_once._log_contents import LogContents
from penstock.sink.exactly_once._log_records import LogLocation, LogRecord
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.by_hand import Resolution, TransactionTools
from penstock.sink.exactly_once.committable import Committable, TargetTopic, TaskReport, TaskSpan
from penstock.sink.exactly_once.decision import DecidedTransaction, Decision, DecisionStatus, Outcome
from penstock.sink.exactly_once.digest import RecordDigest, form_of
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.log import _RECORD_OVERHEAD_BYTES, DecisionLog
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.receipt import (
    OFFSETS_OF_BATCH,
    RANGES_MAX,
    SLOTS,
    SPANS_MAX,
    Facts,
    Receipt,
    decode_receipt,
    encode_receipt,
    is_receipt_key,
    key_of_receipt,
    key_of_taken,
    receipt_of_taken,
)
from penstock.types import OffsetRange, TopicPartition
from tests.unit.fake_driver import BOTH, PREFIX, QUERY, driver, expected, run_task, run_tasks, with_spans
from tests.unit.sink_cluster import LOG, TARGET, SinkCluster

READ = (OffsetRange(TopicPartition("orders", 0), 5, 10),)
FACTS = Facts("0.1.0", "4.2.1", READ, {"orders": "00000000-0000-0000-0000-00000000000a"})


def receipts(cluster: SinkCluster) -> list[Receipt]:
    """Return the receipts as another process reads them."""
    log = DecisionLog(cluster.log_store, PREFIX)
    assert log.open(create=False)
    return log.receipts()


def commit_and_lose(cluster: SinkCluster, side: DriverSide, reports: list[TaskReport]) -> Committable:
    """Commit a batch whose second part times out when the batch is decided. Return that part."""
    lost = reports[1].committable
    assert lost is not None

    def time_out(step: Step) -> None:
        if step is Step.DECIDED:
            cluster.time_out(lost.identity.transactional_id)

    observe(time_out)
    try:
        with pytest.raises(TransactionsLostError):
            side.commit(reports, facts=FACTS)
    finally:
        observe(None)
    return lost


@BOTH
def test_each_batch_leaves_a_receipt_of_what_it_read_and_wrote(protocol: TransactionProtocol) -> None:
    cluster = SinkCluster(protocol)
    for batch_id in range(3):
        side = driver(cluster)
        side.commit(with_spans(run_tasks(cluster, side.recover(), batch_id)), facts=FACTS)
    found = receipts(cluster)
    assert [(each.query_id, each.batch_id) for each in found] == [(QUERY, 0), (QUERY, 1), (QUERY, 2)]
    assert all((each.penstock, each.spark, each.read) == FACTS[:3] for each in found)
    ids = {**FACTS.topic_ids, TARGET.topic: cluster.target().topic_id}
    assert all(each.topic_ids == ids for each in found)
    assert all(each.written() == {TARGET: 6} for each in found)
    assert all(each.content.record_count == 6 for each in found)
    assert len({str(each.content) for each in found}) == 3


def test_a_source_of_another_cluster_lends_a_target_of_that_name_no_id() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    facts = FACTS._replace(topic_ids={TARGET.topic: "00000000-0000-0000-0000-00000000000a"})
    reports = with_spans(run_tasks(cluster, side.recover(), 0))
    without_id = TargetTopic(TARGET.topic, None)
    side.commit([replace(each, topics=(without_id,)) for each in reports], facts=facts)
    assert [each.topic_ids for each in receipts(cluster)] == [{}]


def test_a_receipt_names_the_batch_before_and_what_those_between_read() -> None:
    """Batches 1 and 2 write nothing, so they are not decided, and have no receipt."""
    cluster = SinkCluster()
    asked = list[int]()

    def read_since(after: int) -> tuple[OffsetRange, ...]:
        asked.append(after)
        return READ

    facts = FACTS._replace(read_since=read_since)
    for batch_id in (0, 3, 4):
        side = driver(cluster)
        side.commit(with_spans(run_tasks(cluster, side.recover(), batch_id)), facts=facts)
    found = receipts(cluster)
    assert [(each.batch_id, each.previous, each.idle) for each in found] == [
        (0, None, None),
        (3, 0, READ),
        (4, 3, None),
    ]
    assert asked == [0], "only if batches have written nothing"
    assert [decode_receipt(encode_receipt(each)) for each in found] == found


def test_the_first_receipt_says_what_the_batches_before_read() -> None:
    cluster = SinkCluster()
    asked = list[int]()

    def read_since(after: int) -> tuple[OffsetRange, ...]:
        asked.append(after)
        return READ

    side = driver(cluster)
    facts = FACTS._replace(read_since=read_since)
    side.commit(with_spans(run_tasks(cluster, side.recover(), 2)), facts=facts)
    (found,) = receipts(cluster)
    assert (found.previous, found.idle, asked) == (None, READ, [-1])
    assert decode_receipt(encode_receipt(found)) == found


def test_a_transaction_of_unknown_outcome_is_not_called_lost() -> None:
    parts = [
        Committable(TransactionIdentity(f"t{at}", 7 + at, 0), at, at + 1, str(RecordDigest(at + 1)))
        for at in range(3)
    ]
    decided = [DecidedTransaction(each, outcome) for each, outcome in zip(parts, Outcome, strict=True)]
    lost = Decision(QUERY, 4, DecisionStatus.LOST, 3, 6, tuple(decided))
    receipt = receipt_of_taken(lost, lost, "0.1.0")
    assert [each.producer_id for each in receipt.unknown] == [7]
    assert [each.producer_id for each in receipt.transactions] == [8]
    assert receipt.taken_lost == 3
    assert decode_receipt(encode_receipt(receipt)) == receipt


def test_a_batch_that_is_taken_as_written_says_how_many_records_it_lacks() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    side.commit(with_spans(run_tasks(cluster, side.recover(), 0)), facts=FACTS)
    reports = with_spans(run_tasks(cluster, side.recover(), 1))
    lost = commit_and_lose(cluster, side, reports)
    tools = TransactionTools(TransactionNames(PREFIX), cluster.transactions, cluster.log_store)
    tools.resolve(QUERY, Resolution.TAKE_AS_WRITTEN)
    following = driver(cluster)
    following.recover()
    for batch_id in (2, 3):
        following = driver(cluster)
        following.commit(with_spans(run_tasks(cluster, following.recover(), batch_id)), facts=FACTS)
    found = receipts(cluster)
    assert [each.batch_id for each in found] == [0, 1, 2, 3]
    taken = found[1]
    assert (taken.taken_lost, taken.content.record_count) == (lost.record_count, 4)
    assert (taken.read, taken.previous, taken.spark) == (READ, 0, FACTS.spark)
    assert [each.producer for each in taken.superseded] == [
        (lost.identity.producer_id, lost.identity.producer_epoch)
    ]
    # Later receipts do not take its place in the log.
    keys = [record.key for record in cluster.log if is_receipt_key(PREFIX, record.key)]
    assert keys.count(key_of_taken(PREFIX, QUERY, 1)) == 1


def test_a_batch_that_is_not_decided_leaves_none() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    side.commit(run_tasks(cluster, side.recover(), 0))
    driver(cluster).abort(run_tasks(cluster, driver(cluster).recover(), 1))
    assert [each.batch_id for each in receipts(cluster)] == [0]


def test_the_receipt_of_a_replay_of_lost_parts_names_the_parts_that_stayed() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    reports = with_spans(run_tasks(cluster, side.recover(), 0))
    lost = commit_and_lose(cluster, side, reports)
    again = driver(cluster)
    mandate = again.recover()
    replay = [run_task(cluster, mandate, 0, at) for at in range(3)]
    written = [each.spark_partition_id for each in replay if each.committable is not None]
    assert written == [1]
    again.commit([with_spans([each])[0] if each.committable else each for each in replay])
    (found,) = receipts(cluster)
    assert found.written() == {TARGET: 6}
    assert found.read == READ
    assert [each.producer for each in found.superseded] == [
        (lost.identity.producer_id, lost.identity.producer_epoch)
    ]
    assert sorted(cluster.committed) == sorted(expected(range(1)).elements())


def test_a_receipt_is_left_out_where_the_topic_would_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    mandate = side.recover()
    monkeypatch.setattr("penstock.sink.exactly_once.log_topic.DecisionTopic.fits", lambda *_: False)
    side.commit(run_tasks(cluster, mandate, 0))
    assert receipts(cluster) == []
    assert sorted(cluster.committed) == sorted(expected(range(1)).elements())


def test_versions_without_receipts_skip_them() -> None:
    # `LogContents.apply` is what such a version does with each record.
    cluster = SinkCluster()
    side = driver(cluster)
    side.commit(run_tasks(cluster, side.recover(), 0), facts=FACTS)
    own = [record for record in cluster.log if is_receipt_key(PREFIX, record.key)]
    assert len(own) == 1
    contents = LogContents(LOG, PREFIX)
    contents.apply(own[0])
    assert contents.decisions() == {}
    assert not is_receipt_key("ap", own[0].key)


def test_the_keys_of_receipts_go_round() -> None:
    keys = {key_of_receipt(PREFIX, OFFSETS_OF_BATCH * number) for number in range(2 * SLOTS)}
    assert len(keys) == SLOTS


def test_a_receipt_of_another_version_is_an_error_that_names_its_offset() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    side.commit(run_tasks(cluster, side.recover(), 0))
    log = DecisionLog(cluster.log_store, PREFIX)
    log.open(create=False)
    stored = {**json.loads(encode_receipt(log.receipts()[0])), "version": 2}
    cluster.log_store.append_plainly(key_of_receipt(PREFIX, 0), json.dumps(stored).encode())
    with pytest.raises(DecisionLogError, match="version 2"):
        log.receipts()


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored.pop("batch_id"),
        lambda stored: stored.update(record_count=99),
        lambda stored: stored["transactions"].pop(),
        lambda stored: stored["transactions"][0].pop(),
    ],
)
def test_a_damaged_receipt_is_not_read(damage: Callable[[dict[str, Any]], object]) -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    side.commit(run_tasks(cluster, side.recover(), 0), facts=FACTS)
    stored = json.loads(encode_receipt(receipts(cluster)[0]))
    damage(stored)
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode_receipt(json.dumps(stored).encode())


def test_a_batch_of_very_many_topic_partitions_has_no_ranges() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    many = tuple(OffsetRange(TopicPartition("orders", at), 0, 1) for at in range(RANGES_MAX + 1))
    side.commit(run_tasks(cluster, side.recover(), 0), facts=FACTS._replace(read=many))
    assert receipts(cluster)[0].read is None


@pytest.mark.parametrize("excess", [0, 1])
def test_a_batch_whose_tasks_write_very_many_topic_partitions_has_no_spans(excess: int) -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    one, *others = with_spans(run_tasks(cluster, side.recover(), 0))
    count = SPANS_MAX + excess - len(others)
    span = TaskSpan(TARGET, NOTHING_WRITTEN.with_batch(0, 1))
    side.commit([replace(one, spans=(span,) * count), *others], facts=FACTS)
    (found,) = receipts(cluster)
    assert sum(len(each.spans) for each in found.transactions) == (0 if excess else SPANS_MAX)
    assert (len(found.transactions), found.content.record_count, found.read) == (3, 6, READ)
    assert all(each.content.record_count for each in found.transactions)


def test_receipts_are_read_part_by_part_and_no_start_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SinkCluster()
    for batch_id in range(4):
        side = driver(cluster)
        side.commit(with_spans(run_tasks(cluster, side.recover(), batch_id)), facts=FACTS)
    whole = receipts(cluster)
    parts: list[tuple[int, int]] = []
    read = DecisionTopic.read

    def noted(store: DecisionTopic, first_offset: int, end_offset: int) -> list[LogRecord]:
        parts.append((first_offset, end_offset))
        return read(store, first_offset, end_offset)

    monkeypatch.setattr(DecisionTopic, "read", noted)
    monkeypatch.setattr("penstock.sink.exactly_once.log._RECEIPTS_READ_OFFSETS", 3)
    assert receipts(cluster) == whole
    assert len(whole) == 4
    assert [first for first, _ in parts] == list(range(0, parts[-1][1], 3))
    assert all(first < end <= first + 3 for first, end in parts)
    kept: list[LogRecord] = []
    monkeypatch.setattr(LogContents, "apply", lambda _, record: kept.append(record))
    log = DecisionLog(cluster.log_store, PREFIX)
    assert log.open(create=False)
    log.catch_up()
    assert kept == [each for each in cluster.log if not is_receipt_key(PREFIX, each.key)]
    assert len(kept) < len(cluster.log)


@pytest.mark.parametrize("is_moved", [False, True])
def test_the_size_of_a_receipt_counts_all_records_of_its_transaction(
    is_moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    side.commit(run_tasks(cluster, side.recover(), 0))
    log = DecisionLog(cluster.log_store, PREFIX)
    session = driver(cluster).recover().session
    log.open(create=False)
    decision, receipt = log.catch_up()[QUERY], receipts(cluster)[0]
    back = [LogLocation("other" * 30, LOG)] if is_moved else []
    sizes: list[int] = []

    def fits(_: DecisionTopic, key: bytes, value: bytes) -> bool:
        sizes.append(len(key) + len(value))
        return True

    monkeypatch.setattr(DecisionTopic, "fits", fits)
    before = len(cluster.log)
    log.append(session, decision, back, receipt)
    written = cluster.log[before:]
    assert len(written) == 2 + is_moved
    assert sizes == [_bytes_of(written) + _RECORD_OVERHEAD_BYTES * (1 + is_moved)]


def _bytes_of(records: list[LogRecord]) -> int:
    return sum(len(each.key or b"") + len(each.value or b"") for each in records)


def test_an_offset_that_the_broker_did_not_tell_is_not_guessed() -> None:
    span = NOTHING_WRITTEN.with_batch(7, 3).with_batch(-1, 2).with_batch(20, 1)
    assert span == WrittenSpan(6, 7, 20, is_exact=False)


@pytest.mark.parametrize(
    ("timestamps", "partitions", "form"),
    [(None, None, ""), ([None, None], [None, None], ""), ([1, 2], [0, 1], "tp"), ([1, None], [0, 1], None)],
)
def test_the_form_of_a_digest(
    timestamps: list[int | None] | None, partitions: list[int | None] | None, form: str | None
) -> None:
    columns: dict[str, pa.Array] = {"value": pa.array([b"a", b"b"], pa.binary())}
    if timestamps is not None:
        columns["timestamp"] = pa.array(timestamps, pa.timestamp("us", tz="UTC"))
    if partitions is not None:
        columns["partition"] = pa.array(partitions, pa.int32())
    assert form_of(pa.record_batch(columns)) == form
