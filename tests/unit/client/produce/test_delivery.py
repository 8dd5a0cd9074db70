"""Single rules of delivery, by example; `test_producer_delivery_model` tries them all against each other."""

from __future__ import annotations

import pytest

from penstock.client.produce.batches import FORGOTTEN_AFTER_MS, REFUSALS_MAX, ProducerBatch
from penstock.client.produce.delivery import Answer, DeliveryLimits, DeliveryQueue, PlannedRequest
from penstock.client.produce.idempotence import SEQUENCE_LIMIT, ProducerIdentity, SequenceNumbers
from penstock.client.produce.verdicts import Verdict
from penstock.types import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
OUT_OF_ORDER = 45
DUPLICATE = 46
NOT_LEADER = 6
NOT_ENOUGH_REPLICAS = 19


class Driver:
    """A delivery queue with a clock, and one leader for everything unless told otherwise."""

    def __init__(self, *, is_known: bool = True, **limits: int | bool) -> None:
        self.now_ms = 0
        is_idempotent = bool(limits.setdefault("is_idempotent", True))
        self.delivery = DeliveryQueue(DeliveryLimits(**limits), jitter=lambda: 1.0)  # type: ignore[arg-type]
        self.sequences = SequenceNumbers(ProducerIdentity(7, 0) if is_idempotent else ProducerIdentity())
        self.leaders = {TP: 1, OTHER: 1}
        self.next_offsets = {TP: 0, OTHER: 0}
        if is_known:
            for tp in (TP, OTHER):
                self.add(tp)
            while requests := self.send():
                for request in requests:
                    self.acknowledge(request)

    def add(
        self, tp: TopicPartition = TP, *, is_forgettable: bool = False, size_bytes: int = 100
    ) -> ProducerBatch:
        batch = ProducerBatch(tp, b"x" * size_bytes, 10, self.sequences.take(tp, 10), self.now_ms)
        batch.is_forgettable = is_forgettable
        self.delivery.add(batch)
        return batch

    def send(self, after_ms: int = 0) -> list[PlannedRequest]:
        self.now_ms += after_ms
        return self.delivery.plan(self.now_ms, self.leaders.get)

    def would_send(self, tp: TopicPartition) -> bool:
        return self.delivery.would_send(tp, self.now_ms, self.leaders[tp])

    def acknowledge(self, request: PlannedRequest) -> None:
        self.answer(request, 0)

    def answer(self, request: PlannedRequest, error_code: int) -> Verdict:
        """Answer all batches of a request alike."""
        self.delivery.request_done(request)
        verdicts = []
        for batch in request.batches.values():
            base_offset = -1 if error_code else self.next_offsets[batch.topic_partition]
            self.next_offsets[batch.topic_partition] += 0 if error_code else batch.record_count
            verdicts.append(self.delivery.answer(batch, Answer(error_code, base_offset), self.now_ms))
        return verdicts[-1]

    def lose(self, *requests: PlannedRequest) -> None:
        for request in requests:
            self.delivery.request_done(request)
            for batch in request.batches.values():
                self.delivery.no_answer(batch, self.now_ms, "connection lost")

    def search(self, *found: ProducerBatch) -> bool:
        [(tp, from_offset)] = self.delivery.doubts(self.now_ms)
        assert from_offset == self.next_offsets[tp]
        end_offsets = {batch.base_sequence: from_offset + 10 for batch in found}
        return self.delivery.settle_search(tp, end_offsets, self.now_ms)


def batches_of(requests: list[PlannedRequest]) -> list[ProducerBatch]:
    return [batch for request in requests for batch in request.batches.values()]


# ----- what is sent


def test_nothing_to_send_makes_no_request() -> None:
    driver = Driver(is_known=False)
    assert driver.send() == []
    assert driver.delivery.is_empty
    assert driver.delivery.next_wakeup_ms() is None


def test_one_request_carries_batches_of_several_topic_partitions() -> None:
    driver = Driver()
    first, second = driver.add(TP), driver.add(OTHER)
    [request] = driver.send()
    assert request.batches == {TP: first, OTHER: second}
    assert request.size_bytes == 200


def test_a_request_stays_below_its_largest_size() -> None:
    driver = Driver(max_request_size_bytes=150)
    batches = [driver.add(TP), driver.add(OTHER)]
    requests = driver.send()
    assert [list(request.batches.values()) for request in requests] == [[batches[0]], [batches[1]]]


def test_a_batch_larger_than_a_request_travels_alone() -> None:
    driver = Driver(max_request_size_bytes=50)
    batch = driver.add(TP)
    [request] = driver.send()
    assert request.batches == {TP: batch}


