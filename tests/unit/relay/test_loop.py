"""What the loop plans, step by step, with answers that the test gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from penstock.client.net import error_codes as codes
from penstock.client.produce.delivery import Answer
from penstock.client.transactions.steps import TransactionIdentity
from penstock.options.config import DeliveryGuarantee
from penstock.relay._pipeline import Content
from penstock.relay.loop import MAX_TRANSACTION_BYTES, End, Loop, LoopSettings, Phase
from penstock.relay.messages import (
    NOTHING,
    CheckPlan,
    CommitOffsets,
    Done,
    EndTransaction,
    Fetch,
    Fetched,
    Lost,
    Produce,
    ReadPositions,
    Refused,
    Reply,
    Request,
    TakeId,
)
from penstock.types import TopicPartition
from tests.unit.relay.simulation import Records

TOPIC_PARTITION = TopicPartition("source", 0)


class Driver:
    """A loop with a clock. It answers everything but what the test keeps."""

    def __init__(
        self,
        *kept: type[Request],
        lanes: int = 1,
        plan_check_ms: int = 0,
        commit_interval_ms: int = 10,
        new_content: Callable[[], Content] = Records,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        max_transaction_bytes: int = 20,
    ) -> None:
        self.kept: list[Request] = []
        self.sent: list[Request] = []
        self.now_ms = 0
        self._kept_kinds = kept
        self._end = 0
        ids = tuple(f"id-{lane}" for lane in range(lanes))
        settings = LoopSettings(
            ids,
            {TOPIC_PARTITION: 0},
            commit_interval_ms=commit_interval_ms,
            max_transaction_bytes=max_transaction_bytes,
            plan_check_ms=plan_check_ms,
            guarantee=guarantee,
        )
        self.loop = Loop(settings, new_content, lambda _: 1)

    def turn(self, records: int = 0) -> list[Request]:
        """Let 5 ms pass, with so many records in each answer to a Fetch. Return what was sent."""
        self.now_ms += 5
        sent: list[Request] = []
        is_going_on = True
        while is_going_on:
            requests = self.loop.plan(self.now_ms)
            sent += requests
            for request in requests:
                if isinstance(request, self._kept_kinds):
                    self.kept.append(request)
                else:
                    self.loop.answer(request, self.reply(request, records), self.now_ms)
            has_worked = self.loop.work()
            is_going_on = bool(requests) or has_worked
        self.sent += sent
        return sent

    def answer(self, reply: Reply) -> None:
        """Answer the request that was kept first."""
        self.loop.answer(self.kept.pop(0), reply, self.now_ms)

    def reply(self, request: Request, records: int) -> Reply:
        if isinstance(request, CheckPlan):
            return Done(value=True)
        if isinstance(request, ReadPositions):
            return Done({TOPIC_PARTITION: self._end})
        if isinstance(request, Fetch):
            at = request.offsets[TOPIC_PARTITION]
            rows = [(0, offset) for offset in range(at, at + records)]
            return Done([Fetched(TOPIC_PARTITION, codes.NO_ERROR, at + records, rows, records)])
        if isinstance(request, Produce):
            return Done([(batch, Answer(codes.NO_ERROR, 0)) for batch in request.planned.batches.values()])
        if isinstance(request, CommitOffsets):
            self._end = request.positions[TOPIC_PARTITION]
        if isinstance(request, (EndTransaction, TakeId)):
            given = request if isinstance(request, TakeId) else request.identity
            return Done(TransactionIdentity(given.transactional_id, 1, 1))
        return Done()


def kinds(requests: list[Request]) -> list[type[Request]]:
    return [type(request) for request in requests]


def test_ids_are_taken_before_the_offsets_are_read() -> None:
    driver = Driver(TakeId, lanes=2)
    assert kinds(driver.turn()) == [TakeId, TakeId]
    driver.answer(Done(TransactionIdentity("id-0", 1, 1)))
    assert driver.turn() == []
    driver.answer(Done(TransactionIdentity("id-1", 1, 1)))
    assert kinds(driver.turn())[0] is ReadPositions


def test_the_plan_is_checked_before_the_ids_are_taken() -> None:
    driver = Driver(CheckPlan, plan_check_ms=50)
    assert kinds(driver.turn()) == [CheckPlan]
    driver.answer(Done(value=True))
    assert kinds(driver.turn()) == [TakeId, ReadPositions, Fetch]


@pytest.mark.parametrize("reply", [Lost(), Refused(codes.NOT_COORDINATOR), Done(None)], ids=str)
def test_a_plan_that_cannot_be_checked_takes_no_id_and_is_checked_again(reply: Reply) -> None:
    driver = Driver(CheckPlan, plan_check_ms=50)
    driver.turn()
    driver.answer(reply)
    assert driver.loop.phase is Phase.PAUSED
    sent = [kind for _ in range(6) for kind in kinds(driver.turn())]
    assert sent == [CheckPlan]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
def test_without_transactions_offsets_are_committed_behind_acknowledged_records(
    guarantee: DeliveryGuarantee,
) -> None:
    driver = Driver(Produce, guarantee=guarantee)
    sent = kinds(driver.turn(records=3))
    assert Produce in sent
    sent += [kind for _ in range(4) for kind in kinds(driver.turn())]
    assert CommitOffsets not in sent
    produced = driver.kept[0]
    assert isinstance(produced, Produce)
    assert produced.identity.transactional_id is None
    assert produced.identity.is_idempotent is (guarantee is DeliveryGuarantee.AT_LEAST_ONCE)
    while driver.kept:
        driver.answer(driver.reply(driver.kept[0], 0))
        sent += kinds(driver.turn())
    assert CommitOffsets in sent
    assert EndTransaction not in sent
    assert driver.loop.committed == {TOPIC_PARTITION: 3}


@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
def test_a_slow_acknowledgement_is_a_fault_only_in_a_transaction(guarantee: DeliveryGuarantee) -> None:
    """A fault would write the records again under a new producer epoch, as copies."""
    driver = Driver(Produce, guarantee=guarantee)
    while not driver.kept:
        driver.turn(records=3)
    driver.now_ms += 30_000
    driver.turn()
    has_fault = driver.loop.phase is not Phase.RUNNING
    assert has_fault is (guarantee is DeliveryGuarantee.EXACTLY_ONCE)


@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
def test_a_group_that_an_older_task_has_set_back_is_passed_only_without_transactions(
    guarantee: DeliveryGuarantee,
) -> None:
    driver = Driver(guarantee=guarantee)
    for _ in range(6):
        driver.turn(records=3)
    reached = driver.loop.committed[TOPIC_PARTITION]
    driver._end = 1  # a late commit of a task that was killed
    driver._kept_kinds = (CommitOffsets,)
    while not driver.kept:
        driver.turn(records=3)
    driver.answer(Lost())
    driver._kept_kinds = ()
    for _ in range(20):
        driver.turn()
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert driver.loop.outcome is not None
        assert driver.loop.outcome.error_code == codes.OFFSET_OUT_OF_RANGE
    else:
        fetches = [each for each in driver.sent if isinstance(each, Fetch)]
        assert fetches[-1].offsets[TOPIC_PARTITION] == reached


def test_a_loop_without_records_ends_when_its_plan_is_over() -> None:
    driver = Driver(CheckPlan, plan_check_ms=50)
    driver.turn()
    driver.answer(Done(value=True))
    for _ in range(20):
        driver.turn()
    assert kinds(driver.kept) == [CheckPlan]
    driver.answer(Lost())  # it goes on, and asks again
    for _ in range(20):
        driver.turn()
    driver.answer(Done(value=False))
    assert driver.loop.outcome is not None
    assert driver.loop.outcome.end is End.PLAN_OVER


@pytest.mark.parametrize("found", [{}, {TOPIC_PARTITION: 6}], ids=str)
def test_a_group_that_has_lost_an_offset_of_the_plan_is_an_error(found: dict[TopicPartition, int]) -> None:
    """Otherwise a process that takes the place of another would write records a second time."""
    settings = LoopSettings(("id-0",), {TOPIC_PARTITION: 7})
    loop = Loop(settings, Records, lambda _: 1)
    [take] = loop.plan(0)
    loop.answer(take, Done(TransactionIdentity("id-0", 1, 1)), 0)
    [read] = loop.plan(0)
    loop.answer(read, Done(found), 0)
    assert loop.outcome is not None
    assert loop.outcome.end is End.FAILED
    assert "has committed offset 7" in loop.outcome.what


def test_a_transaction_says_how_much_the_task_has_committed_with_it() -> None:
    driver = Driver()
    for _ in range(9):
        driver.turn(records=3)
    said = [each.totals for each in driver.sent if isinstance(each, CommitOffsets)]
    assert len(said) > 2
    for number, (before, now) in enumerate(itertools.pairwise([NOTHING, *said])):
        assert now.transactions == number + 1
        assert now.records_in > before.records_in
    assert said[-1].records_in == said[-1].records_out == driver.loop.committed[TOPIC_PARTITION]


def test_a_slow_target_holds_the_source_back() -> None:
    driver = Driver(EndTransaction)
    for _ in range(3):
        driver.turn(records=9)
    assert kinds(driver.kept) == [EndTransaction]
    for _ in range(10):
        driver.turn(records=9)
    fetched = [request for request in driver.sent if isinstance(request, Fetch)]
    for _ in range(10):
        assert driver.turn(records=9) == []
    last = fetched[-1].offsets[TOPIC_PARTITION]
    first = driver.loop.committed.get(TOPIC_PARTITION, 0)
    # One transaction that is ended and one that is filled, each with the end of an answer, one answer that
    # waits, and one that was asked for before.
    assert last - first < 2 * (20 + 9) + 2 * 9
    driver.answer(Done(TransactionIdentity("id-0", 1, 1)))
    assert Fetch in kinds(driver.turn(records=9))


def test_while_a_transaction_is_written_the_next_one_takes_two_pieces_of_json() -> None:
    """An answer has 1 MiB of a topic partition. A half of these records, as JSON, takes more than 8 MiB."""

    class Large(Records):
        @property
        def size_bytes(self) -> int:
            return super().size_bytes * (9 << 20)

    driver = Driver(EndTransaction, new_content=Large, max_transaction_bytes=MAX_TRANSACTION_BYTES)
    for _ in range(3):
        driver.turn(records=1)
    assert kinds(driver.kept) == [EndTransaction]
    for _ in range(10):
        driver.turn(records=1)
    driver.answer(Done(TransactionIdentity("id-0", 1, 1)))
    for _ in range(3):
        driver.turn(records=1)
    ended = [each for each in driver.sent if isinstance(each, CommitOffsets)]
    first, second = (each.positions[TOPIC_PARTITION] for each in ended[:2])
    assert second - first == 2


def test_the_next_fetch_goes_out_before_what_was_read_is_decoded() -> None:
    called: list[int] = []

    class Noted(Records):
        def add(self, topic_partition: TopicPartition, rows: object) -> int:
            called.append(len(driver.kept))
            return super().add(topic_partition, rows)

    driver = Driver(Fetch, new_content=Noted)
    driver.turn()
    for _ in range(5):
        [fetch] = driver.kept
        assert isinstance(fetch, Fetch)
        at = fetch.offsets[TOPIC_PARTITION]
        rows = [(0, at)]
        driver.answer(Done([Fetched(TOPIC_PARTITION, codes.NO_ERROR, at + 1, rows, 1 << 20)]))
        driver.turn()
    assert called == [1] * 5
    asked = [each.offsets[TOPIC_PARTITION] for each in driver.sent if isinstance(each, Fetch)]
    assert asked == [*range(6)]


def test_no_more_is_asked_for_while_two_pieces_wait() -> None:
    places = {TopicPartition("source", each): 0 for each in range(3)}
    loop = Loop(LoopSettings(("id-0",), places), Records, lambda _: 1)
    [take] = loop.plan(0)
    loop.answer(take, Done(TransactionIdentity("id-0", 1, 1)), 0)
    [read] = loop.plan(0)
    loop.answer(read, Done(places), 0)
    [fetch] = loop.plan(0)
    found = [Fetched(each, codes.NO_ERROR, 1, [(each.partition, 0)], 1 << 20) for each in places]
    loop.answer(fetch, Done(found), 0)
    asked = []
    for _ in places:
        asked.append(kinds(loop.plan(0)))
        assert loop.work()
    assert asked == [[], [], [Fetch]]
    assert not loop.work()


def test_what_waits_when_a_fault_comes_is_not_written_after_the_next_start() -> None:
    places = {TopicPartition("source", each): 0 for each in range(2)}
    loop = Loop(LoopSettings(("id-0",), places), Records, lambda each: each.partition)
    [take] = loop.plan(0)
    loop.answer(take, Done(TransactionIdentity("id-0", 1, 1)), 0)
    [read] = loop.plan(0)
    loop.answer(read, Done(places), 0)
    good, bad = loop.plan(0)
    first, second = places
    loop.answer(good, Done([Fetched(first, codes.NO_ERROR, 1, [(0, 0)], 1)]), 0)
    loop.answer(bad, Done([Fetched(second, codes.UNKNOWN_SERVER_ERROR, 0)]), 0)
    assert loop.phase is Phase.PAUSED
    assert not loop.work()
    [take] = loop.plan(100)
    loop.answer(take, Done(TransactionIdentity("id-0", 1, 2)), 100)
    [read] = loop.plan(100)
    loop.answer(read, Done(places), 100)
    asked = [each.offsets for each in loop.plan(100) if isinstance(each, Fetch)]
    assert asked == [{first: 0}, {second: 0}]
    assert not loop.work(), "the record at offset 0 is read again"


def test_a_transaction_holds_all_that_was_read_before_it_was_old() -> None:
    """Otherwise records that came with its first ones wait for the next transaction."""
    places = {TopicPartition("source", each): 0 for each in range(2)}
    loop = Loop(LoopSettings(("id-0",), places, commit_interval_ms=20), Records, lambda _: 1)
    [take] = loop.plan(0)
    loop.answer(take, Done(TransactionIdentity("id-0", 1, 1)), 0)
    [read] = loop.plan(0)
    loop.answer(read, Done(places), 0)
    [fetch] = loop.plan(0)
    found = [Fetched(each, codes.NO_ERROR, 1, [(each.partition, 0)], 1) for each in places]
    loop.answer(fetch, Done(found), 1)
    assert loop.plan(1) == []
    assert loop.work()
    assert Produce not in kinds(loop.plan(900)), "the work took longer than the interval"
    assert loop.work()
    assert kinds(loop.plan(900))[0] is Produce
    assert not loop.work()


def test_a_broker_that_is_asked_now_and_then_makes_no_interval_longer() -> None:
    driver = Driver(Fetch, commit_interval_ms=40)  # so a broker is asked 10 ms after a small answer
    turns = iter(range(100))
    written_at_ms, asked_at_ms = [], []
    while next(turns, None) is not None:
        sent = kinds(driver.turn())
        written_at_ms += [driver.now_ms] * sent.count(Produce)
        asked_at_ms += [driver.now_ms] * sent.count(Fetch)
        if driver.kept and driver.now_ms - asked_at_ms[-1] == 5:  # an answer takes 5 ms
            driver.answer(driver.reply(driver.kept[0], 1))
    # Answers come 15 and 30 ms after the end of an interval, and with the end of the next one.
    assert {later - earlier for earlier, later in itertools.pairwise(written_at_ms)} == {40}
    assert len(asked_at_ms) >= 3 * len(written_at_ms) - 2


def test_a_transaction_does_not_wait_if_nothing_more_is_read_until_the_end_of_its_interval() -> None:
    loop = Loop(LoopSettings(("id-0",), {TOPIC_PARTITION: 0}, commit_interval_ms=20), Records, lambda _: 1)
    [take] = loop.plan(0)
    loop.answer(take, Done(TransactionIdentity("id-0", 1, 1)), 0)
    [read] = loop.plan(0)
    loop.answer(read, Done({TOPIC_PARTITION: 0}), 0)
    [fetch] = loop.plan(0)
    written_at_ms, asked_at_ms = [], [0]
    for now_ms in range(1, 90):
        if now_ms == asked_at_ms[-1] + 1:  # an answer takes 1 ms
            loop.answer(fetch, Driver().reply(fetch, 1), now_ms)
            loop.plan(now_ms)
            loop.work()
        while requests := loop.plan(now_ms):
            written_at_ms += [now_ms] * (Produce in kinds(requests))
            for request in requests:
                if isinstance(request, Fetch):
                    fetch, asked_at_ms = request, [*asked_at_ms, now_ms]
                else:
                    loop.answer(request, Driver().reply(request, 0), now_ms)
    assert written_at_ms == [1, 21, 41, 61, 81], "with the last answer, and not before the interval is over"
    assert asked_at_ms[:6] == [0, 10, 20, 30, 40, 50], "twice in an interval"


def written(driver: Driver, until_ms: int, answer_ms: Callable[[Fetch], int | None]) -> list[tuple[int, int]]:
    """Let time pass, with a record in each answer to a Fetch. Return when how many records were written.

    Args:
        driver: it answers everything else at once.
        until_ms: how much time passes.
        answer_ms: how long the broker takes for the answer to a Fetch. None: for ever.
    """
    found: list[tuple[int, int]] = []
    answers: dict[int, Fetch] = {}
    for now_ms in range(1, until_ms):
        driver.now_ms = now_ms
        if (fetch := answers.pop(now_ms, None)) is not None:
            driver.loop.answer(fetch, driver.reply(fetch, 1), now_ms)
        while (requests := driver.loop.plan(now_ms)) or driver.loop.work():
            for request in requests:
                if isinstance(request, Produce):
                    batches = request.planned.batches.values()
                    found.append((now_ms, sum(each.record_count for each in batches)))
                if not isinstance(request, Fetch):
                    driver.loop.answer(request, driver.reply(request, 0), now_ms)
                elif (takes_ms := answer_ms(request)) is not None:
                    answers[now_ms + takes_ms] = request
    return found


@pytest.mark.parametrize(("last_ms", "wanted"), [(1, (22, 2)), (3, (24, 2)), (8, (27, 1)), (None, (27, 1))])
def test_a_transaction_waits_for_its_last_answer_but_not_for_long(
    last_ms: int | None, wanted: tuple[int, int]
) -> None:
    """Without this a record that came before the end waits for one more interval."""
    driver = Driver(commit_interval_ms=20)
    found = written(driver, 40, lambda fetch: last_ms if fetch.is_last else 1)
    assert found == [(2, 1), wanted]


def test_a_last_answer_that_is_late_makes_no_interval_longer() -> None:
    found = written(Driver(commit_interval_ms=20), 1_000, lambda _: 3)
    pauses_ms = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(found)]
    assert set(pauses_ms[1:]) == {20}


def test_a_record_after_a_pause_is_written_at_once_and_the_next_ones_once_an_interval() -> None:
    driver = Driver(commit_interval_ms=40)
    for _ in range(30):
        driver.turn()
    read_from_ms = driver.now_ms
    written_at_ms = []
    while driver.now_ms < 1_000:
        is_written = Produce in kinds(driver.turn(records=1))
        written_at_ms += [driver.now_ms] * is_written
    assert written_at_ms[0] <= read_from_ms + 10, "the first answer is written at once"
    pauses_ms = {later - earlier for earlier, later in itertools.pairwise(written_at_ms)}
    assert pauses_ms == {40}


def test_records_that_come_all_the_time_are_written_once_an_interval() -> None:
    driver = Driver(Fetch, commit_interval_ms=40)
    written_at_ms = []
    while driver.now_ms < 1_000:
        written_at_ms += [driver.now_ms] * (Produce in kinds(driver.turn()))
        while driver.kept:
            fetch = driver.kept[0]
            assert isinstance(fetch, Fetch)
            at = fetch.offsets[TOPIC_PARTITION]
            full = Fetched(TOPIC_PARTITION, codes.NO_ERROR, at + 1, [(0, at)], 1 << 20)
            driver.answer(Done([full]))
    pauses_ms = {later - earlier for earlier, later in itertools.pairwise(written_at_ms)}
    assert pauses_ms == {40}


class SlowFunction:
    """Makes records with a function whose calls take so long. Notes the calls."""

    def __init__(self, call_ms: int) -> None:
        self.call_ms = call_ms
        self.call_count = 0

    def content(self) -> Content:
        return _SlowRecords(self)


class _SlowRecords(Records):
    def __init__(self, function: SlowFunction) -> None:
        super().__init__()
        self._function = function

    def add(self, topic_partition: TopicPartition, rows: object) -> int:
        super().add(topic_partition, rows)
        self._function.call_count += 1
        return self._function.call_ms


@pytest.mark.parametrize(("call_ms", "is_slow"), [(15_000, True), (1_300, True), (1, False)])
def test_a_slow_function_is_called_only_while_no_transaction_is_open(call_ms: int, is_slow: bool) -> None:
    """Otherwise the broker aborts the open transaction meanwhile, and the next start does the same again."""
    function = SlowFunction(call_ms)
    driver = Driver(EndTransaction, new_content=function.content)
    for _ in range(5):
        driver.turn(records=3)
    assert kinds(driver.kept) == [EndTransaction]
    before = function.call_count
    for _ in range(5):
        driver.turn(records=3)
    assert (function.call_count == before) == is_slow
    driver.answer(Done(TransactionIdentity("id-0", 1, 1)))
    for _ in range(5):
        driver.turn(records=3)
    assert function.call_count > before
    read = [each.positions[TOPIC_PARTITION] for each in driver.sent if isinstance(each, CommitOffsets)]
    assert len(read) == 2, "it goes on after the transaction has ended"


def test_a_fault_names_a_function_that_is_slow() -> None:
    driver = Driver(EndTransaction, new_content=SlowFunction(15_000).content)
    for _ in range(5):
        driver.turn(records=3)
    driver.answer(Refused(codes.INVALID_PRODUCER_EPOCH))
    assert driver.loop.outcome is not None
    assert "call of the function took 15000 ms" in driver.loop.outcome.what
    assert "transaction.timeout.ms is 10000 ms" in driver.loop.outcome.what


def test_a_start_does_not_wait_for_the_clock() -> None:
    loop = Loop(LoopSettings(("id-0",), {TOPIC_PARTITION: 7}), Records, lambda _: 1)
    [take] = loop.plan(0)
    loop.answer(take, Done(TransactionIdentity("id-0", 1, 1)), 3)
    assert loop.next_wakeup_ms(3) == 3
    [read] = loop.plan(3)
    assert loop.next_wakeup_ms(3) is None
    loop.answer(read, Done({TOPIC_PARTITION: 7}), 5)
    assert loop.next_wakeup_ms(5) == 0
    assert kinds(loop.plan(5)) == [Fetch]
    assert loop.next_wakeup_ms(5) is None


def test_nothing_is_committed_after_offsets_were_refused() -> None:
    driver = Driver(CommitOffsets)
    for _ in range(4):
        driver.turn(records=3)
    driver.answer(Refused(codes.ILLEGAL_GENERATION))
    assert driver.turn(records=3) == []
    assert EndTransaction not in kinds(driver.sent)
    assert driver.loop.outcome is not None
    assert driver.loop.outcome.end is End.PLAN_OVER


def test_an_end_without_an_answer_is_not_sent_again_but_starts_again() -> None:
    driver = Driver(EndTransaction)
    for _ in range(4):
        driver.turn(records=3)
    assert kinds(driver.kept) == [EndTransaction]
    driver.answer(Lost())
    assert driver.loop.phase is Phase.PAUSED
    begun_again = []
    for _ in range(20):
        begun_again += kinds(driver.turn())
    assert begun_again[:2] == [TakeId, ReadPositions]
    assert EndTransaction not in begun_again


def test_a_late_answer_of_an_earlier_start_changes_nothing() -> None:
    driver = Driver(EndTransaction)
    for _ in range(4):
        driver.turn(records=3)
    late = driver.kept[0]
    driver.answer(Lost())
    for _ in range(20):
        driver.turn()
    driver.loop.answer(late, Done(TransactionIdentity("id-0", 1, 99)), driver.now_ms)
    assert driver.loop.totals.transactions == 0
    assert driver.loop.phase is Phase.RUNNING


def test_a_loop_that_never_began_stops_at_once() -> None:
    driver = Driver()
    driver.loop.stop()
    assert driver.turn() == []
    assert driver.loop.has_ended


def test_a_stop_after_a_fault_takes_the_ids_so_that_nothing_stays_open() -> None:
    driver = Driver(EndTransaction)
    for _ in range(4):
        driver.turn(records=3)
    driver.answer(Lost())
    driver.loop.stop()
    stopped = []
    for _ in range(20):
        stopped += kinds(driver.turn())
    assert stopped == [TakeId]
    assert driver.loop.outcome is not None
    assert driver.loop.outcome.end is End.STOPPED


def test_faults_without_a_transaction_between_them_end_the_loop() -> None:
    driver = Driver(TakeId)
    for _ in range(10_000):
        driver.turn()
        if driver.loop.has_ended:
            break
        if driver.kept:
            driver.answer(Lost("the network is gone"))
    assert driver.loop.outcome is not None
    assert driver.loop.outcome.end is End.FAILED
    assert "the network is gone" in driver.loop.outcome.what


@pytest.mark.parametrize("stage", [Produce, CommitOffsets, EndTransaction])
def test_with_two_lanes_a_stage_waits_for_that_of_the_transaction_before(stage: type[Request]) -> None:
    driver = Driver(stage, lanes=2)
    for _ in range(10):
        driver.turn(records=2)
    first = driver.kept[0]
    assert isinstance(first, (Produce, CommitOffsets, EndTransaction))
    of_other_lane = [each for each in driver.kept if _lane(each) != _lane(first)]
    assert of_other_lane == []
    while driver.kept:
        driver.loop.answer(driver.kept[0], driver.reply(driver.kept.pop(0), 2), driver.now_ms)
    driver.turn(records=2)
    assert {_lane(each) for each in driver.kept} - {_lane(first)}, "then it is its turn"


def _lane(request: Request) -> str | None:
    assert isinstance(request, (Produce, CommitOffsets, EndTransaction))
    return request.identity.transactional_id
