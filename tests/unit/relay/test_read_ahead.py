"""What was read ahead, and is not decoded yet: bad batches in it, and a slow function before it."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client.cluster.log_offsets import committed_offsets
from penstock.client.settings import FetchSettings
from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import CorruptBatchError
from penstock.relay.messages import Reply, Request
from penstock.relay.records import EachBatch
from penstock.testing.judge import committed_records
from penstock.types import TopicPartition
from tests.unit.relay.simulation import Faults, Records, Simulation, Task
from tests.unit.relay.test_task import SOURCE, TARGET, Copy, copy_on
from tests.waiting import wait_until

_LAST_OFFSET_DELTA_AT = 23
ONE_BATCH = FetchSettings(fetch_max_wait_ms=50, max_partition_fetch_bytes=1)


@pytest.fixture
def copy() -> Iterator[Copy]:
    with copy_on(1) as made:
        yield made


def damage(copy: Copy, number: int, at: int, data: bytes) -> int:
    """Overwrite bytes of a batch of source-0. Return its first offset."""
    with copy.fake.log(SOURCE, 0) as log:
        batch = log.batches[number]
        bad = batch.data[:at] + data + batch.data[at + len(data) :]
        log.batches[number] = batch._replace(data=bad)
        return batch.base_offset


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("fetch", [ONE_BATCH, FetchSettings(fetch_max_wait_ms=50)], ids=["one", "all"])
def test_a_batch_that_is_damaged_ends_the_task_and_is_passed_by_no_offset(
    copy: Copy, lanes: int, fetch: FetchSettings
) -> None:
    for _ in range(6):
        copy.write(5)
    with copy.fake.log(SOURCE, 0) as log:
        whole = log.batches[3]
    bad_at = damage(copy, 3, len(whole.data) - 3, b"???")
    ids = tuple(f"copy-0-{lane}" for lane in range(lanes))
    with copy.running(fetch=fetch, transactional_ids=ids) as running:
        error = running.fails_with(CorruptBatchError)
    assert "source" in error.message
    at = committed_offsets(copy.connections, "group", [TopicPartition(SOURCE, 0)])[TopicPartition(SOURCE, 0)]
    assert at <= bad_at
    for name in ids:
        transaction = copy.fake.transaction(name)
        assert transaction is not None
        assert transaction.state in ("CompleteCommit", "CompleteAbort", "Empty")
    with copy.fake.log(SOURCE, 0) as log:
        log.batches[3] = whole
    with copy.running(fetch=fetch, transactional_ids=ids):
        wait_until(lambda: copy.is_done, "all is copied")
    copy.check()


def test_a_batch_whose_header_is_damaged_is_that_error_though_a_slow_function_comes_first(copy: Copy) -> None:
    """Its end is read before its checksum. The next Fetch must not tell of records that were deleted."""

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(0.2)
        return batch

    for _ in range(6):
        copy.write(1)
    damage(copy, 3, _LAST_OFFSET_DELTA_AT, struct.pack(">i", 1_000))
    with copy.running(maker=EachBatch(slow), transaction_timeout_ms=1_000, fetch=ONE_BATCH) as running:
        running.fails_with(CorruptBatchError)
    assert len(committed_records(copy.fake, TARGET)) <= 9


def test_a_stop_while_pieces_wait_commits_no_offset_of_them(copy: Copy) -> None:
    calls = []

    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        time.sleep(0.1)
        return batch

    for _ in range(20):
        copy.write(2)
    with copy.running(maker=EachBatch(slow), fetch=ONE_BATCH):
        wait_until(lambda: len(calls) > 3, "it works")
    found = committed_offsets(copy.connections, "group", [TopicPartition(SOURCE, each) for each in range(2)])
    assert sum(found.values()) < 80, "it was stopped on the way"
    assert sum(found.values()) == len(committed_records(copy.fake, TARGET))
    with copy.running(fetch=ONE_BATCH):
        wait_until(lambda: copy.is_done, "all is copied")
    copy.check()


class Busy(Simulation):
    """Calls of the function take their time, and after each the task takes all answers that are there."""

    took_ms = 0

    def _new_content(self) -> Records:
        def call_ms() -> int:
            self.took_ms = self.chance.choice(self.call_ms)
            return self.took_ms

        return Records(call_ms)

    def _pump(self, task: Task) -> None:
        if not task.is_alive or self.now_ms < task.stands_until_ms:
            return
        for request in task.loop.plan(self.now_ms):
            self._send(task, request)
        if task.loop.work():
            task.stands_until_ms = at_ms = self.now_ms + self.took_ms
            self._at(at_ms, lambda: self._at(at_ms, lambda: self._pump(task)))
        elif task.loop.outcome is not None:
            task.is_alive = False
        elif (wakeup_ms := task.loop.next_wakeup_ms(self.now_ms)) is not None:
            assert wakeup_ms > self.now_ms, "the loop turns without a pause"
            self._at(wakeup_ms, lambda: self._pump(task))

    def _answer(self, task: Task, request: Request, reply: Reply) -> None:
        if self.now_ms < task.stands_until_ms:
            self._at(task.stands_until_ms, lambda: self._answer(task, request, reply))
        elif task.is_alive:
            task.loop.answer(request, reply, self.now_ms)
            self._at(self.now_ms, lambda: self._pump(task))


@pytest.mark.parametrize("protocol", TransactionProtocol)
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("call_ms", [20, 100, 187])
def test_transactions_end_in_time_though_there_is_always_something_to_decode(
    protocol: TransactionProtocol, lanes: int, call_ms: int
) -> None:
    """Each stage waits for a call of the function. A call may take an eighth of the time-out (1,500 ms)."""
    faults = Faults(0, 0, 0, refused=0.1, kills_a_second=1e-6, plans_a_second=1e-6)
    for seed in range(6):
        history = Busy(
            seed, protocol=protocol, lanes=lanes, tasks=1, partitions=6, faults=faults, call_ms=(call_ms,)
        ).run(5_000)
        assert [(task.loop.start_count, task.loop.last_fault) for task in history.tasks] == [(1, "")]