def test_a_request_carries_one_batch_of_each_topic_partition() -> None:
    driver = Driver()
    batches = [driver.add() for _ in range(3)]
    requests = driver.send()
    assert [list(request.batches.values()) for request in requests] == [[batch] for batch in batches]


def test_five_requests_are_under_way_to_a_broker() -> None:
    driver = Driver()
    batches = [driver.add() for _ in range(7)]
    requests = driver.send()
    assert batches_of(requests) == batches[:5]
    assert driver.send() == []
    driver.acknowledge(requests[0])
    assert batches_of(driver.send()) == [batches[5]]


def test_brokers_have_requests_under_way_of_their_own() -> None:
    driver = Driver(max_in_flight=1)
    driver.leaders[OTHER] = 2
    batches = [driver.add(TP), driver.add(OTHER)]
    requests = driver.send()
    assert batches_of(requests) == batches
    assert {request.node_id for request in requests} == {1, 2}


def test_no_topic_partition_starves() -> None:
    driver = Driver(max_in_flight=1, max_request_size_bytes=100)
    for _ in range(3):
        driver.add(TP)
    other = driver.add(OTHER)
    [request] = driver.send()
    driver.acknowledge(request)
    assert batches_of(driver.send()) == [other]


def test_what_would_be_sent_is_known_beforehand() -> None:
    driver = Driver(max_in_flight=2)
    assert driver.would_send(TP)
    driver.add(TP)
    assert not driver.would_send(TP), "it would wait for the one before it to be planned"
    [first] = driver.send()
    assert all(map(driver.would_send, (TP, OTHER)))
    driver.leaders[TP] = 2
    assert not driver.would_send(TP), "the old leader's answer is awaited"
    driver.leaders[TP] = 1
    driver.add(TP)
    [second] = driver.send()
    assert not any(map(driver.would_send, (TP, OTHER))), "two requests are under way"
    driver.leaders[OTHER] = 2
    assert driver.would_send(OTHER), "to another broker none is"
    driver.acknowledge(first)
    assert driver.would_send(TP)
    driver.lose(second)
    assert not driver.would_send(TP), "what was lost goes before"


def test_nothing_goes_behind_the_first_batch_of_a_producer_and_that_is_known_beforehand() -> None:
    driver = Driver(is_known=False)
    assert driver.would_send(TP)
    driver.add(TP)
    [request] = driver.send()
    assert [driver.would_send(tp) for tp in (TP, OTHER)] == [False, True]
    driver.acknowledge(request)
    assert driver.would_send(TP)


def test_one_batch_without_a_leader_is_taken_so_that_one_is_asked_for() -> None:
    driver = Driver()
    assert driver.delivery.would_send(TP, driver.now_ms, None)
    driver.add(TP)
    assert not driver.delivery.would_send(TP, driver.now_ms, None)


def test_a_topic_partition_without_leader_waits_and_is_named() -> None:
    driver = Driver()
    del driver.leaders[TP]
    driver.add(TP)
    other = driver.add(OTHER)
    assert batches_of(driver.send()) == [other]
    assert driver.delivery.leaderless(driver.leaders.get) == {"t"}


def test_memory_is_given_back_with_the_acknowledgement() -> None:
    driver = Driver()
    driver.add(size_bytes=700)
    [request] = driver.send()
    assert driver.delivery.unacknowledged_bytes == 700
    driver.acknowledge(request)
    assert driver.delivery.unacknowledged_bytes == 0
    assert driver.delivery.acknowledged_record_count == 30  # two batches made the producer known
    assert driver.delivery.acknowledged_bytes == 900


# ----- order


def test_the_first_batch_of_a_producer_travels_alone() -> None:
    driver = Driver(is_known=False)
    batches = [driver.add() for _ in range(3)]
    [request] = driver.send()
    assert batches_of([request]) == batches[:1]
    driver.acknowledge(request)
    assert batches_of(driver.send()) == batches[1:]


def test_without_idempotence_the_first_batches_travel_together() -> None:
    driver = Driver(is_known=False, is_idempotent=False)
    batches = [driver.add() for _ in range(3)]
    assert batches_of(driver.send()) == batches
    assert {batch.base_sequence for batch in batches} == {-1}


def test_the_first_batch_after_a_long_pause_travels_alone() -> None:
    driver = Driver()
    driver.now_ms += FORGOTTEN_AFTER_MS + 1
    batches = [driver.add() for _ in range(2)]
    assert batches_of(driver.send()) == batches[:1]


def test_batches_with_old_timestamps_travel_one_by_one() -> None:
    driver = Driver()
    old = driver.add(is_forgettable=True)
    following = [driver.add() for _ in range(3)]
    [request] = driver.send()
    assert batches_of([request]) == [old]
    driver.acknowledge(request)
    [request] = driver.send()
    assert batches_of([request]) == following[:1]
    driver.acknowledge(request)
    assert batches_of(driver.send()) == following[1:]


