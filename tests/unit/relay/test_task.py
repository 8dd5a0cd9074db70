"""A task on the fake Kafka: copies, faults of the network and of the cluster, functions, stops."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets
from penstock.client.cluster.membership import Membership, OnlyMember
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings, FetchSettings, ProduceSettings
from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import (
    OffsetOutOfRangeError,
    PenstockError,
    ProducerFencedError,
    RowError,
    TopicPartitionsRemovedError,
    TransactionError,
)
from penstock.options.config import DeliveryGuarantee
from penstock.relay import _connections
from penstock.relay import task as task_module
from penstock.relay.messages import EndTransaction, Fetch
from penstock.relay.records import EachBatch
from penstock.relay.task import ContinuousPlan, ContinuousTask
from penstock.testing import FakeKafka
from penstock.testing.fake.control import Action, Close, LoseAnswer, Refuse
from penstock.testing.judge import committed_records
from penstock.types import TopicPartition
from tests import judge
from tests.divided_records import Divided, is_bad
from tests.waiting import wait_until

SOURCE, TARGET, DEAD, GROUP = "source", "target", "dead-letters", "group"
V1, V2 = TransactionProtocol.V1, TransactionProtocol.V2
TOPIC_PARTITIONS = {TopicPartition(SOURCE, index): 0 for index in range(2)}


class Copy:
    """A plan on a fake cluster, and the topics that it copies."""

    def __init__(self, fake: FakeKafka) -> None:
        self.fake = fake
        self.settings = ConnectionSettings(
            tuple(fake.bootstrap_servers.split(",")), "copy", reconnect_backoff_ms=5, request_timeout_ms=2_000
        )
        self.connections = KafkaConnections(self.settings)
        self.written: list[bytes] = []
        self.plan = ContinuousPlan(
            self.settings,
            TOPIC_PARTITIONS,
            TARGET,
            ("copy-0-0",),
            Membership(GROUP),
            V2,
            fetch=FetchSettings(fetch_max_wait_ms=50),
            commit_interval_ms=5,
        )

    def write(self, count: int = 50) -> None:
        """Write so many records to each partition of the source."""
        before = len(self.written) // len(TOPIC_PARTITIONS)
        for partition in range(len(TOPIC_PARTITIONS)):
            values = [b"%d-%06d" % (partition, before + number) for number in range(count)]
            records = [judge.Record(value, partition=partition) for value in values]
            judge.produce(self.fake.bootstrap_servers, SOURCE, *records)
            self.written += values

    @property
    def is_done(self) -> bool:
        """Return whether the group is at the end of the source."""
        ends = {
            topic_partition: len(self.written) // len(TOPIC_PARTITIONS)
            for topic_partition in TOPIC_PARTITIONS
        }
        return committed_offsets(self.connections, GROUP, TOPIC_PARTITIONS) == ends

    @contextmanager
    def running(self, **changes: Any) -> Iterator[Running]:
        """Run a task, and stop it at the end."""
        running = Running(replace(self.plan, **changes))
        try:
            yield running
        finally:
            running.stop()

    def check(self) -> None:
        """Fail unless each record is there once, in order, and nothing is open."""
        found = [each.value or b"" for each in committed_records(self.fake, TARGET)]
        for partition in range(len(TOPIC_PARTITIONS)):
            prefix = b"%d-" % partition
            of_partition = [each for each in self.written if each.startswith(prefix)]
            assert [each for each in found if each.startswith(prefix)] == of_partition


class Running:
    """A task on a thread of its own."""

    def __init__(self, plan: ContinuousPlan) -> None:
        self.task = ContinuousTask(plan)
        self.error: BaseException | None = None
        self._should_stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.task.run(self._should_stop.is_set)
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._should_stop.set()
        self._thread.join(60)
        assert self.has_ended

    def fails_with(self, kind: type[PenstockError]) -> PenstockError:
        wait_until(lambda: self.has_ended, "the task ends")
        assert isinstance(self.error, kind), self.error
        return self.error


@contextmanager
def copy_on(brokers: int) -> Iterator[Copy]:
    with FakeKafka(brokers) as fake:
        fake.create_topic(SOURCE, len(TOPIC_PARTITIONS))
        fake.create_topic(TARGET, 3)
        made = Copy(fake)
        assert not commit_offsets(made.connections, GROUP, TOPIC_PARTITIONS)  # the driver does
        yield made
        made.connections.close()


@pytest.fixture
def copy() -> Iterator[Copy]:
    with copy_on(1) as made:
        yield made


@pytest.fixture
def made_of_three() -> Iterator[Copy]:
    with copy_on(3) as made:
        yield made


@pytest.mark.parametrize("protocol", [V1, V2])
@pytest.mark.parametrize("lanes", [1, 2])
def test_records_are_copied_while_they_are_written(
    copy: Copy, protocol: TransactionProtocol, lanes: int
) -> None:
    ids = tuple(f"copy-0-{lane}" for lane in range(lanes))
    with copy.running(protocol=protocol, transactional_ids=ids) as running:
        for _ in range(3):
            copy.write(20)
            wait_until(lambda: copy.is_done, "all is copied")
    assert running.error is None
    assert running.task.loop.start_count == 1
    totals = running.task.loop.totals
    assert totals.transactions > 1
    assert totals.bytes_in > sum(map(len, copy.written))
    assert totals.bytes_out == written_bytes(copy.fake)
    copy.check()


def written_bytes(fake: FakeKafka) -> int:
    """Return the sizes of the record batches in the target, without the markers of transactions."""
    logs = [batch for each in range(3) for batch in log_of(fake, each) if not is_control(batch)]
    return sum(map(len, logs))


def log_of(fake: FakeKafka, partition: int) -> list[bytes]:
    with fake.log(TARGET, partition) as log:
        return [batch.data for batch in log.batches]


def is_control(batch: bytes) -> bool:
    return bool(int.from_bytes(batch[21:23], "big") & 0x20)  # the attributes


@pytest.mark.parametrize(
    ("protocol", "api", "action"),
    [
        *[(V1, api, LoseAnswer()) for api in ("AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")],
        *[(V2, api, LoseAnswer()) for api in ("Produce", "TxnOffsetCommit", "EndTxn")],
        *[(V2, api, Close(is_handled=True)) for api in ("Produce", "TxnOffsetCommit", "EndTxn")],
        *[(V2, api, Close()) for api in ("Fetch", "EndTxn")],
    ],
    ids=str,
)
def test_a_lost_answer_neither_loses_nor_doubles_a_record(
    copy: Copy, protocol: TransactionProtocol, action: Action, api: str
) -> None:
    copy.write()
    control = copy.fake.control(api, action)
    settings = replace(copy.settings, request_timeout_ms=300)
    with copy.running(protocol=protocol, connection=settings) as running:
        wait_until(lambda: copy.is_done, "all is copied")
    assert control.seen
    assert running.error is None
    copy.check()


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("TxnOffsetCommit", codes.CONCURRENT_TRANSACTIONS),
        ("TxnOffsetCommit", codes.NOT_COORDINATOR),
        ("EndTxn", codes.COORDINATOR_LOAD_IN_PROGRESS),
        ("AddOffsetsToTxn", codes.COORDINATOR_NOT_AVAILABLE),
        ("Fetch", codes.NOT_LEADER_OR_FOLLOWER),
        # So a leader tells a producer that its last transaction is still being ended.
        ("Produce", codes.NOT_ENOUGH_REPLICAS),
    ],
)
def test_a_refusal_that_passes_needs_no_new_start(copy: Copy, api: str, code: int) -> None:
    copy.write()
    control = copy.fake.control(api, Refuse(code), times=3)
    protocol = V1 if api == "AddOffsetsToTxn" else V2
    with copy.running(protocol=protocol) as running:
        wait_until(lambda: copy.is_done, "all is copied")
    assert len(control.seen) == 3
    assert running.task.loop.start_count == 1
    copy.check()


@pytest.mark.parametrize(
    ("set_to", "bytes_max"), [(1 << 20, 4 << 20), (8 << 20, 8 << 20), (1_000_000, 1_000_000)]
)
def test_a_request_is_larger_than_a_record_unless_the_user_has_set_less(
    copy: Copy, set_to: int, bytes_max: int
) -> None:
    produce = ProduceSettings(max_request_size_bytes=set_to)
    limits = task_module._limits(replace(copy.plan, produce=produce))
    assert limits.max_request_size_bytes == bytes_max


def test_a_broker_does_not_wait_with_the_last_answer_of_a_transaction(copy: Copy) -> None:
    task = ContinuousTask(copy.plan)
    try:
        asked = [task._fetch_request(Fetch(0, TOPIC_PARTITIONS, is_last)) for is_last in (True, False)]
    finally:
        task._connections.close()
    assert [each.max_wait_ms for each in asked] == [0, 50]


def test_a_function_makes_the_records(copy: Copy) -> None:
    copy.write(10)

    def odd(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = pc.cast(pc.binary_slice(batch.column("value"), 2, 8).cast("string"), "int32")
        return batch.filter(pc.equal(pc.bit_wise_and(numbers, 1), 1))

    with copy.running(maker=EachBatch(odd)):
        wait_until(lambda: copy.is_done, "all is copied")
    copy.written = [each for each in copy.written if int(each[2:]) % 2]
    copy.check()


@pytest.mark.parametrize(
    ("protocol", "api", "action"),
    [
        (V1, "EndTxn", LoseAnswer()),
        *[(V2, api, LoseAnswer()) for api in ("Produce", "TxnOffsetCommit", "EndTxn")],
        (V2, "Produce", Close(is_handled=True)),
    ],
    ids=str,
)
def test_a_dead_letter_is_in_the_transaction_of_its_offset(
    copy: Copy, protocol: TransactionProtocol, action: Action, api: str
) -> None:
    copy.fake.create_topic(DEAD, 2)
    copy.write()
    control = copy.fake.control(api, action)
    settings = replace(copy.settings, request_timeout_ms=300)
    how: dict[str, Any] = {"maker": Divided(), "dead_letter_topic": DEAD, "connection": settings}
    with copy.running(protocol=protocol, transactional_ids=("copy-0-0", "copy-0-1"), **how) as running:
        wait_until(lambda: copy.is_done, "all is copied")
    assert control.seen
    assert running.error is None
    letters = [value for value in copy.written if is_bad(value)]
    found = committed_records(copy.fake, DEAD)
    assert sorted(each.value or b"" for each in found) == sorted(letters)
    assert {each.partition for each in found} == {0, 1}, "without a key, in the number of their source"
    copy.written = [value for value in copy.written if not is_bad(value)]
    copy.check()
    if api != "EndTxn":  # without its answer the task counts nothing
        totals = running.task.loop.totals
        assert (totals.records_out, totals.dead_letters) == (len(copy.written), len(letters))
        assert totals.records_in == len(copy.written) + len(letters)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
@pytest.mark.parametrize(
    ("api", "action"),
    [
        *[(api, LoseAnswer()) for api in ("Produce", "OffsetCommit")],
        *[(api, Close(is_handled=True)) for api in ("Produce", "OffsetCommit")],
        ("OffsetCommit", Refuse(codes.NOT_COORDINATOR)),
        ("Produce", Refuse(codes.NOT_ENOUGH_REPLICAS)),
    ],
    ids=str,
)
def test_without_transactions_no_record_is_lost(
    copy: Copy, guarantee: DeliveryGuarantee, api: str, action: Action
) -> None:
    copy.write()
    control = copy.fake.control(api, action)
    settings = replace(copy.settings, request_timeout_ms=300)
    ids = ("copy-0-0", "copy-0-1")
    with copy.running(connection=settings, guarantee=guarantee, transactional_ids=ids) as running:
        wait_until(lambda: copy.is_done, "all is copied")
        copy.write(10)
        wait_until(lambda: copy.is_done, "all is copied")
    assert control.seen
    assert running.error is None
    found = [each.value or b"" for each in committed_records(copy.fake, TARGET)]
    assert set(found) == set(copy.written)
    if guarantee is DeliveryGuarantee.AT_LEAST_ONCE and api == "Produce":
        assert len(found) == len(copy.written), "a batch that is sent again has its sequence number"
    for name in ids:
        transaction = copy.fake.transaction(name)
        assert transaction is not None
        assert transaction.state == "Empty"


def test_without_a_guarantee_the_leader_alone_acknowledges(copy: Copy) -> None:
    produce = ProduceSettings(acks=1, enable_idempotence=False)
    with copy.running(guarantee=DeliveryGuarantee.NONE, produce=produce) as running:
        copy.write()
        wait_until(lambda: copy.is_done, "all is copied")
    assert running.error is None
    assert running.task.loop.start_count == 1
    copy.check()


def test_an_error_of_a_function_ends_the_task_and_leaves_nothing_open(copy: Copy) -> None:
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        if any(each.as_py() == b"1-000007" for each in batch.column("value")):
            raise ValueError("the function does not like this")
        return batch

    with copy.running(maker=EachBatch(fails)) as running:
        copy.write(2)
        wait_until(lambda: copy.is_done, "the first records are copied")
        copy.write(10)
        wait_until(lambda: running.has_ended, "the task ends")
    assert isinstance(running.error, ValueError)
    transaction = copy.fake.transaction("copy-0-0")
    assert transaction is not None
    assert transaction.state in ("CompleteCommit", "CompleteAbort", "Empty")
    with copy.running():
        wait_until(lambda: copy.is_done, "all is copied")
    copy.check()


def test_a_function_may_take_longer_than_the_time_out_of_transactions(copy: Copy) -> None:
    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(0.4)
        return batch

    fetch = FetchSettings(fetch_max_wait_ms=50, max_partition_fetch_bytes=1)  # a record in each call
    with copy.running(maker=EachBatch(slow), transaction_timeout_ms=300, fetch=fetch) as running:
        for _ in range(3):
            copy.write(1)
        wait_until(lambda: copy.is_done, "all is copied")
    assert running.error is None
    assert running.task.loop.start_count == 1
    assert running.task.loop.totals.transactions > 1
    copy.check()


def test_a_late_end_of_a_transaction_does_not_bring_its_identity_back(copy: Copy) -> None:
    """The task aborts with the identity that it holds when it fails. An older one would abort nothing."""
    with copy.running() as running:
        wait_until(lambda: running.task._identities, "it has taken its id")
        now = running.task._identities["copy-0-0"]
        before = replace(now, producer_epoch=now.producer_epoch - 1)
        ended = SimpleNamespace(
            error_code=codes.NO_ERROR, producer_id=now.producer_id, producer_epoch=now.producer_epoch - 1
        )
        running.task._reply(EndTransaction(before), ended)
        assert running.task._identities["copy-0-0"] == now


def test_records_that_the_broker_refuses_are_an_error_of_the_rows(copy: Copy) -> None:
    """The driver does not start a job again after it. It would write the same records, for ever."""
    copy.fake.delete_topic(TARGET)
    copy.fake.create_topic(TARGET, 3, config={"cleanup.policy": "compact"})
    copy.write(1)  # without a key
    with copy.running() as running:
        error = running.fails_with(RowError)
    assert re.search(r"writing to target-\d failed: .* without a key .* \(INVALID_RECORD\)", error.message)
    assert not committed_records(copy.fake, TARGET)


def test_a_second_attempt_takes_the_place_of_the_first(copy: Copy) -> None:
    copy.write()
    with copy.running() as first:
        wait_until(lambda: copy.is_done, "all is copied")
        with copy.running():
            copy.write()
            wait_until(lambda: copy.is_done, "all is copied")
            first.fails_with(ProducerFencedError)
    copy.check()


def test_an_older_plan_commits_nothing(copy: Copy) -> None:
    member = OnlyMember(copy.connections, GROUP)
    with copy.running(membership=member.renew()) as old:
        copy.write()
        wait_until(lambda: copy.is_done, "all is copied")
        # The new plan has other ids. Only the generation tells it from the old one.
        with copy.running(membership=member.renew(), transactional_ids=("copy-1-0",)):
            copy.write()
            wait_until(lambda: copy.is_done, "all is copied")
            assert "present one" in old.fails_with(TransactionError).message
    copy.check()


def test_records_that_are_gone_are_an_error(copy: Copy) -> None:
    copy.write(10)
    judge.delete_records(copy.fake.bootstrap_servers, SOURCE, {0: 5})
    with copy.running() as running:
        error = running.fails_with(OffsetOutOfRangeError)
    assert "source-0" in error.message


def test_aborted_and_compacted_records_of_the_source_are_passed(copy: Copy) -> None:
    topic_partition, bootstrap = TopicPartition(SOURCE, 0), copy.fake.bootstrap_servers

    def transaction(value: bytes, *, is_committed: bool) -> None:
        records = [judge.Record(value, partition=0)] * 3
        judge.produce_in_transaction(
            bootstrap, SOURCE, *records, transactional_id="writer", is_committed=is_committed
        )

    def gap() -> None:
        with copy.fake.log(SOURCE, 0) as log:
            log.leave_gap(7)

    with copy.running(positions={topic_partition: 0}) as running:
        for value in (b"first", b"second", b"third"):
            transaction(b"aborted", is_committed=False)
            gap()
            transaction(value, is_committed=True)
            transaction(b"aborted", is_committed=False)
            gap()
        judge.produce(bootstrap, SOURCE, judge.Record(b"last", partition=0))
        with copy.fake.log(SOURCE, 0) as log:
            end = log.end_offset
        wait_until(
            lambda: committed_offsets(copy.connections, GROUP, [topic_partition]) == {topic_partition: end},
            "all is read",
        )
    assert running.error is None
    found = Counter(each.value for each in committed_records(copy.fake, TARGET))
    assert found == {b"first": 3, b"second": 3, b"third": 3, b"last": 1}
    assert running.task.loop.totals.records_in == 10


def test_the_offset_passes_what_was_aborted_at_the_end_of_the_source(copy: Copy) -> None:
    topic_partition = TopicPartition(SOURCE, 0)
    with copy.running(positions={topic_partition: 0}) as running:
        judge.produce_in_transaction(
            copy.fake.bootstrap_servers,
            SOURCE,
            judge.Record(b"aborted", partition=0),
            transactional_id="writer",
            is_committed=False,
        )
        wait_until(
            lambda: committed_offsets(copy.connections, GROUP, [topic_partition]) == {topic_partition: 2},
            "the record and its marker are passed",
        )
    assert running.error is None
    assert not committed_records(copy.fake, TARGET)


def test_a_group_that_was_set_back_is_an_error(copy: Copy) -> None:
    with copy.running() as running:
        copy.write()
        wait_until(lambda: copy.is_done, "all is copied")
        judge.commit_offsets(copy.fake.bootstrap_servers, GROUP, SOURCE, {0: 3})
        copy.fake.control("EndTxn", Close(), times=1)  # so that it starts again
        copy.write()
        error = running.fails_with(PenstockError)
    assert "has committed offset 50" in error.message


def test_a_producer_id_that_has_used_up_its_epochs_is_replaced(copy: Copy) -> None:
    """With protocol V2 each transaction takes an epoch: at 50 a second they last for 11 minutes."""
    with copy.running() as running:
        copy.write(1)
        wait_until(lambda: copy.is_done, "the first transaction is ended")
        transaction = copy.fake.transaction("copy-0-0")
        assert transaction is not None
        old_id = transaction.producer_id
    transaction.epoch = 32_763
    with copy.running() as running:
        for _ in range(5):
            copy.write(1)
            wait_until(lambda: copy.is_done, "all is copied")
    assert transaction.producer_id != old_id
    assert running.task.loop.start_count == 1
    copy.check()


def test_leaders_and_coordinators_move(made_of_three: Copy) -> None:
    copy = made_of_three
    with copy.running() as running:
        for node_id in (2, 3, 1):
            copy.write(10)
            for topic, partition in ((SOURCE, 0), (SOURCE, 1), (TARGET, 0), (TARGET, 1)):
                copy.fake.move_leader(topic, partition, node_id)
            copy.fake.move_transaction_coordinator("copy-0-0", node_id)
            copy.fake.move_group_coordinator(GROUP, node_id)
            copy.write(10)
            wait_until(lambda: copy.is_done, "all is copied")
    assert running.error is None
    copy.check()


def test_a_broker_that_stops_is_replaced(made_of_three: Copy) -> None:
    copy = made_of_three
    with copy.running() as running:
        for node_id in copy.fake.node_ids:
            copy.write(10)
            copy.fake.stop_broker(node_id)
            copy.write(10)
            wait_until(lambda: copy.is_done, "all is copied")
            copy.fake.start_broker(node_id)
    assert running.error is None
    copy.check()


@pytest.mark.parametrize("topic", [SOURCE, TARGET, DEAD])
def test_a_topic_that_is_created_again_is_an_error(copy: Copy, topic: str) -> None:
    copy.fake.create_topic(DEAD, 2)
    with copy.running(maker=Divided(), dead_letter_topic=DEAD) as running:
        copy.write()
        wait_until(lambda: copy.is_done, "all is copied")
        copy.fake.delete_topic(topic)
        copy.fake.create_topic(topic, 3)
        records = [judge.Record(value, partition=0) for value in (b"new 1", b"new 2")]
        judge.produce(copy.fake.bootstrap_servers, SOURCE, *records * 50)
        error = running.fails_with(TopicPartitionsRemovedError)
    assert f"{topic!r} was deleted and created again" in error.message


@pytest.mark.parametrize("topic", [SOURCE, TARGET])
def test_a_topic_that_is_deleted_is_an_error(copy: Copy, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connections, "UNKNOWN_TOPIC_GRACE_MS", 500)
    with copy.running() as running:
        copy.write()
        wait_until(lambda: copy.is_done, "all is copied")
        copy.fake.delete_topic(topic)
        if topic == TARGET:
            judge.produce(copy.fake.bootstrap_servers, SOURCE, b"more")
        error = running.fails_with(TopicPartitionsRemovedError)
    assert f"{topic!r} does not exist any more" in error.message
