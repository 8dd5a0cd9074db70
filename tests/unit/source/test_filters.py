"""`scan.filter` on logs with timestamps in any order: all wanted records, and only those."""

from __future__ import annotations

from collections.abc import Mapping

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from penstock.client.cluster.results import Results
from penstock.codec import KAFKA_RECORDS
from penstock.errors import ClientError
from penstock.options.record_filter import Among, Column, RecordFilter, Within
from penstock.source.filters import RecordSelector, narrow
from penstock.types import OffsetRange, TopicPartition

Record = tuple[str, int, int, int]
"""Topic, partition, offset and timestamp (ms)."""

# Without a timestamp a record has -1.
times_ms = st.lists(st.integers(-1, 12), max_size=12)
logs = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 2)), times_ms, max_size=4
)
numbers = st.integers(0, 13)
bounds = st.none() | numbers
conditions = st.one_of(
    st.builds(Within, st.sampled_from([Column.PARTITION, Column.OFFSET, Column.TIMESTAMP]), bounds, bounds),
    st.builds(
        Among,
        st.sampled_from([Column.PARTITION, Column.OFFSET, Column.TIMESTAMP]),
        st.frozensets(numbers, min_size=1, max_size=3),
        st.booleans(),
    ),
    st.builds(Among, st.just(Column.TOPIC), st.frozensets(st.sampled_from("abc"), min_size=1), st.booleans()),
)
filters = st.lists(conditions, min_size=1, max_size=3).map(tuple)
Logs = Mapping[TopicPartition, list[int]]


def _satisfies(record: Record, wanted: RecordFilter) -> bool:
    topic, *rest = record
    columns = (Column.PARTITION, Column.OFFSET, Column.TIMESTAMP)
    numbers = dict(zip(columns, rest, strict=True))
    for one in wanted:
        if isinstance(one, Among):
            if (numbers.get(one.column, topic) in one.values) is one.is_negated:
                return False
            continue
        number = numbers[one.column]
        if (one.low is not None and number < one.low) or (one.high is not None and number >= one.high):
            return False
    return True


def _broker(asked: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
    raise AssertionError(f"the broker is asked for {asked}")


def _first_not_older(kept: Logs, asked: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
    """Answer as a broker does: the first offset whose record is not older."""
    found = {}
    for topic_partition, time_ms in asked.items():
        later = [offset for offset, ms in enumerate(kept[topic_partition]) if ms >= time_ms]
        if later:
            found[topic_partition] = later[0]
    return Results(found)


def _read(kept: Logs, ranges: list[OffsetRange], wanted: RecordFilter) -> list[Record]:
    """Read ranges as a task does, in batches of four records."""
    reader = RecordSelector(wanted, ["topic", "partition", "offset", "timestamp"])
    schema = pa.schema([KAFKA_RECORDS.field(name) for name in reader.columns])
    found: list[Record] = []
    for one in ranges:
        records = [
            (*one.topic_partition, offset, kept[one.topic_partition][offset] * 1000)
            for offset in range(one.starting_offset, one.stopping_offset)
        ]
        for start in range(0, len(records), 4):
            columns = zip(*records[start : start + 4], strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            for batch in reader.of([pa.RecordBatch.from_arrays(arrays, schema=schema)]):
                in_ms = batch.column("timestamp").cast(pa.int64()).to_pylist()
                names = ("topic", "partition", "offset")
                rows = zip(*(batch.column(name).to_pylist() for name in names), in_ms, strict=True)
                found.extend((topic, partition, offset, us // 1000) for topic, partition, offset, us in rows)
    return found


@given(logs, filters)
def test_exactly_the_records_that_satisfy_all_conditions_are_read(kept: Logs, wanted: RecordFilter) -> None:
    ranges = [OffsetRange(tp, 0, len(log)) for tp, log in kept.items()]
    left = narrow(ranges, wanted, lambda asked: _first_not_older(kept, asked))
    everything = [(*tp, offset, ms) for tp, log in kept.items() for offset, ms in enumerate(log)]
    assert sorted(_read(kept, left, wanted)) == sorted(
        each for each in everything if _satisfies(each, wanted)
    )
    for one in left:
        assert 0 <= one.starting_offset < one.stopping_offset <= len(kept[one.topic_partition])


def test_a_range_begins_at_the_lower_bound_of_time_and_does_not_end_at_the_upper_one() -> None:
    log = TopicPartition("a", 0)
    kept = {log: [1, 9, 2, 7, 3]}
    wanted = (Within(Column.TIMESTAMP, 5, 8),)
    left = narrow([OffsetRange(log, 0, 5)], wanted, lambda asked: _first_not_older(kept, asked))
    assert left == [OffsetRange(log, 1, 5)]
    assert _read(kept, left, wanted) == [("a", 0, 3, 7)]


def test_a_topic_partition_whose_time_is_not_found_is_read_from_its_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = TopicPartition("a", 0)
    failed: Results[TopicPartition, int] = Results(errors={log: ClientError("no leader")})
    left = narrow([OffsetRange(log, 2, 5)], (Within(Column.TIMESTAMP, 5),), lambda _: failed)
    assert left == [OffsetRange(log, 2, 5)]
    assert "read from its start" in caplog.text


def test_a_filter_that_nothing_satisfies_asks_the_broker_nothing() -> None:
    ranges = [OffsetRange(TopicPartition("a", 0), 2, 5)]
    assert narrow(ranges, (Within(Column.TIMESTAMP, 9, 3),), _broker) == []
    assert (
        narrow(ranges, (Within(Column.TIMESTAMP, 9), Among(Column.PARTITION, frozenset([1]))), _broker) == []
    )


def test_times_that_do_not_fit_into_microseconds_are_compared_too() -> None:
    log, most = TopicPartition("a", 0), 2**63 - 1
    kept = {log: [1, 2]}
    whole = [OffsetRange(log, 0, 2)]
    assert _read(kept, whole, (Within(Column.TIMESTAMP, high=most + 1),)) == [("a", 0, 0, 1), ("a", 0, 1, 2)]
    assert _read(kept, whole, (Within(Column.TIMESTAMP, low=most),)) == []
    assert _read(kept, whole, (Among(Column.TIMESTAMP, frozenset([most])),)) == []


def test_columns_that_only_the_filter_needs_do_not_leave() -> None:
    reader = RecordSelector((Within(Column.OFFSET, 1),), ["key"])
    assert reader.columns == ["key", "offset"]
    batch = pa.record_batch({"key": pa.array([b"x", b"y"]), "offset": pa.array([0, 1], pa.int64())})
    assert [one.to_pylist() for one in reader.of([batch])] == [[{"key": b"y"}]]
