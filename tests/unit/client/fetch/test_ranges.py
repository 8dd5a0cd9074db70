"""Several ranges in one read: requests shared, order kept, and no range stopped by the trouble of another."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.fetch._attempts import Attempts, CallersTime, TryAgain
from penstock.client.fetch.fetcher import OnFailure, WantedRange, fetch_ranges
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.errors import (
    BrokerUnavailableError,
    FetchError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    PenstockError,
)
from penstock.types import OffsetRange, TopicPartition
from tests.examples import examples
from tests.unit.client.fetch.fake_brokers import (
    GONE,
    NOT_LEADER,
    OUT_OF_RANGE,
    UNKNOWN_EPOCH,
    FakeBrokers,
    Log,
    Step,
)

SETTINGS = FetchSettings(default_api_timeout_ms=20_000, fetch_max_wait_ms=1)
UNAUTHORIZED, NOT_AVAILABLE = 29, 78


def tp(number: int) -> TopicPartition:
    return TopicPartition("ab"[number % 2], number // 2)


def whole(cluster: FakeBrokers) -> list[WantedRange]:
    return [WantedRange(OffsetRange(each, log.start, log.end)) for each, log in cluster.logs.items()]


def read(
    cluster: FakeBrokers,
    wanted: Iterable[WantedRange] | None = None,
    *,
    fetch: FetchSettings = SETTINGS,
    on_failure: OnFailure | None = None,
    max_rows: int = 32_768,
    read_committed: bool = False,
    seen: list[tuple[TopicPartition, bytes]] | None = None,
) -> list[tuple[TopicPartition, bytes]]:
    extra: dict[str, Any] = {} if on_failure is None else {"on_failure": on_failure}
    batches = fetch_ranges(
        cast(KafkaConnections, cluster),
        whole(cluster) if wanted is None else list(wanted),
        fetch,
        columns=["topic", "partition", "value"],
        max_rows=max_rows,
        read_committed=read_committed,
        **extra,
    )
    rows = [] if seen is None else seen
    for offset_range, batch in batches:
        for row in batch.to_pylist():
            assert TopicPartition(row["topic"], row["partition"]) == offset_range.topic_partition
            rows.append((offset_range.topic_partition, row["value"]))
    return rows


def by_topic_partition(rows: Iterable[tuple[TopicPartition, bytes]]) -> dict[TopicPartition, list[bytes]]:
    found: dict[TopicPartition, list[bytes]] = {}
    for each, value in rows:
        found.setdefault(each, []).append(value)
    return found


def all_of(cluster: FakeBrokers) -> dict[TopicPartition, list[bytes]]:
    return {each: [b"v%d" % offset for offset in range(log.end)] for each, log in cluster.logs.items()}


def test_the_topic_partitions_of_a_broker_share_requests() -> None:
    cluster = FakeBrokers(logs={tp(number): Log.of(3, 2) for number in range(200)})
    assert by_topic_partition(read(cluster)) == all_of(cluster)
    assert cluster.metadata_count == 1
    assert [len(asked.offsets) for asked in cluster.asked] == [200]


def test_each_broker_gets_a_request_of_its_own() -> None:
    cluster = FakeBrokers(logs={tp(number): Log.of(3, leader_id=number % 3 + 1) for number in range(30)})
    assert by_topic_partition(read(cluster)) == all_of(cluster)
    assert sorted((asked.node_id, len(asked.offsets)) for asked in cluster.asked) == [
        (1, 10),
        (2, 10),
        (3, 10),
    ]


def test_all_responses_together_have_the_size_limit_of_one() -> None:
    logs = {tp(number): Log.of(*[50] * 40, leader_id=number % 3 + 1) for number in range(12)}
    cluster = FakeBrokers(logs=logs)
    limit = 3 << 16
    fetch = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=limit)
    assert by_topic_partition(read(cluster, fetch=fetch)) == all_of(cluster)
    shared = [asked for asked in cluster.asked if len(asked.offsets) > 1]
    assert shared
    assert all(asked.max_bytes <= limit // 3 for asked in shared)
    assert all(asked.brought_bytes <= limit // 3 for asked in cluster.asked[:-3])


def test_a_range_whose_turn_did_not_come_goes_first_in_the_next_request() -> None:
    large = Log.of(1, value=b"x" * 100_000)
    cluster = FakeBrokers(logs={tp(0): large, tp(2): dataclasses.replace(large), tp(4): Log.of(2, 2)})
    fetch = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=70_000)
    rows = read(cluster, fetch=fetch)
    assert Counter(each for each, _ in rows) == {tp(0): 1, tp(2): 1, tp(4): 4}
    assert len(cluster.asked) < 8


def test_the_records_behind_short_ranges_take_no_room() -> None:
    """Ten records of each log, which go on. A response has a few record batches of each."""
    block = Log.of(*[10] * 100, value=b"x" * 800)
    cluster = FakeBrokers(logs={tp(number): dataclasses.replace(block) for number in range(200)})
    rows = read(cluster, [WantedRange(OffsetRange(each, 500, 510)) for each in cluster.logs])
    assert len(rows) == 2_000
    assert len(cluster.asked) <= 2 + 200 * (16 << 10) // (4 << 20)


def test_record_batches_larger_than_expected_share_requests_too() -> None:
    """Ten records of a batch of 200 kB each: as many requests as the bytes need, and few to learn that."""
    block = Log.of(200, value=b"x" * 1_000)
    cluster = FakeBrokers(logs={tp(number): dataclasses.replace(block) for number in range(200)})
    rows = read(cluster, [WantedRange(OffsetRange(each, 50, 60)) for each in cluster.logs])
    assert by_topic_partition(rows).keys() == cluster.logs.keys()
    assert len(rows) == 2_000
    needed = 200 * len(block.batches[0].data) // (4 << 20)
    assert len(cluster.asked) <= 2 * needed


def test_a_range_that_had_its_turn_and_got_nothing_waits_before_it_asks_again() -> None:
    """A broker that cannot give its records now. The others go on without it, and its time runs out."""
    cluster = FakeBrokers(logs={tp(0): Log.of(2), tp(1): Log.of(*[1] * 400)}, batches_per_fetch=1)
    cluster.mute.add(tp(0))
    cluster.settings = dataclasses.replace(
        cluster.settings, retry_backoff_ms=1_000, retry_backoff_max_ms=1_000
    )
    fetch = dataclasses.replace(SETTINGS, default_api_timeout_ms=300, fetch_max_wait_ms=500)
    seen: list[tuple[TopicPartition, bytes]] = []
    with pytest.raises(FetchError, match=r"a-0\[0, 2\) at offset 0 made no progress for 300 ms"):
        read(cluster, fetch=fetch, seen=seen)
    assert len([asked for asked in cluster.asked if tp(0) in asked.offsets]) < 40


def sizes(cluster: FakeBrokers) -> dict[TopicPartition, list[int]]:
    batches = fetch_ranges(cast(KafkaConnections, cluster), whole(cluster), SETTINGS, columns=["value"])
    found: dict[TopicPartition, list[int]] = {}
    for offset_range, batch in batches:
        found.setdefault(offset_range.topic_partition, []).append(batch.num_rows)
    return found


def test_memory_is_not_kept_for_each_range() -> None:
    """With several ranges the records of a response leave at once; a last single range fills its batches."""
    cluster = FakeBrokers(logs={tp(n): Log.of(*[5] * 10) for n in range(3)}, batches_per_fetch=1)
    assert sizes(cluster) == {tp(n): [5] * 10 for n in range(3)}
    cluster = FakeBrokers(logs={tp(0): Log.of(*[1] * 3), tp(1): Log.of(*[1] * 200)}, batches_per_fetch=1)
    assert sizes(cluster) == {tp(0): [1] * 3, tp(1): [1, 1, 198]}


@pytest.mark.parametrize("leader_id", [-1, 9])
def test_a_range_without_a_leader_does_not_stop_the_others(leader_id: int) -> None:
    cluster = FakeBrokers(logs={tp(number): Log.of(2, 2) for number in range(5)})
    cluster.logs[tp(0)].leader_id = leader_id
    if leader_id == 9:
        cluster.trouble = lambda each: GONE if each == tp(0) and cluster.logs[each].leader_id == 9 else None
    seen: list[TopicPartition] = []

    def answer(*args: Any, **kwargs: Any) -> Any:
        if cluster.metadata_count >= 4:
            cluster.logs[tp(0)].leader_id = 2
        return request(*args, **kwargs)

    request = cluster.request
    cluster.request = answer  # type: ignore[method-assign]  # the leader comes back after some looks
    for each, _ in read(cluster):
        seen.append(each)
    assert seen[-4:] == [tp(0)] * 4
    assert Counter(seen) == dict.fromkeys(cluster.logs, 4)


def test_leaders_that_move_are_asked_together_whether_they_have_what_was_read() -> None:
    cluster = FakeBrokers(logs={tp(number): Log.of(*[5] * 8) for number in range(10)}, batches_per_fetch=1)

    def move(_: TopicPartition) -> None:
        if len(cluster.asked) >= 4 and cluster.logs[tp(0)].leader_id == 1:
            for log in cluster.logs.values():
                log.move(2)

    cluster.trouble = move
    assert by_topic_partition(read(cluster)) == all_of(cluster)
    assert [asked.node_id for asked in cluster.asked] == [1, 1, 1, 1, 2, 2, 2, 2, 2]
    assert (cluster.epoch_end_count, cluster.metadata_count) == (1, 1)  # the old leader names the new one


def test_a_log_that_was_cut_back_is_an_error_of_its_range_only() -> None:
    cluster = FakeBrokers(logs={tp(number): Log.of(*[5] * 8) for number in range(3)})
    fetch = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=150)
    failed = []

    def move(each: TopicPartition) -> None:
        if len(cluster.asked) >= 4 and each == tp(1) and not cluster.logs[each].leader_epoch:
            cluster.logs[each].move(3)
            cluster.logs[each].epoch_ends[0] = 0

    def note(offset_range: OffsetRange, error: PenstockError) -> None:
        failed.append((offset_range.topic_partition, type(error)))

    cluster.trouble = move
    rows = by_topic_partition(read(cluster, fetch=fetch, on_failure=note))
    assert failed == [(tp(1), LogTruncatedError)]
    assert rows[tp(0)] == rows[tp(2)] == all_of(cluster)[tp(0)]
    assert rows[tp(1)] == all_of(cluster)[tp(1)][: len(rows[tp(1)])]
    assert 0 < len(rows[tp(1)]) < 40


def test_what_the_caller_decides_about_a_failed_range_counts() -> None:
    """Deleted records: the rest is read; an error that stays: the range is left out; the others are whole."""
    cluster = FakeBrokers(logs={tp(number): Log.of(5, 5) for number in range(4)})
    cluster.logs[tp(1)].start = 5
    cluster.trouble = lambda each: UNAUTHORIZED if each == tp(2) else None
    wanted = [WantedRange(OffsetRange(tp(number), 0, 10)) for number in range(4)]
    errors: dict[TopicPartition, PenstockError] = {}

    def decide(offset_range: OffsetRange, error: PenstockError) -> OffsetRange | None:
        errors[offset_range.topic_partition] = error
        if isinstance(error, OffsetOutOfRangeError):
            return dataclasses.replace(offset_range, starting_offset=error.facts["log_start_offset"])
        return None

    rows = by_topic_partition(read(cluster, wanted, on_failure=decide))
    expected = all_of(cluster)
    assert rows == {tp(0): expected[tp(0)], tp(1): expected[tp(1)][5:], tp(3): expected[tp(3)]}
    assert errors.keys() == {tp(1), tp(2)}


@pytest.mark.parametrize("count", [1, 2])
def test_all_before_an_error_is_yielded_before_it_is_raised(count: int) -> None:
    """Also the rows of the last range, which wait until a batch is full."""
    cluster = FakeBrokers(logs={tp(number): Log.of(3, 3, 3, 3) for number in range(count)})
    fetch = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=150)

    def refuse(each: TopicPartition) -> int | None:
        return UNAUTHORIZED if len(cluster.asked) > 3 and each == tp(0) else None

    cluster.trouble = refuse
    cluster.batches_per_fetch = 1
    seen: list[tuple[TopicPartition, bytes]] = []
    with pytest.raises(PenstockError, match=r"a-0\[0, 12\) at offset \d") as caught:
        read(cluster, fetch=fetch, seen=seen)
    assert caught.value.facts["offset"] > 0
    assert by_topic_partition(seen)[tp(0)] == all_of(cluster)[tp(0)][: caught.value.facts["offset"]]


def test_no_progress_of_one_range_is_an_error_that_names_it() -> None:
    cluster = FakeBrokers(logs={tp(number): Log.of(2) for number in range(3)})
    cluster.trouble = lambda each: NOT_AVAILABLE if each == tp(1) else None
    fetch = dataclasses.replace(SETTINGS, default_api_timeout_ms=200)
    seen: list[tuple[TopicPartition, bytes]] = []
    with pytest.raises(FetchError, match=r"b-0\[0, 2\) at offset 0 made no progress for 200 ms"):
        read(cluster, fetch=fetch, seen=seen)
    assert by_topic_partition(seen).keys() == {tp(0), tp(2)}


def test_a_range_whose_records_are_not_there_yet_does_not_stop_the_others() -> None:
    """What an open transaction holds back, say. It is expected to fill a whole request."""
    cluster = FakeBrokers(logs={tp(number): Log.of(2, 2, 2) for number in range(4)})
    wanted = whole(cluster)
    wanted[0] = WantedRange(OffsetRange(tp(0), 0, 10_000))
    fetch = dataclasses.replace(SETTINGS, default_api_timeout_ms=300, max_partition_fetch_bytes=100)
    seen: list[tuple[TopicPartition, bytes]] = []
    with pytest.raises(FetchError, match=r"a-0\[0, 10000\) at offset 6 made no progress"):
        read(cluster, wanted, fetch=fetch, seen=seen)
    assert by_topic_partition(seen) == all_of(cluster)


def test_a_topic_partition_cannot_be_read_twice_at_once() -> None:
    cluster = FakeBrokers(logs={tp(0): Log.of(2, 2)})
    halves = [WantedRange(OffsetRange(tp(0), 0, 2)), WantedRange(OffsetRange(tp(0), 2, 4))]
    with pytest.raises(ValueError, match="different topic partitions"):
        read(cluster, halves)


def test_empty_ranges_ask_nothing() -> None:
    cluster = FakeBrokers(logs={tp(0): Log.of(2)})
    assert read(cluster, [WantedRange(OffsetRange(tp(0), 2, 2))]) == []
    assert (cluster.asked, cluster.metadata_count) == ([], 0)


Trouble = tuple[str, int]


def _play(cluster: FakeBrokers, script: list[tuple[int, Trouble]]) -> Callable[[TopicPartition], Any]:
    """Answer the n-th time that a topic partition is asked for with trouble; each trouble once."""
    left = dict(script)
    count = 0

    def trouble(each: TopicPartition) -> int | PenstockError | None:
        nonlocal count
        count += 1
        kind, argument = left.pop(count, ("none", 0))
        if kind == "move":
            cluster.logs[each].move(argument % 3 + 1)
        elif kind == "code":
            return (NOT_LEADER, UNKNOWN_EPOCH, NOT_AVAILABLE, -1, OUT_OF_RANGE)[argument % 5]
        elif kind == "lost":
            return BrokerUnavailableError("lost")
        return None

    return trouble


TROUBLE = st.tuples(st.sampled_from(["move", "code", "lost"]), st.integers(0, 14))


@settings(max_examples=examples(40))
@given(
    logs=st.lists(
        st.tuples(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 3)),
        min_size=1,
        max_size=7,
    ),
    cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=7, max_size=7),
    script=st.lists(st.tuples(st.integers(1, 40), TROUBLE), max_size=8),
    limit_bytes=st.sampled_from([80, 200, 1_000, 4 << 20]),
    max_rows=st.sampled_from([1, 3, 32_768]),
    has_topic_ids=st.booleans(),
)
def test_every_record_of_each_range_comes_once_and_in_order_whatever_happens(
    logs: list[tuple[list[int], int]],
    cuts: list[tuple[int, int]],
    script: list[tuple[int, Trouble]],
    limit_bytes: int,
    max_rows: int,
    has_topic_ids: bool,
) -> None:
    cluster = FakeBrokers(
        logs={tp(number): Log.of(*counts, leader_id=node) for number, (counts, node) in enumerate(logs)},
        has_topic_ids=has_topic_ids,
    )
    cluster.trouble = _play(cluster, script)
    wanted = []
    for (each, log), (start, length) in zip(cluster.logs.items(), cuts, strict=False):
        first = start % log.end
        wanted.append(WantedRange(OffsetRange(each, first, first + length % (log.end - first + 1))))
    fetch = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=limit_bytes)
    rows = by_topic_partition(read(cluster, wanted, fetch=fetch, max_rows=max_rows))
    assert rows == {
        offset_range.topic_partition: [
            b"v%d" % offset for offset in range(offset_range.starting_offset, offset_range.stopping_offset)
        ]
        for offset_range, _ in wanted
        if len(offset_range)
    }


STEP = st.one_of(
    st.tuples(st.just("rows"), st.integers(1, 5)),
    st.tuples(st.just("begin"), st.integers(1, 5)),
    st.tuples(st.just("gap"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["abort", "commit"]), st.just(0)),
)


@settings(max_examples=examples(120))
@given(
    logs=st.lists(
        st.tuples(st.lists(STEP, max_size=10), st.integers(1, 3), st.floats(0, 1), st.floats(0, 1)),
        min_size=1,
        max_size=6,
    ),
    script=st.lists(st.tuples(st.integers(1, 30), TROUBLE), max_size=6),
    limit_bytes=st.sampled_from([80, 400, 4 << 20]),
    batches_per_fetch=st.sampled_from([None, 1, 2]),
    read_committed=st.booleans(),
)
def test_ranges_read_together_have_the_rows_of_ranges_read_alone(
    logs: list[tuple[list[Step], int, float, float]],
    script: list[tuple[int, Trouble]],
    limit_bytes: int,
    batches_per_fetch: int | None,
    read_committed: bool,
) -> None:
    """With aborted transactions, gaps, leaders that move, and starts and stops anywhere."""
    made = {
        tp(number): Log.of_steps(steps, leader_id=node) for number, (steps, node, _, _) in enumerate(logs)
    }
    calm = FakeBrokers(logs=copy.deepcopy(made))
    cluster = FakeBrokers(logs=made, batches_per_fetch=batches_per_fetch)
    cluster.trouble = _play(cluster, script)
    wanted = []
    for (each, log), (_, _, one, other) in zip(made.items(), logs, strict=True):
        first, stop = sorted((round(one * log.end), round(other * log.end)))
        wanted.append(WantedRange(OffsetRange(each, first, stop)))
    fetch = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=limit_bytes)
    together = by_topic_partition(read(cluster, wanted, fetch=fetch, read_committed=read_committed))
    alone = {
        one.offset_range.topic_partition: [row for _, row in rows]
        for one in wanted
        if (rows := read(calm, [one], read_committed=read_committed))
    }
    assert together == alone
    if read_committed:
        committed = {
            one.topic_partition: [
                b"v%d" % offset
                for offset in calm.logs[one.topic_partition].committed
                if one.starting_offset <= offset < one.stopping_offset
            ]
            for one, _ in wanted
        }
        assert together == {each: rows for each, rows in committed.items() if rows}


def test_the_time_of_the_caller_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    callers_time = CallersTime()
    attempts = Attempts(cast(KafkaConnections, FakeBrokers()), 10_000, callers_time)
    with callers_time:
        assert attempts.deadline == 110
        now[0] += 4
    now[0] += 1_000
    with callers_time:
        assert attempts.deadline == now[0] + 6
        assert attempts.failed(TryAgain(None), now[0])
        now[0] += 6
        assert not attempts.failed(TryAgain(None), now[0])
        attempts.succeeded()
        assert attempts.deadline == now[0] + 10
