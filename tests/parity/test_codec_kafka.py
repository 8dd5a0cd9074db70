"""librdkafka reads what the codec writes, the codec reads what librdkafka writes, and Java reads both.

Runs on the real broker. It checks every batch. If the `compression.type` of a topic differs from the
producer's, it decompresses the batches and writes them again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.codec import KAFKA_RECORDS, RecordBatchBuilder, RecordColumns
from penstock.codec.compression import CODEC_IDS
from tests import judge
from tests.fix_broker import MakeTopic
from tests.parity import broker_wire

# A recent time, because the broker's retention would delete older records.
FIRST_MS = int(time.time()) * 1_000 - 3_600_000


@pytest.fixture
def connections(bootstrap: str) -> Iterator[KafkaConnections]:
    with broker_wire.connections_to(bootstrap) as connections:
        yield connections


def records(count: int, seed: int = 1) -> list[judge.Record]:
    chance = random.Random(seed)
    contents = (None, b"", b"x", b"text " * 30, chance.randbytes(3_000))
    return [
        judge.Record(
            value=chance.choice(contents),
            key=chance.choice((None, b"", b"%d" % index)),
            headers=[("name", b"%d" % index), ("name", None), ("gr\u00fcn", b"")][: chance.randrange(4)],
            timestamp_ms=FIRST_MS + index * chance.choice((1, -1, 1_000)),
            partition=0,
        )
        for index in range(count)
    ]


def essence(written: list[judge.Record]) -> list[tuple[object, ...]]:
    return [(each.offset, each.key, each.value, list(each.headers), each.timestamp_ms) for each in written]


def essence_of_table(table: pa.Table) -> list[tuple[object, ...]]:
    milliseconds = pa.array([us // 1_000 for us in table["timestamp"].cast(pa.int64()).to_pylist()])
    return [
        (row["offset"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or ()], ms)
        for row, ms in zip(
            table.drop_columns(["timestamp"]).to_pylist(), milliseconds.to_pylist(), strict=True
        )
    ]


def arrow_of(rows: list[judge.Record]) -> RecordColumns:
    kind = KAFKA_RECORDS.field("headers").type
    headers = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    return RecordColumns(
        pa.record_batch(
            {
                "key": pa.array([row.key for row in rows], pa.binary()),
                "value": pa.array([row.value for row in rows], pa.binary()),
                "headers": pa.array(headers, kind),
                "timestamp": pa.array([(row.timestamp_ms or 0) * 1_000 for row in rows], pa.timestamp("us")),
            }
        )
    )


@pytest.mark.parametrize("kind", CODEC_IDS)
def test_reading_what_librdkafka_wrote(
    kind: str, connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    config = {"compression.type": kind, "linger.ms": 20, "batch.num.messages": 150}
    written = judge.produce(bootstrap, topic, *records(2_000), config=config)
    table = broker_wire.read(connections, topic, 2_000)
    assert essence_of_table(table) == essence(written)
    assert set(table["timestamp_type"].to_pylist()) == {0}
    assert set(table["leader_epoch"].to_pylist()) == {0}


@pytest.mark.parametrize("rewritten_as", ["producer", "uncompressed", "gzip", "lz4", "snappy", "zstd"])
@pytest.mark.parametrize("kind", CODEC_IDS)
def test_what_the_codec_wrote_is_read_by_librdkafka_and_by_java(
    kind: str, rewritten_as: str, connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(config={"compression.type": rewritten_as})
    rows = records(1_500)
    columns, indices = arrow_of(rows), pa.array(range(len(rows)), pa.int32())
    builder = RecordBatchBuilder(topic, 0, compression_type=kind, batch_size_bytes=200_000)
    done = 0
    while done < len(rows):
        first = done
        done = builder.append(columns, indices, done, default_timestamp_ms=FIRST_MS)
        assert broker_wire.produce(connections, topic, builder.build()) == first
    seen = judge.consume_all(bootstrap, topic)
    assert [each[1:] for each in essence(seen)] == [each[1:] for each in essence(rows)]
    # And back: the batches that Java wrote again from ours.
    assert essence_of_table(broker_wire.read(connections, topic, len(rows))) == essence(seen)


@pytest.mark.parametrize("level", [1, 17])
def test_the_high_compressor_of_lz4(
    level: int, connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(config={"compression.type": "uncompressed"})
    rows = records(500)
    builder = RecordBatchBuilder(
        topic, 0, compression_type="lz4", compression_level=level, batch_size_bytes=1 << 20
    )
    indices = pa.array(range(500), pa.int32())
    assert builder.append(arrow_of(rows), indices, default_timestamp_ms=FIRST_MS) == 500
    broker_wire.produce(connections, topic, builder.build())
    assert [each[1:] for each in essence(judge.consume_all(bootstrap, topic))] == [
        each[1:] for each in essence(rows)
    ]


def test_transactions_in_both_isolation_levels(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    """Write overlapping transactions of two producers, half of them aborted, and plain records between."""
    topic = make_topic()
    producers = [judge.transactional_producer(bootstrap, f"{topic}-{name}") for name in "ab"]
    chance = random.Random(7)
    for turn in range(12):
        for producer in producers:
            producer.begin_transaction()
        for producer in producers * 3:
            judge.send(producer, topic, records(chance.randrange(1, 40), turn))
            judge.flush(producer)
        judge.produce(bootstrap, topic, *records(5, turn))
        for producer in chance.sample(producers, 2):
            if chance.random() < 0.5:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
    for isolation in ("read_committed", "read_uncommitted"):
        expected = judge.consume_all(bootstrap, topic, isolation)
        ((_, end),) = judge.offsets_of(bootstrap, topic, isolation).values()
        table = broker_wire.read(connections, topic, end, read_committed=isolation == "read_committed")
        assert essence_of_table(table) == essence(expected)
    assert len(judge.consume_all(bootstrap, topic)) < len(expected)


def test_log_append_time(connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    judge.produce(bootstrap, topic, *records(300), config={"compression.type": "zstd"})
    table = broker_wire.read(connections, topic, 300)
    assert set(table["timestamp_type"].to_pylist()) == {1}
    assert essence_of_table(table) == essence(judge.consume_all(bootstrap, topic))
