"""Splits of a real topic: complete, bounded in memory, and an error if records disappear meanwhile."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from penstock.options.config import SourceConfig
from penstock.options.parse import parse_read
from penstock.source.split_reader import read_split
from penstock.source.splits import Split, SplitRange
from penstock.types import OffsetRange, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.records import many

MIB = 1 << 20


def config_for(bootstrap: str, topic: str, **options: str) -> SourceConfig:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}
    return parse_read(given, streaming=False).source


def whole(topic: str, count: int) -> Split:
    return Split.of(OffsetRange(TopicPartition(topic, 0), 0, count))


def offsets_in(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.promise
@pytest.mark.parametrize("fails", [True, False])
def test_records_deleted_while_they_are_read(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    topic = make_topic()
    count, deleted = 60_000, 50_000  # more than the rows of one batch
    judge.produce(bootstrap, topic, *many(count), config={"batch.size": 20_000})
    config = config_for(
        bootstrap,
        topic,
        failOnDataLoss=str(fails).lower(),
        **{"kafka.max.partition.fetch.bytes": "50000", "kafka.fetch.max.bytes": "50000"},
    )
    batches = read_split(config, whole(topic, count), ["offset"])
    judge.delete_records(bootstrap, topic, {0: 100})
    if fails:
        with pytest.raises(OffsetOutOfRangeError):
            list(batches)
        return
    seen = offsets_in([next(batches)])
    judge.delete_records(bootstrap, topic, {0: deleted})
    seen += offsets_in(list(batches))
    assert seen == sorted(set(seen))
    gap = set(range(100, count)) - set(seen)
    assert gap
    assert max(gap) == deleted - 1
    assert gap == set(range(min(gap), deleted))
    assert min(gap) > 32_000
    warnings = [
        record.getMessage() for record in caplog.records if "(Continuing because " in record.getMessage()
    ]
    assert len(warnings) == 2
    assert f"{topic}-0" in warnings[1]


def test_a_topic_deleted_after_planning_is_dropped_only_where_the_user_says_so(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, *many(3))
    flink = {
        "properties.bootstrap.servers": bootstrap,
        "properties.default.api.timeout.ms": "1500",  # as long as a topic may be unknown
        "topic": topic,
    }
    config = parse_read(flink, streaming=True).source
    judge.delete_topic(bootstrap, topic)
    for fails in (config, dataclasses.replace(config, fail_on_data_loss=False)):
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}-0"):
            list(read_split(fails, whole(topic, 3), ["offset"]))
    drops = parse_read({**flink, "scan.on-removed-partition": "drop"}, streaming=True).source
    assert list(read_split(drops, whole(topic, 3), ["offset"])) == []
    assert f"was reading {topic}-0, which Kafka does not have any more" in caplog.text


def test_a_split_of_several_ranges_reads_each_in_order_and_past_its_losses(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic, gone = make_topic(3), make_topic()
    judge.produce(
        bootstrap, topic, *(judge.Record(b"v", partition=part) for part in range(3) for _ in range(20))
    )
    judge.delete_records(bootstrap, topic, {1: 5})
    judge.delete_topic(bootstrap, gone)
    bounds = {(gone, 0): (0, 3), (topic, 0): (4, 9), (topic, 1): (0, 20), (topic, 2): (19, 20)}
    split = Split(
        tuple(SplitRange(OffsetRange(TopicPartition(*tp), *range_)) for tp, range_ in bounds.items())
    )
    flink = {
        "properties.bootstrap.servers": bootstrap,
        "properties.default.api.timeout.ms": "1500",  # as long as a topic may be unknown
        "topic": topic,
        "scan.on-data-loss": "continue",
        "scan.on-removed-partition": "drop",
    }
    batches = list(
        read_split(parse_read(flink, streaming=True).source, split, ["topic", "partition", "offset"])
    )
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    wanted = {0: range(4, 9), 1: range(5, 20), 2: range(19, 20)}
    for partition, offsets in wanted.items():
        assert [offset for _, part, offset in rows if part == partition] == list(offsets)
    assert len(rows) == sum(map(len, wanted.values()))
    assert f"was reading {gone}-0, which Kafka does not have any more" in caplog.text
    assert f"needs offset 0 of {topic}-1" in caplog.text


def test_a_worker_asks_for_nothing_but_records_in_its_second_batch(
    bootstrap: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(200)
    config = config_for(bootstrap, topic)
    sent: list[str] = []
    send = KafkaConnections.send

    def watched(self: KafkaConnections, request: Any, *args: Any) -> PendingResponse:
        sent.append(type(request).__name__)
        return send(self, request, *args)

    monkeypatch.setattr(KafkaConnections, "send", watched)
    for number in range(2):
        judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=part) for part in range(200)))
        ranges = (OffsetRange(TopicPartition(topic, part), number, number + 1) for part in range(200))
        del sent[:]
        split = Split(tuple(SplitRange(each) for each in ranges))
        assert offsets_in(list(read_split(config, split, ["offset"]))) == [number] * 200
    assert sent == ["FetchRequest"]


def test_memory_stays_bounded_however_long_the_range(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    count = 200_000
    records = (judge.Record(b"%d" % number + b"x" * 1_000) for number in range(count))
    judge.produce(bootstrap, topic, *records, config={"compression.type": "lz4", "linger.ms": 50})
    split = whole(topic, count)
    before, most, rows = resident_bytes(), 0, 0
    for batch in read_split(config_for(bootstrap, topic), split, ["key", "value", "offset"]):
        rows += batch.num_rows
        most = max(most, resident_bytes())
    assert rows == count
    assert most - before < 96 * MIB, f"200 MB of records took {(most - before) // MIB} MiB"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
