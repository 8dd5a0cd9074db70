"""A start reads a decision log backwards to the newest snapshot, and knows all that the log says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.errors import DecisionLogError
from penstock.sink.exactly_once._log_contents import LogContents
from penstock.sink.exactly_once._log_records import (
    NO_QUERY,
    LogLocation,
    LogRecord,
    decode_snapshot,
    encode,
    encode_back,
    encode_moved,
    encode_started,
    key_of,
    moved_key_of,
)
from penstock.sink.exactly_once.committable import Committable
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, Decision, DecisionStatus, Outcome, decide
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.log import DecisionLog
from tests.examples import examples

OURS = "app"
FIRST_READ = 256


class Topic:
    """A topic in memory, with gaps as compaction and control records leave them."""

    topic = "decisions"

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.end = 0
        self.start = 0
        self.reads: list[tuple[int, int]] = []

    def write(self, key: bytes, value: bytes | None) -> None:
        self.records.append(LogRecord(self.end, key, value))
        self.end += 1

    def skip(self, count: int = 1) -> None:
        """Control records, and what is compacted away."""
        self.end += count

    def incarnation(self, *, is_expected: bool) -> str:
        return "first"

    def check_settings(self) -> None:
        """Nothing to object to."""

    def stable_end(self, *, waits: bool) -> int:
        return self.end

    def read(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        if first_offset < self.start:
            raise DecisionLogError("cut back", topic=self.topic)
        self.reads.append((first_offset, end_offset))
        return [each for each in self.records if first_offset <= each.offset < end_offset]


def opened(topic: Topic, prefix: str = OURS) -> DecisionLog:
    log = DecisionLog(topic, prefix)  # type: ignore[arg-type]  # it is only read
    assert log.open(create=False)
    return log


def a_decision(query_id: str, batch_id: int, *, is_finished: bool = True) -> Decision:
    identity = TransactionIdentity("app-0-0", 7, batch_id, TransactionProtocol.V2)
    committable = Committable(identity, 0, 1, str(RecordDigest(1)))
    decision = decide(query_id, batch_id, 1, [committable])
    return decision.settled({committable: Outcome.COMMITTED}) if is_finished else decision


def write_decision(topic: Topic, query_id: str, batch_id: int, prefix: str = OURS) -> None:
    topic.write(key_of(prefix, query_id), encode(a_decision(query_id, batch_id)))
    topic.skip()  # the marker


def write_snapshot(topic: Topic, prefix: str = OURS) -> None:
    """What a driver that knows the whole log writes."""
    contents = from_the_beginning(topic, prefix)
    topic.write(key_of(prefix, NO_QUERY), contents.snapshot(topic.end))
    topic.skip()


def from_the_beginning(topic: Topic, prefix: str = OURS) -> LogContents:
    contents = LogContents(topic.topic, prefix)
    for record in topic.records:
        contents.apply(record)
    return contents


def check_same(topic: Topic, prefix: str = OURS) -> DecisionLog:
    """A start knows what a reading from the beginning knows."""
    log, whole = opened(topic, prefix), from_the_beginning(topic, prefix)
    assert log.catch_up() == whole.decisions()
    assert log.is_started == whole.is_started
    for query_id in "abc":
        assert sorted(log.moved_to(query_id)) == sorted(whole.moved_to(query_id))
    return log


def started(prefix: str = OURS) -> Topic:
    topic = Topic()
    topic.write(key_of(prefix, NO_QUERY), encode_started())
    return topic


@pytest.mark.parametrize("behind", [0, 1, 252, 253, 254, 255, 256, 257, 1278, 1279, 1280, 1281])
def test_snapshot_is_found_on_either_side_of_a_pages_border(behind: int) -> None:
    topic = started()
    write_decision(topic, "a", 1)
    topic.skip(30_000)
    write_decision(topic, "b", 2)
    write_snapshot(topic)
    topic.skip(behind)
    write_decision(topic, "b", 3)
    log = check_same(topic)
    assert [log.decisions[each].batch_id for each in "ab"] == [1, 3]
    assert min(first for first, _ in topic.reads) > 0, "what the snapshot holds is not read"


@pytest.mark.parametrize("distance", [0, 1, 2])
def test_what_lies_between_the_snapshots_offset_and_its_record_counts(distance: int) -> None:
    """`through` is the first offset that the snapshot does not hold."""
    topic = started()
    write_decision(topic, "a", 1)
    contents, through = from_the_beginning(topic), topic.end
    for batch_id in range(distance):
        write_decision(topic, "a", 2 + batch_id)
    topic.write(key_of(OURS, NO_QUERY), contents.snapshot(through))
    log = check_same(topic)
    assert log.decisions["a"].batch_id == 1 + distance


def test_offset_of_a_snapshot_is_the_first_that_it_does_not_hold() -> None:
    topic = started()
    topic.write(key_of(OURS, "a"), encode(a_decision("a", 1)))
    write_snapshot(topic)
    held = decode_snapshot(topic.records[-1].value)
    assert held is not None
    assert held.through == topic.records[-2].offset + 1


def test_log_without_a_snapshot_is_read_whole() -> None:
    topic = started()
    write_decision(topic, "a", 1)
    topic.skip(5_000)
    write_decision(topic, "b", 1)
    check_same(topic)
    assert topic.reads[-1][0] == 0
    assert [first for first, _ in topic.reads[:-1]] == [end for _, end in topic.reads[1:]], (
        "no gap, no overlap"
    )


@pytest.mark.parametrize("control_records", [1, FIRST_READ, 3 * FIRST_READ])
def test_log_whose_end_holds_nothing_that_can_be_read(control_records: int) -> None:
    topic = started()
    write_decision(topic, "a", 1)
    write_snapshot(topic)
    topic.skip(control_records)
    assert check_same(topic).decisions["a"].batch_id == 1


def test_snapshot_of_another_prefix_in_a_shared_topic_is_passed_over() -> None:
    topic = started()
    write_decision(topic, "a", 1)
    write_snapshot(topic)
    topic.write(key_of("other", NO_QUERY), encode_started())
    topic.skip(2_000)
    write_decision(topic, "b", 9, "other")
    write_snapshot(topic, "other")
    assert set(check_same(topic).decisions) == {"a"}
    assert set(check_same(topic, "other").decisions) == {"b"}


def test_older_snapshot_that_a_newer_start_record_has_replaced() -> None:
    """Both have one key, so that compaction leaves the newer, which says nothing."""
    topic = started()
    write_decision(topic, "a", 1)
    topic.skip(1_000)
    topic.write(key_of(OURS, NO_QUERY), encode_started())
    assert check_same(topic).decisions["a"].batch_id == 1


def test_log_that_was_cut_back_before_any_snapshot_is_an_error() -> None:
    topic = started()
    write_decision(topic, "a", 1)
    topic.skip(1_000)
    topic.start = 4
    for _ in range(2):
        with pytest.raises(DecisionLogError, match="cut back"):
            opened(topic).catch_up()


def test_finished_batch_write_that_a_snapshot_holds_does_not_come_back() -> None:
    """Compaction removes tombstones after a while, and the snapshot stays."""
    cluster_log = started()
    write = f"{BATCH_WRITE_PREFIX}1"
    cluster_log.write(key_of(OURS, write), encode(a_decision(write, 0, is_finished=False)))
    write_snapshot(cluster_log)
    appended: list[bytes | None] = []
    cluster_log.append = lambda session, record: appended.append(record[1])  # type: ignore[attr-defined]
    log = opened(cluster_log)
    assert log.catch_up()[write].status is DecisionStatus.DECIDED
    log.append(None, a_decision(write, 0))  # type: ignore[arg-type]
    assert appended[0] is not None


@pytest.mark.parametrize("has_older_tombstone", [False, True])
def test_marker_that_was_taken_back_does_not_come_back(has_older_tombstone: bool) -> None:
    """The same: a snapshot holds the marker, and compaction has removed the tombstones."""
    topic = started()
    theirs = LogLocation("x", "decisions")
    topic.write(moved_key_of(OURS, "a", "x"), encode_moved(theirs))
    write_snapshot(topic)
    assert opened(topic).catch_up() == {}
    appended: list[tuple[bytes, bytes | None]] = []
    topic.append = lambda session, *records: appended.extend(records)  # type: ignore[attr-defined]
    log = opened(topic)
    log.catch_up()
    assert log.moved_to("a") == [theirs]
    log.append(None, a_decision("a", 0), [theirs])  # type: ignore[arg-type]
    assert log.moved_to("a") == []
    (key, value), _ = appended
    if has_older_tombstone:  # of a development version
        topic.write(key, None)
    else:
        assert value is not None, "compaction would remove it"
        topic.write(key, value)
    assert check_same(topic).moved_to("a") == []
    write_snapshot(topic)
    assert check_same(topic).moved_to("a") == []


def compacted(topic: Topic, dice: random.Random) -> None:
    """Of each key the newest stays; what is older goes, or stays for now. Then tombstones go, or stay."""
    newest = {each.key: each.offset for each in topic.records}
    kept = [each for each in topic.records if newest[each.key] == each.offset or dice.random() < 0.5]
    times: Counter[bytes | None] = Counter(each.key for each in kept)
    topic.records = [
        each for each in kept if each.value is not None or times[each.key] > 1 or dice.random() < 0.5
    ]


@settings(max_examples=examples(150), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_start_knows_what_a_reading_from_the_beginning_knows(seed: int) -> None:
    dice = random.Random(seed)
    topic = started()
    locations = [LogLocation(name, "decisions") for name in ("x", "y")]
    actions: list[Callable[[], Any]] = [
        lambda: write_decision(topic, dice.choice("abc"), dice.randrange(100)),
        lambda: write_decision(topic, dice.choice("abc"), dice.randrange(100), "other"),
        lambda: mark(dice.choice("abc"), dice.choice(locations)),
        lambda: write_snapshot(topic),
        lambda: topic.skip(dice.choice([1, 10, 300, 2_000])),
        lambda: compacted(topic, dice),
    ]

    def mark(query_id: str, location: LogLocation) -> None:
        value = encode_moved(location) if dice.random() < 0.6 else encode_back(location)
        topic.write(moved_key_of(OURS, query_id, location.prefix), value)

    running = opened(topic)
    for _ in range(30):
        dice.choice(actions)()
        if dice.random() < 0.2:
            assert running.catch_up() == check_same(topic).decisions
    check_same(topic)
