"""Batches of two queries that have read the same records are found, and what they wrote is compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.shadow_note import NAME, ShadowNote, read_note
from penstock.observe.verify.shadow import compare as compare_module
from penstock.observe.verify.shadow.compare import Comparison, Outcome, compare
from penstock.observe.verify.shadow.ranges import History, Side, groups, side_of, without_counterpart
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.receipt import Facts, Receipt
from penstock.types import OffsetRange, TopicPartition
from tests.unit.fake_driver import driver, run_task, with_spans
from tests.unit.sink_cluster import TARGET, SinkCluster
from tests.unit.virtual_time import client_waits_in_virtual_time

ONE, TWO = TopicPartition("source", 0), TopicPartition("source", 1)
START = {ONE: 0, TWO: 0}


@pytest.fixture(autouse=True)
def _virtual_time() -> Iterator[None]:
    with client_waits_in_virtual_time():
        yield


def _receipt(
    batch_id: int,
    read: dict[TopicPartition, tuple[int, int]] | None,
    previous: int | None,
    idle: tuple[OffsetRange, ...] | None = None,
) -> Receipt:
    ranges = None if read is None else tuple(OffsetRange(at, *each) for at, each in sorted(read.items()))
    return Receipt("query", batch_id, 0, (), read=ranges, previous=previous, idle=idle)


def _history(receipts: Sequence[Receipt], first: int = 1, decided: int | None = None) -> History:
    newest = receipts[-1].batch_id if receipts else -1
    return History(receipts, {}, newest if decided is None else decided, first)


_CUTS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=8)


def _side_through(cuts: list[tuple[int, int]], silent: set[int], end: tuple[int, int]) -> Side:
    """Return a query that reads up to an end, in batches that end at these cuts. Some wrote nothing."""
    places = sorted({each for each in cuts if each[0] <= end[0] and each[1] <= end[1]} | {end})
    chain = [(0, 0)]
    for each in places:
        if each[0] >= chain[-1][0] and each[1] >= chain[-1][1]:
            chain.append(each)
    receipts, previous, begin = list[Receipt](), None, None
    for batch_id, (before, after) in enumerate(pairwise(chain), start=1):
        if batch_id in silent and batch_id + 1 < len(chain):
            begin = begin or before
            continue
        idle = None
        if begin is not None:
            idle = tuple(OffsetRange(at, begin[at.partition], before[at.partition]) for at in (ONE, TWO))
        read = {ONE: (before[0], after[0]), TWO: (before[1], after[1])}
        read = {at: each for at, each in read.items() if each[1] > each[0]}
        receipts.append(_receipt(batch_id, read, previous, idle))
        previous, begin = batch_id, None
    return side_of(START, _history(receipts))


@given(_CUTS, _CUTS, st.sets(st.integers(1, 8)), st.sets(st.integers(1, 8)))
def test_batches_of_a_group_have_read_the_same_and_all_are_in_one_group(
    live_cuts: list[tuple[int, int]], shadow_cuts: list[tuple[int, int]], idle: set[int], other_idle: set[int]
) -> None:
    live = _side_through(live_cuts, idle, (8, 8))
    shadow = _side_through(shadow_cuts, other_idle, (8, 8))
    found = list(groups(live, shadow))
    assert found, "both end at the same offsets"
    position = dict(START)
    for each in found:
        for read in each.read:
            assert read.starting_offset == position[read.topic_partition]
            position[read.topic_partition] = read.stopping_offset
    assert position == {ONE: 8, TWO: 8}
    for number, side in enumerate((live, shadow)):
        written = [receipt for each in found for receipt in each.written[number]]
        assert written == [receipt for _, receipt in side.batches if receipt is not None]


def test_groups_end_where_both_have_been_at_the_same_position() -> None:
    first, second, third = {ONE: (0, 2)}, {ONE: (2, 4), TWO: (0, 1)}, {TWO: (1, 5)}
    live = side_of(START, _history([_receipt(1, first, 0), _receipt(2, second, 1), _receipt(3, third, 2)]))
    receipts = [_receipt(1, {ONE: (0, 4), TWO: (0, 1)}, None), _receipt(2, {TWO: (1, 3)}, 1)]
    shadow = side_of(START, _history(receipts))
    (group,) = groups(live, shadow)
    assert (group.live, group.shadow) == ((1, 2), (1, 1))
    assert group.read == (OffsetRange(ONE, 0, 4), OffsetRange(TWO, 0, 1))


@pytest.mark.parametrize(
    ("receipts", "decided", "why"),
    [
        ([_receipt(1, {ONE: (0, 2)}, 0), _receipt(3, {ONE: (4, 6)}, 2)], 3, "batch 2 has no receipt"),
        (
            [_receipt(1, {ONE: (0, 2)}, 0), _receipt(3, {ONE: (4, 6)}, None)],
            3,
            "between 1 and 3 have no receipt",
        ),
        ([_receipt(1, {ONE: (0, 2)}, 0), _receipt(3, {ONE: (4, 6)}, 1)], 3, "the batches between 1 and 3"),
        ([_receipt(1, {ONE: (0, 2)}, 0), _receipt(2, None, 1)], 2, "says what batch 2 has read"),
        (
            [_receipt(1, {ONE: (0, 2)}, 0), _receipt(2, {ONE: (1, 3)}, 1)],
            2,
            "batch 2 has read source-0 again",
        ),
    ],
)
def test_what_is_unknown_ends_the_comparison(receipts: list[Receipt], decided: int, why: str) -> None:
    side = side_of(START, _history(receipts, decided=decided))
    assert side.stopped is not None
    assert why in side.stopped
    assert len(side.batches) == 1


def test_batches_that_wrote_nothing_are_known_by_the_checkpoint_unless_one_was_decided() -> None:
    receipts, positions = [_receipt(1, {ONE: (0, 2)}, None)], {1: {ONE: 2, TWO: 0}, 2: {ONE: 7, TWO: 0}}
    side = side_of(START, History(receipts, positions, decided=1, first=1))
    assert (side.cuts[-1], side.stopped) == ({ONE: 7, TWO: 0}, None)
    side = side_of(START, History(receipts, positions, decided=2, first=1))
    assert side.stopped == "batch 2 has no receipt"
    side = side_of(START, History([], positions, decided=-1, first=1))
    assert [batch_id for batch_id, _ in side.batches] == [1, 2]


def test_batches_before_a_return_from_another_prefix_are_unknown() -> None:
    positions = {number: {ONE: number, TWO: 0} for number in (1, 2, 3)}
    receipts = [_receipt(1, {ONE: (0, 1)}, 0), _receipt(3, {ONE: (2, 3)}, None)]
    side = side_of(START, History(receipts, positions, decided=3, first=1))
    assert (side.stopped, len(side.batches)) == ("batch 2 has no receipt", 1)
    # The receipt before it may be older than what is compared.
    idle = (OffsetRange(ONE, 0, 2),)
    receipts = [_receipt(1, {ONE: (0, 1)}, 0), _receipt(4, {ONE: (2, 3)}, None, idle)]
    side = side_of({ONE: 1}, _history(receipts, first=2))
    assert side.stopped == "it is unknown what the batches between 1 and 4 have read"
    side = side_of({ONE: 2}, _history(receipts, first=4))
    assert (side.stopped, len(side.batches)) == (None, 1)
    side = side_of({ONE: 0}, _history(receipts[1:], first=0))
    assert (side.stopped, len(side.batches)) == (None, 1), "it has never written before"


def test_batches_after_the_last_group_that_did_nothing_are_not_called_without_a_counterpart() -> None:
    positions = {number: {ONE: end, TWO: 0} for number, end in ((1, 2), (2, 2), (3, 2), (4, 5))}
    side = side_of(START, History([_receipt(1, {ONE: (0, 2)}, None)], positions, decided=1, first=1))
    assert without_counterpart(side, 1) == [4]
    assert without_counterpart(side, 4) == []
    assert without_counterpart(side, -1) == [1, 2, 3, 4]


# ----- what was written


def _write(
    cluster: SinkCluster, prefix: str, batch_id: int, read: tuple[int, int], rows: list[list[str]]
) -> None:
    side = driver(cluster, prefix)
    mandate = side.recover()
    reports = [
        run_task(cluster, mandate, batch_id, number, query_id=f"of {prefix}", rows=some)
        for number, some in enumerate(rows)
    ]
    side.commit(with_spans(reports), facts=Facts("0.1.0", "4.2.1", (OffsetRange(ONE, *read),)))


def _compared(
    cluster: SinkCluster, unfinished: dict[tuple[str, int], str] | None = None, *, has_state: bool = False
) -> Comparison:
    sides = []
    for prefix in ("app", "beside"):
        log = DecisionLog(cluster.log_store, prefix)
        assert log.open(create=False)
        sides.append(side_of({ONE: 0}, _history(log.receipts())))
    columns = ("key", "value", "headers")
    return compare(
        cluster.client.connections, sides[0], sides[1], columns, unfinished or {}, has_state=has_state
    )


def test_equal_rows_in_other_batches_and_tasks_are_equal_and_others_are_named() -> None:
    cluster = SinkCluster()
    _write(cluster, "app", 1, (0, 2), [["a", "b"], ["c"]])
    _write(cluster, "app", 2, (2, 3), [["d", "d"]])
    _write(cluster, "beside", 1, (0, 3), [["d"], ["c", "b"], ["a", "d"]])
    found = _compared(cluster)
    assert (found.outcome, [each.live.record_count for each in found.groups]) == (Outcome.EQUAL, [5])
    _write(cluster, "app", 3, (3, 5), [["e", "f", "f"]])
    _write(cluster, "beside", 2, (3, 5), [["f", "g"]])
    found = _compared(cluster)
    assert [each.outcome for each in found.groups] == [Outcome.EQUAL, Outcome.DIFFERS]
    rows = sorted((row.kind, _value_at(cluster, row.live or row.shadow)) for row in found.groups[1].rows)
    assert rows == [("more-often", "f"), ("only-live", "e"), ("only-shadow", "g")]
    (often,) = (row for row in found.groups[1].rows if row.kind == "more-often")
    assert often.text.startswith(
        "The running job has written the record without a key 2 times, and the shadow 1 times: the last one "
        "of the running job is at offset"
    )
    assert often.to_json()["times"] == {"live": 2, "shadow": 1}
    (shadow,) = (row for row in found.groups[1].rows if row.shadow)
    assert shadow.shadow is not None
    assert shadow.shadow.batch_id == 2
    assert shadow.text.startswith("Only the shadow has written the record without a key at offset")


def _value_at(cluster: SinkCluster, place: object) -> str:
    assert isinstance(place, tuple)
    topic_partition, offset, _ = place
    assert topic_partition == TARGET
    with cluster.kafka.log(TARGET.topic) as log:
        batches = list(log.batches)
    (found,) = (each for each in batches if each.base_offset <= offset <= each.last_offset)
    from tests.unit.sink_cluster import _values  # noqa: PLC0415 - beside the only use

    return _values(found.data, offset, offset + 1)[0]


def test_jobs_with_a_state_may_differ_where_they_have_read_in_other_batches() -> None:
    cluster = SinkCluster()
    _write(cluster, "app", 1, (0, 2), [["a"]])
    _write(cluster, "app", 2, (2, 3), [["b"]])
    _write(cluster, "beside", 1, (0, 3), [["b"]])
    (group,) = _compared(cluster, has_state=True).groups
    assert (group.outcome, group.rows) == (Outcome.NOT_COMPARED, [])
    assert "both keep a state and have read these records in other batches" in (group.why or "")
    assert _compared(cluster).outcome is Outcome.DIFFERS
    _write(cluster, "app", 3, (3, 5), [["c"]])
    _write(cluster, "beside", 2, (3, 5), [["c"]])
    assert [each.outcome for each in _compared(cluster, has_state=True).groups] == [
        Outcome.NOT_COMPARED,
        Outcome.EQUAL,
    ]
    _write(cluster, "app", 4, (5, 6), [["d"]])
    _write(cluster, "beside", 3, (5, 6), [["e"]])
    assert _compared(cluster, has_state=True).outcome is Outcome.DIFFERS, "each has read it in one batch"


def test_the_note_of_a_shadow_says_whether_it_has_a_state(tmp_path: Path) -> None:
    note = ShadowNote("query", "app", "orders", 3, 3, "app-shadow", "beside", {})
    for has_state in (False, True):
        (tmp_path / NAME).write_text(replace(note, has_state=has_state).text())
        assert read_note(tmp_path) == replace(note, has_state=has_state)
    assert "has_state" not in note.text(), "other versions can read it"


def test_what_cannot_be_read_again_is_not_called_equal() -> None:
    cluster = SinkCluster()
    for prefix in ("app", "beside"):
        _write(cluster, prefix, 1, (0, 2), [["a", "b"]])
    assert _compared(cluster, {("of beside", 1): "lost"}).groups[0].why == "of the shadow, batch 1 is lost"
    with cluster.kafka.log(TARGET.topic) as log:
        log.delete_before(1)
    (group,) = _compared(cluster).groups
    assert group.outcome is Outcome.NOT_COMPARED
    assert group.why is not None
    assert "of the running job, batch 1 has written 2 records, and 1 can be read now: retention" in group.why
    assert _compared(cluster).outcome is Outcome.NOT_COMPARED


def test_a_record_that_is_deleted_between_two_readings_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SinkCluster()
    _write(cluster, "app", 1, (0, 2), [["a", "b"]])
    _write(cluster, "beside", 1, (0, 2), [["a", "c"]])
    keys_of = compare_module._keys

    def keys(*arguments: Any) -> Any:
        with cluster.kafka.log(TARGET.topic) as log:
            log.delete_before(2)  # those of the running job
        return keys_of(*arguments)

    monkeypatch.setattr(compare_module, "_keys", keys)
    (group,) = _compared(cluster).groups
    assert (group.outcome, group.more_rows) == (Outcome.DIFFERS, True)
    assert [row.kind for row in group.rows] == ["only-shadow"]


def test_a_side_that_is_cut_is_not_called_equal() -> None:
    cluster = SinkCluster()
    for prefix in ("app", "beside"):
        _write(cluster, prefix, 1, (0, 2), [["a", "b"]])
    assert _compared(cluster).outcome is Outcome.EQUAL
    _write(cluster, "app", 3, (4, 5), [["c"]])  # nothing says what batch 2 has read
    found = _compared(cluster)
    assert ([each.outcome for each in found.groups], found.outcome) == ([Outcome.EQUAL], Outcome.NOT_COMPARED)
    assert "it is unknown what the batches between 1 and 3 have read" in found.notes[0]


def test_a_receipt_that_says_too_little_is_not_compared() -> None:
    cluster = SinkCluster()
    for prefix in ("app", "beside"):
        _write(cluster, prefix, 1, (0, 2), [["a", "b"]])
    log = DecisionLog(cluster.log_store, "app")
    assert log.open(create=False)
    (receipt,) = log.receipts()
    for changed, why in (
        (
            replace(receipt, transactions=(replace(receipt.transactions[0], spans=()),)),
            "where its records are",
        ),
        (replace(receipt, taken_lost=1), "taken as written by hand"),
    ):
        side = side_of({ONE: 0}, _history([changed]))
        found = compare(cluster.client.connections, side, side, ("key", "value"), {})
        assert found.outcome is Outcome.NOT_COMPARED
        assert why in (found.groups[0].why or "")
