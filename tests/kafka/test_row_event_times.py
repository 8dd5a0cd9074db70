"""Event times of decoded rows, as the driver looks them up for alignment."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.flink._pickling import to_text
from penstock.options.config import SourceConfig
from penstock.options.parse import parse_read
from penstock.options.python_objects import ASSIGNER, DESERIALIZER
from penstock.options.table_spec import EventTimeSpec
from penstock.source import kafka_event_times
from penstock.source.alignment import RecordTimes
from penstock.source.kafka_event_times import KafkaRowClock
from penstock.table.event_time import EventTimeDecoder, TimestampAssigner
from penstock.table.older_schemas import ElementsOf, KafkaDeserializationSchema
from penstock.table.python_rows import PythonDecoder
from penstock.table.user_decoder import CalledWith, ConsumerRecord, PickledDeserializer
from penstock.types import OffsetRange, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.records import connected

TIME = pa.timestamp("us", tz="UTC")


class Numbers(KafkaDeserializationSchema):
    """Each number of the text is a row; `-` gives none, and `x` fails."""

    def deserialize(self, record: ConsumerRecord) -> Any:
        text = (record.value or b"").decode()
        return None if text == "-" else [int(part) for part in text.split()]


class ItselfInSeconds(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value) * 1_000


def decoder() -> EventTimeDecoder:
    travelling = PickledDeserializer(ElementsOf(Numbers()), CalledWith.RECORD, gives_values=True)
    inner = PythonDecoder(to_text(travelling, DESERIALIZER), pa.schema([("value", pa.int64())]))
    spec = EventTimeSpec("at", to_text(ItselfInSeconds(), ASSIGNER))
    return EventTimeDecoder(inner, spec, pa.schema([("value", pa.int64()), ("at", TIME)]))


def test_times_come_from_the_rows(bootstrap: str, make_topic: MakeTopic, monkeypatch: Any) -> None:
    topic = make_topic(1)
    judge.produce(bootstrap, topic, b"5 9 7", b"-", b"x", b"3", b"-", b"4")
    options = {"properties.bootstrap.servers": bootstrap, "topic": topic}
    config: SourceConfig = parse_read(options, streaming=True).source
    topic_partition = TopicPartition(topic, 0)

    def times(start: int, stop: int, max_records: int) -> RecordTimes:
        found = clock.read_times([OffsetRange(topic_partition, start, stop)], max_records)
        assert not found.errors
        return found.values[topic_partition]

    with connected(bootstrap) as connections:
        clock = KafkaRowClock(connections, config, decoder(), "at")
        assert times(0, 6, 10) == RecordTimes((0, 3, 5), (9_000, 3_000, 4_000), 6)
        assert times(0, 6, 2) == RecordTimes((0, 3), (9_000, 3_000), 4)
        assert times(1, 3, 1) == RecordTimes((), (), 3)
        assert clock.first_offsets_at({topic_partition: 3_000}).values == {topic_partition: 0}
        monkeypatch.setattr(kafka_event_times, "SCANNED_RECORDS", 1)
        monkeypatch.setattr(kafka_event_times, "_ROWS_MIN", 1)
        assert times(1, 6, 1) == RecordTimes((), (), 2), "it gives up after so many records"
