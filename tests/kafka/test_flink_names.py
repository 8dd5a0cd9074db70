"""Each metric that is served under Flink's name, in a real run, beside what an independent client computes.

docs/metrics.md has the same table. Times are held to the time that the test itself has measured.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from penstock.devbroker import DevCluster
from penstock.observe.serve.flink import FLINK_NAMES, PREFIX
from penstock.options.parse import parse_write
from penstock.spark._at_least_once import PenstockStreamWriter
from penstock.spark._stream_reader import PenstockStreamReader
from penstock.spark.datasource import PenstockDataSource
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.source_runs import Query
from tests.kafka.test_lag import lags_of_librdkafka
from tests.kafka.test_metrics import options, scrape
from tests.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
OF_ONE = "KafkaSourceReader_topic_partition_"
AGE_MS = 90_000
TABLE = {
    "pendingRecords": ("3", "librdkafka: high watermarks minus the offsets that the group has committed"),
    "sourceIdleTime": ("measured", "at most the time since the last record was read, by the test's clock"),
    "currentEmitEventTimeLag": (
        "90 s and more",
        "the test's clock minus the timestamp that librdkafka reads",
    ),
    "numRecordsIn": ("10", "records that librdkafka reads from the topic"),
    "numBytesIn": ("100 and more", "at least the bytes of the values that librdkafka reads"),
    "numRecordsInErrors": ("1", "values that Python's `json` cannot read either"),
    "KafkaSourceReader_commitsSucceeded": ("1 and more", "librdkafka finds the group's offsets"),
    "KafkaSourceReader_commitsFailed": ("0", "the same"),
    f"{OF_ONE}currentOffset": ("4 and 4", "librdkafka: high watermarks at the time of the batch, minus 1"),
    f"{OF_ONE}committedOffset": ("5 and 5", "librdkafka: the group's offsets"),
    "currentSendTime": ("measured", "at most the time of the write, by the test's clock"),
    "numRecordsSend": ("4", "records that librdkafka reads from the target topic"),
    "numBytesSend": ("the same", "sizes of the target topic's log files in the broker's folder"),
}


def value(reader: PenstockStreamReader, name: str) -> float:
    (found,) = scrape(reader)[PREFIX + name].values()
    return found


def log_bytes(cluster: DevCluster, topic: str) -> int:
    return sum(file.stat().st_size for file in cluster.folder.rglob(f"{topic}-*/*.log"))


def test_the_table_has_every_name_that_is_served() -> None:
    assert set(TABLE) == {each.served for each in FLINK_NAMES if each.served is not None}
    for name, (shown, by) in TABLE.items():
        assert f"| `{name}` | {shown} | {by} |" in PAGE


def test_each_value_is_what_an_independent_client_computes(
    bootstrap: str, make_topic: MakeTopic, broker: DevCluster
) -> None:
    topic, target = make_topic(2), make_topic(suffix="-target")
    written_ms = int(time.time() * 1000) - AGE_MS
    records = [judge.Record(b"v" * 10, partition=number % 2, timestamp_ms=written_ms) for number in range(10)]
    judge.produce(bootstrap, topic, *records)
    ends = {tp: high for tp, (_, high) in judge.offsets_of(bootstrap, topic).items()}
    query = Query(options(bootstrap, topic, properties_group_id=topic, metrics_aliases="flink"))
    with query.running() as reader:
        assert len(query.trigger(reader) or []) == 10
        emitted_ms = int(time.time() * 1000)
        wait_until(lambda: scrape(reader)["penstock_source_records_total"][()] == 10, "the reports of tasks")
        judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=1) for _ in range(3)))
        start = query.checkpoint[-1]
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        wait_until(lambda: value(reader, "KafkaSourceReader_commitsSucceeded") > 0, "the commit of offsets")
        lags = lags_of_librdkafka(bootstrap, topic)
        assert value(reader, "pendingRecords") == sum(lags.values()) == 3
        read_by_judge = [
            each for each in judge.consume_all(bootstrap, topic) if each.timestamp_ms == written_ms
        ]
        assert value(reader, "numRecordsIn") == len(read_by_judge) == 10
        assert value(reader, "numBytesIn") >= sum(len(each.value or b"") for each in read_by_judge) == 100
        event_time_lag_ms = value(reader, "currentEmitEventTimeLag")
        assert AGE_MS <= event_time_lag_ms <= emitted_ms - written_ms
        assert value(reader, "KafkaSourceReader_commitsFailed") == 0
        last_read = {(topic, str(number)): high - 1 for number, high in ends.items()}
        of_one = f"{PREFIX}{OF_ONE}currentOffset"
        wait_until(lambda: scrape(reader)[of_one] == last_read, "a look after the batch")
        found = scrape(reader)
        highs = judge.offsets_of(bootstrap, topic)
        committed = {(topic, str(number)): highs[number][1] - lag for (_, number), lag in lags.items()}
        assert found[f"{PREFIX}{OF_ONE}committedOffset"] == committed == {(topic, "0"): 5, (topic, "1"): 5}

        _check_sink(reader, bootstrap, target, broker)
        began_s = time.monotonic()
        for split in reader.partitions(start, end):
            assert sum(batch.num_rows for batch in reader.read(split)) == 3
        reader.latestOffset(end, reader.getDefaultReadLimit())  # nothing is new
        wait_until(lambda: value(reader, "sourceIdleTime") > 0, "the idle time")
        assert value(reader, "sourceIdleTime") <= (time.monotonic() - began_s) * 1000


def _check_sink(reader: PenstockStreamReader, bootstrap: str, target: str, broker: DevCluster) -> None:
    assert reader._exposure is not None
    given = {"properties.bootstrap.servers": bootstrap, "topic": target}
    sink = parse_write({**given, "metrics.http.port": str(reader._exposure.port)}).sink
    rows = pa.record_batch({"value": pa.array([b"%d" % number for number in range(4)])})
    writer = PenstockStreamWriter(sink, StructType([StructField("value", BinaryType())]))
    began_s = time.monotonic()
    message = writer.write(iter([rows]))
    took_ms = (time.monotonic() - began_s) * 1000
    writer.commit([message], 0)
    wait_until(lambda: PREFIX + "numRecordsSend" in scrape(reader), "the report of the sink")
    wait_until(lambda: scrape(reader)[PREFIX + "numRecordsSend"], "the same")
    assert value(reader, "numRecordsSend") == len(judge.consume_all(bootstrap, target)) == 4
    assert value(reader, "numBytesSend") == log_bytes(broker, target)
    assert 0 <= value(reader, "currentSendTime") <= took_ms


def test_errors_are_the_values_that_python_cannot_read_either(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, values = make_topic(), [b'{"id": 1}', b'{"id": ', b'{"id": 3}']
    judge.produce(bootstrap, topic, *values)
    given = options(
        bootstrap, topic, format="json", scan_startup_mode="earliest-offset", metrics_aliases="flink"
    )
    source = PenstockDataSource({**given, "scan.on-decode-error": "skip"})
    reader = source.streamReader(StructType([StructField("id", LongType())]))
    assert isinstance(reader, PenstockStreamReader)
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        rows = [batch for split in reader.partitions(start, end) for batch in reader.read(split)]
        assert [each for batch in rows for each in batch.column(0).to_pylist()] == [1, 3]
        bad = sum(not _is_json(each) for each in values)
        wait_until(lambda: value(reader, "numRecordsInErrors") == bad == 1, "the report of the task")
    finally:
        reader.stop()


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
