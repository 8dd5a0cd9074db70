"""The positions of a task, whatever brokers lead its topic partitions and in whatever order they answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.relay._reader import Reader
from penstock.relay.messages import Done, Fetch, Fetched, Lost
from penstock.types import TopicPartition

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def answer_of(fetch: Fetch, counts: dict[TopicPartition, int]) -> Done:
    """Return an answer with so many records, each of which is named by its start and count."""
    return Done(
        [
            Fetched(each, 0, start + counts[each], range(start, start + counts[each]))
            for each, start in fetch.offsets.items()
        ]
    )


@pytest.mark.parametrize("is_old_first", [True, False])
def test_a_leader_that_moves_while_a_fetch_is_under_way_does_not_double_records(is_old_first: bool) -> None:
    leaders = {HERE: 1}
    reader = Reader({HERE: 10}, leaders.get, 5)
    (old,) = reader.plan(0)
    leaders[HERE] = 2
    (new,) = reader.plan(1)
    answers = [(old, 10), (new, 20)]
    found = [
        each.rows
        for fetch, count in (answers if is_old_first else answers[::-1])
        for each in reader.answer(fetch, answer_of(fetch, {HERE: count}), 2)
    ]
    assert found == [range(10, 20) if is_old_first else range(10, 30)]


def test_a_reader_rests_only_while_every_broker_is_asked_later() -> None:
    reader = Reader(dict.fromkeys((HERE, THERE), 0), {HERE: 1, THERE: 2}.get, 5)
    assert not reader.rests_until(1)
    here, there = reader.plan(0)
    list(reader.answer(here, Done([Fetched(HERE, 0, 1, range(1), size_bytes=100)]), 1))
    assert not reader.rests_until(1)  # the other broker may answer
    list(reader.answer(there, Done([Fetched(THERE, 0, 1, range(1), size_bytes=100)]), 3))
    assert reader.rests_until(5)  # the first broker is asked 5 ms after its answer, less 1 for the next one
    assert not reader.rests_until(6)


def test_a_broker_without_records_is_asked_again_soon_however_long_the_interval_is() -> None:
    reader = Reader({HERE: 0}, {HERE: 1}.get, 15_000)
    (first,) = reader.plan(0)
    list(reader.answer(first, Done([Fetched(HERE, 0, 1, range(1), size_bytes=100)]), 1))
    assert reader.next_wakeup_ms() == 15_000
    (second,) = reader.plan(15_000)
    list(reader.answer(second, Done([]), 15_500))
    assert reader.next_wakeup_ms() == 15_505


@pytest.mark.parametrize(("now_ms", "is_last"), [(18, False), (19, True), (24, True), (25, False)])
def test_a_broker_is_asked_for_a_last_answer_only_around_the_end_of_a_transaction(
    now_ms: int, is_last: bool
) -> None:
    reader = Reader({HERE: 0}, {HERE: 1}.get, 10)
    (fetch,) = reader.plan(now_ms, wanted_at_ms=20)
    assert fetch.is_last is is_last
    assert reader.late_until_ms(20) == (25 if is_last else 20)
    list(reader.answer(fetch, Done([]), now_ms + 1))
    assert reader.late_until_ms(20) == 20
    (fetch,) = Reader({HERE: 0}, {HERE: 1}.get, 10).plan(now_ms)
    assert not fetch.is_last, "there is no transaction that waits"


@given(st.data())
def test_each_record_is_read_once_in_order(data: st.DataObject) -> None:
    leaders = {HERE: 1, THERE: 1}
    reader = Reader(dict.fromkeys(leaders, 0), leaders.get, 5)
    under_way: list[Fetch] = []
    read: dict[TopicPartition, list[int]] = {each: [] for each in leaders}
    for now_ms in range(0, 400, 10):
        if data.draw(st.booleans(), "moves"):
            leaders[data.draw(st.sampled_from([HERE, THERE]))] = data.draw(st.sampled_from([1, 2, 3]))
        under_way += reader.plan(now_ms)
        if not under_way or not data.draw(st.booleans(), "answers"):
            continue
        fetch = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
        if data.draw(st.integers(0, 4)) == 0:
            assert list(reader.answer(fetch, Lost(), now_ms)) == []
            continue
        counts = {each: data.draw(st.integers(0, 3)) for each in fetch.offsets}
        for each in reader.answer(fetch, answer_of(fetch, counts), now_ms):
            read[each.topic_partition] += each.rows
    for offsets in read.values():
        assert offsets == [*range(len(offsets))]
