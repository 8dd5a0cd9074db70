"""The caps that narrow the window of a batch: rules for each cap, and for their order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.source._limits import BatchBytes, MinBatchSize, cap_records
from penstock.source._window import Cap, Window, cap_at_stops, narrow
from penstock.source.alignment import Alignment
from penstock.source.enumerator import SplitEnumerator
from penstock.source.kafka_event_times import KafkaRecordClock
from penstock.types import TopicPartition
from tests.unit.planning import source_config, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")

PARTITIONS = st.sampled_from([tp(partition) for partition in range(4)])
OFFSETS = st.integers(0, 1_000)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    begin = draw(st.dictionaries(PARTITIONS, OFFSETS))
    ends = {topic_partition: draw(OFFSETS) for topic_partition in begin if draw(st.booleans())}
    return Window(
        begin,
        ends,
        stops=draw(st.none() | st.fixed_dictionaries(dict.fromkeys(begin, OFFSETS))),
        is_last=draw(st.booleans()),
        may_wait=draw(st.booleans()),
        max_records=draw(st.none() | st.integers(1, 2_000)),
        max_bytes=draw(st.none() | st.integers(1, 100_000)),
    )


def caps_for(window: Window) -> list[Cap]:
    logs = {tp(partition): Log() for partition in range(4)}
    logs |= {topic_partition: Log(0, end, size_bytes=end * 7) for topic_partition, end in window.ends.items()}
    return [
        cap_at_stops,
        MinBatchSize(50, 1_000, lambda: 0).cap,
        BatchBytes(SourceCluster(logs).lookup).cap,
        cap_records,
    ]


@given(windows(), st.integers(0, 3))
def test_a_cap_moves_no_beginning_and_no_end_further(window: Window, index: int) -> None:
    capped = caps_for(window)[index](window)
    assert capped.begin == window.begin
    before, after = window.positions_after, capped.positions_after
    assert after.keys() == before.keys()
    assert all(window.begin[one] <= after[one] <= before[one] for one in after)


@given(windows())
def test_a_backlog_before_the_stops_is_read_however_narrow_the_caps(window: Window) -> None:
    whole = cap_at_stops(window)
    capped = narrow(window, caps_for(window))
    assert not capped.is_put_off, "the first batch of a run does not wait"
    assert capped.backlogs.keys() == whole.backlogs.keys()


def test_a_window_that_is_put_off_is_not_narrowed_further() -> None:
    seen: list[Window] = []

    def put_off(window: Window) -> Window:
        return replace(window, is_put_off=True)

    def look(window: Window) -> Window:
        seen.append(window)
        return window

    assert narrow(Window({tp(0): 0}, {tp(0): 5}), [look, put_off, look]).is_put_off
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({}, True),
        ({"may_wait": False}, False),
        ({"is_last": True}, False),
        ({"stops": {tp(0): 5}}, False),
        ({"stops": {tp(0): 6}}, True),
        ({"ends": {tp(0): 50}}, False),
    ],
)
def test_a_small_batch_waits_unless_nothing_comes_after_it(
    changes: dict[str, dict[TopicPartition, int] | bool], waits: bool
) -> None:
    cap = MinBatchSize(50, 1_000, lambda: 0).cap
    assert not cap(Window({tp(0): 0}, {tp(0): 1}, may_wait=True)).is_put_off
    window = Window({tp(0): 0}, {tp(0): 5}, may_wait=True)
    assert cap(replace(window, **changes)).is_put_off is waits  # type: ignore[arg-type]  # fields by name


def test_the_caps_of_a_query_get_the_new_starts() -> None:
    seen: list[Window] = []

    class Recorder(Alignment):
        def cap(self, window: Window) -> Window:
            seen.append(window)
            return window

    cluster = SourceCluster({tp(0): Log(0, 10)})
    recorder = Recorder(0, 0, KafkaRecordClock(cluster.client.connections, source_config()), lambda: 0)
    enumerator = SplitEnumerator(source_config(fail_on_data_loss=False), cluster.lookup, alignment=recorder)
    first = enumerator.latest_offset(enumerator.initial_offset(), None)
    cluster.truncate(tp(0), 4)
    cluster.add(tp(1), Log(0, 2))
    enumerator.latest_offset(first, None)
    assert [set(window.new_starts) for window in seen] == [set(), {tp(0), tp(1)}]