def test_later_batches_go_again_after_the_one_that_failed() -> None:
    driver = Driver()
    batches = [driver.add() for _ in range(3)]
    first, second, third = driver.send()
    data = [batch.data for batch in batches]
    assert driver.answer(first, NOT_ENOUGH_REPLICAS) is Verdict.RETRY
    driver.add()
    assert driver.send(after_ms=100) == [], "a resend may not overtake what is under way"
    assert driver.answer(second, OUT_OF_ORDER) is Verdict.RETRY
    assert driver.answer(third, OUT_OF_ORDER) is Verdict.RETRY
    again = batches_of(driver.send(after_ms=100))
    assert again[:3] == batches
    assert all(batch.data is bytes_before for batch, bytes_before in zip(again, data, strict=False))


def test_a_window_of_five_batches_is_counted_from_the_first_unacknowledged() -> None:
    driver = Driver()
    batches = [driver.add() for _ in range(8)]
    requests = driver.send()
    driver.answer(requests[0], 7)  # written, but its followers were slow
    for request in requests[1:]:
        driver.acknowledge(request)
    assert batches_of(driver.send(after_ms=100)) == [batches[0]], "the sixth would push it out of the memory"


def test_a_new_leader_gets_nothing_before_the_old_one_has_answered() -> None:
    driver = Driver()
    driver.add()
    [request] = driver.send()
    driver.leaders[TP] = 2
    later = driver.add()
    assert driver.send() == []
    driver.acknowledge(request)
    [request] = driver.send()
    assert request.node_id == 2
    assert batches_of([request]) == [later]


def test_a_moved_leader_is_asked_for_and_the_batch_goes_there() -> None:
    driver = Driver()
    batch = driver.add()
    [request] = driver.send()
    assert driver.answer(request, NOT_LEADER) is Verdict.RETRY_ELSEWHERE
    driver.leaders[TP] = 2
    [request] = driver.send(after_ms=100)
    assert (request.node_id, batches_of([request])) == (2, [batch])


def test_sequence_numbers_go_on_at_zero() -> None:
    sequences = SequenceNumbers(ProducerIdentity(7, 0), {TP: SEQUENCE_LIMIT - 3})
    assert sequences.take(TP, 2) == SEQUENCE_LIMIT - 3
    assert sequences.take(TP, 5) == SEQUENCE_LIMIT - 1
    assert sequences.take(TP, 1) == 4


# ----- what answers mean


def test_a_duplicate_counts_as_written_after_a_resend() -> None:
    driver = Driver()
    driver.add()
    driver.lose(*driver.send())
    [request] = driver.send(after_ms=100)
    assert driver.answer(request, DUPLICATE) is Verdict.ACKNOWLEDGED
    assert driver.delivery.is_empty


def test_a_duplicate_that_was_never_sent_before_is_an_error() -> None:
    driver = Driver()
    driver.add()
    [request] = driver.send()
    assert driver.answer(request, DUPLICATE) is Verdict.FAILED


def test_a_gap_before_a_first_sending_is_an_error() -> None:
    driver = Driver()
    driver.add()
    [request] = driver.send()
    assert driver.answer(request, OUT_OF_ORDER) is Verdict.FAILED


@pytest.mark.parametrize("error_code", [-1, 10, 17, 18, 29, 31, 32, 44, 47, 48, 59, 76, 87, 90, 999])
def test_what_no_resend_heals_is_an_error(error_code: int) -> None:
    driver = Driver()
    driver.add()
    [request] = driver.send()
    assert driver.answer(request, error_code) is Verdict.FAILED


def test_a_batch_damaged_on_every_way_is_an_error() -> None:
    driver = Driver()
    driver.add()
    [request] = driver.send()
    assert driver.answer(request, 2) is Verdict.RETRY
    [request] = driver.send(after_ms=100)
    assert driver.answer(request, 2) is Verdict.RETRY
    [request] = driver.send(after_ms=200)
    assert driver.answer(request, 2) is Verdict.FAILED


# ----- pauses and time-outs


def test_pauses_double_up_to_the_largest_and_begin_anew_after_a_success() -> None:
    driver = Driver(retry_backoff_ms=100, retry_backoff_max_ms=350)
    driver.add()
    pauses_ms = []
    for _ in range(4):
        driver.lose(*driver.send())
        wakeup_ms = driver.delivery.next_wakeup_ms()
        assert wakeup_ms is not None
        pauses_ms.append(wakeup_ms - driver.now_ms)
        assert driver.send(after_ms=pauses_ms[-1] - 1) == []
        driver.now_ms += 1
    assert pauses_ms == [100, 200, 350, 350]
    [request] = driver.send()
    driver.acknowledge(request)
    driver.add()
    driver.lose(*driver.send())
    assert driver.delivery.next_wakeup_ms() == driver.now_ms + 100


