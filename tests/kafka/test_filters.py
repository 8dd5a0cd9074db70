"""`scan.filter` with the time index of a real broker: no wanted record is lost."""

from __future__ import annotations

import random

import pytest

from penstock.client.net.connection import connections_for
from penstock.client.settings import source_connection_settings
from penstock.options.parse import parse_read
from penstock.source.bounded import plan_bounded
from penstock.source.kafka_lookup import KafkaOffsetLookup
from penstock.source.split_reader import read_split
from tests import judge
from tests.fix_broker import MakeTopic

START_MS = 1_700_000_000_000
COUNT = 3_000


def read(bootstrap: str, topic: str, **more: str) -> tuple[list[tuple[int, int]], int]:
    """Return offsets and timestamps (ms) of what is read, and how many offsets the plan has."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}
    config = parse_read(options, streaming=False).source
    splits = plan_bounded(config, KafkaOffsetLookup(connections_for(source_connection_settings(config))))
    rows = [
        (row["offset"], round(row["timestamp"].timestamp() * 1000))
        for split in splits
        for batch in read_split(config, split, ["offset", "timestamp"])
        for row in batch.to_pylist()
    ]
    return rows, sum(split.size for split in splits)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_the_time_index_leaves_out_older_records_only(
    bootstrap: str, make_topic: MakeTopic, kind: str
) -> None:
    topic = make_topic(
        config={
            "retention.ms": "-1",
            "segment.bytes": str(1 << 20),
            "index.interval.bytes": "1",  # an entry for each batch
            "message.timestamp.type": kind,
        }
    )
    shuffled = random.Random(3)
    # Times grow on the whole, with much disorder, as from many producers.
    times_ms = [START_MS + 1000 * max(0, n + shuffled.randint(-400, 400)) for n in range(COUNT)]
    for begin in range(0, COUNT, 100):
        batch = [judge.Record(b"x" * 500, timestamp_ms=ms) for ms in times_ms[begin : begin + 100]]
        judge.produce(bootstrap, topic, *batch, config={"batch.num.messages": 5})
    everything, _ = read(bootstrap, topic)
    assert len(everything) == COUNT
    seen_ms = sorted(ms for _, ms in everything)
    for low_ms in [seen_ms[0], *shuffled.sample(seen_ms, 8), seen_ms[-1], seen_ms[-1] + 1]:
        high_ms = low_ms + 50_000
        condition = f"timestamp >= {low_ms} AND timestamp < {high_ms}"
        found, planned = read(bootstrap, topic, **{"scan.filter": condition})
        assert found == [row for row in everything if low_ms <= row[1] < high_ms]
        first = next((offset for offset, ms in everything if ms >= low_ms), COUNT)
        assert planned == COUNT - first, "it begins at the first record that is not older"