def test_a_pause_that_ended_after_the_last_plan_is_not_slept_over() -> None:
    driver = Driver(retry_backoff_ms=1)
    driver.add()
    driver.lose(*driver.send())
    assert driver.send() == []
    resend_at_ms = driver.now_ms + 1
    driver.now_ms += 50
    assert driver.delivery.next_wakeup_ms() == resend_at_ms


def test_batches_that_fail_together_pause_once() -> None:
    driver = Driver(retry_backoff_ms=100)
    for _ in range(5):
        driver.add()
    driver.lose(*driver.send())
    assert driver.delivery.next_wakeup_ms() == driver.now_ms + 100


def test_a_batch_expires_whether_sent_or_not() -> None:
    driver = Driver(delivery_timeout_ms=1_000)
    del driver.leaders[OTHER]
    sent = driver.add(TP)
    driver.send()
    driver.now_ms += 500
    waiting = driver.add(OTHER)
    driver.now_ms += 499
    assert driver.delivery.expired(driver.now_ms) is None
    assert driver.delivery.next_wakeup_ms() == driver.now_ms + 1
    assert driver.delivery.expired(driver.now_ms + 1) is sent
    assert waiting.send_count == 0


# ----- batches in doubt


def test_a_refused_resend_is_searched_for_and_found() -> None:
    driver = Driver()
    batches = [driver.add() for _ in range(2)]
    driver.lose(*driver.send())
    first, second = driver.send(after_ms=100)
    assert driver.answer(first, OUT_OF_ORDER) is Verdict.DOUBT
    assert driver.delivery.doubts(driver.now_ms) == [], "what is under way must be answered first"
    assert driver.answer(second, OUT_OF_ORDER) is Verdict.RETRY
    assert driver.send(after_ms=10_000) == [], "nothing is sent while in doubt"
    assert driver.search(*batches)
    assert driver.delivery.is_empty


def test_only_what_the_log_lacks_is_sent_again() -> None:
    driver = Driver()
    written, missing, later = driver.add(is_forgettable=True), driver.add(), driver.add()
    driver.lose(*driver.send())
    driver.now_ms += 100
    assert driver.search(written)
    assert batches_of(driver.send()) == [missing], "alone: the broker may know nothing of us"
    assert not later.is_under_way


def test_lost_answers_to_old_timestamps_are_searched_for() -> None:
    driver = Driver()
    batch = driver.add(is_forgettable=True)
    driver.lose(*driver.send())
    assert driver.send(after_ms=100) == []
    assert driver.search()
    assert batches_of(driver.send()) == [batch]


def test_the_very_first_batch_has_nowhere_to_be_searched_for() -> None:
    driver = Driver(is_known=False)
    batch = driver.add(is_forgettable=True)
    driver.lose(*driver.send())
    assert batches_of(driver.send(after_ms=100)) == [batch]


def test_a_search_that_cannot_end_now_is_postponed() -> None:
    driver = Driver()
    batch = driver.add(is_forgettable=True)
    driver.lose(*driver.send())
    driver.now_ms += 100
    driver.delivery.postpone_search(TP, driver.now_ms)
    assert driver.delivery.doubts(driver.now_ms) == []
    assert driver.send() == []
    wakeup_ms = driver.delivery.next_wakeup_ms()
    assert wakeup_ms is not None
    driver.now_ms = wakeup_ms
    assert driver.search(batch)
    assert driver.delivery.is_empty


def test_a_later_batch_without_its_predecessor_is_a_loss() -> None:
    driver = Driver()
    batches = [driver.add() for _ in range(2)]
    driver.lose(*driver.send())
    for request in driver.send(after_ms=100):
        driver.answer(request, OUT_OF_ORDER)
    driver.now_ms += 1_000
    assert not driver.search(batches[1])
    assert driver.delivery.first_batch(TP) is batches[0]


def test_a_batch_refused_again_and_again_without_being_there_is_a_loss() -> None:
    driver = Driver()
    driver.add()
    driver.lose(*driver.send())
    outcomes = []
    for _ in range(REFUSALS_MAX):
        [request] = driver.send(after_ms=1_000)
        assert driver.answer(request, OUT_OF_ORDER) is Verdict.DOUBT
        driver.now_ms += 1_000
        outcomes.append(driver.search())
    assert outcomes == [True] * (REFUSALS_MAX - 1) + [False]
