"""The Spark adapters without a JVM."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import BinaryType, IntegerType, StructType

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import OptionError, RowError
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.source.enumerator import SplitEnumerator
from penstock.source.splits import Split, SplitRange
from penstock.spark import _reads
from penstock.spark._exactly_once import ExactlyOnceWriter
from penstock.spark._stream_reader import PenstockStreamReader
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import RowSchema, check_read_schema, source_schema
from penstock.spark.splits import SplitPartition
from penstock.types import OffsetRange, TopicPartition
from pyspark_penstock import DefaultSource
from tests.unit.planning import source_config, tp
from tests.unit.source_cluster import Log, SourceCluster
from tests.waiting import PATIENCE_S

OPTIONS = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t", "kafka.ssl.key.password": "hunter2"}


def records() -> pa.RecordBatch:
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []]
    columns = {
        "key": [b"k", None, b""],
        "value": [None, b"v", b""],
        "topic": ["t"] * 3,
        "partition": [0] * 3,
        "offset": [5, 6, 9],
        "timestamp": [1_700_000_000_123_000, 0, -1],
        "timestamp_type": [0, 1, 0],
        "leader_epoch": [None, 1, 2],
        "headers": headers,
    }
    arrays = [pa.array(columns[field.name], field.type) for field in KAFKA_RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=KAFKA_RECORDS)


def addresses(column: pa.Array) -> list[int | None]:
    return [buffer.address if buffer is not None else None for buffer in column.buffers()]


def reader_over(cluster: SourceCluster, **changes: object) -> PenstockStreamReader:
    """A reader whose planning asks `cluster` instead of a cluster."""
    config = source_config(None, **changes)  # type: ignore[arg-type]  # tests name fields of the dataclass
    reader = PenstockStreamReader(config, source_schema(include_headers=False))
    reader._opened = SplitEnumerator(config, cluster.lookup)
    return reader


def test_spark_finds_the_source_by_its_module() -> None:
    assert DefaultSource is PenstockDataSource
    assert DefaultSource.name() == "penstock"


def test_rows_have_the_schema_that_pyspark_wants_and_the_buffers_that_were_decoded() -> None:
    schema = source_schema(include_headers=True)
    given = records()
    rows = RowSchema(schema).rows(given)
    assert rows.schema.equals(to_arrow_schema(schema, timezone="UTC"), check_metadata=True)
    for name in schema.fieldNames():
        decoded = given.column({"timestampType": "timestamp_type"}.get(name, name))
        assert rows.column(name).to_pylist() == decoded.to_pylist()
        assert addresses(rows.column(name)) == addresses(decoded)


def test_a_slice_stays_that_slice() -> None:
    rows = RowSchema(source_schema(include_headers=True)).rows(records().slice(1, 2))
    assert rows.column("offset").to_pylist() == [6, 9]
    assert rows.column("headers").to_pylist() == [None, []]


def test_only_what_the_schema_names_is_decoded() -> None:
    schema = StructType().add("timestampType", IntegerType())
    schema = schema.add("value", BinaryType(), metadata={"comment": "the payload"})
    check_read_schema(schema)
    row_schema = RowSchema(schema)
    assert row_schema.columns == ["timestamp_type", "value"]
    rows = row_schema.rows(records().select(["value", "timestamp_type"]))
    assert rows.schema.equals(to_arrow_schema(schema, timezone="UTC"), check_metadata=True)


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(OptionError, match="no columns"):
        check_read_schema(StructType())


def test_the_columns_follow_the_option() -> None:
    assert "headers" not in PenstockDataSource(OPTIONS).schema().fieldNames()
    assert PenstockDataSource({**OPTIONS, "includeheaders": "true"}).schema().fieldNames()[-1] == "headers"


def test_constructing_never_fails() -> None:
    assert PenstockDataSource({}).options == {}


def test_a_reader_travels_as_configuration_only() -> None:
    reader = reader_over(SourceCluster({tp(0): Log(0, 5)}))
    reader.initialOffset()
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own bytes
    assert copy._opened is None
    assert copy._connections is None
    assert len(pickle.dumps(copy)) < 5_000


def test_a_split_travels() -> None:
    split = Split.of(OffsetRange(tp(3), 5, 9))
    copy = pickle.loads(pickle.dumps(SplitPartition(split)))  # noqa: S301 - our own bytes
    assert copy.split == split


def test_a_split_of_many_ranges_travels_small() -> None:
    ranges = (OffsetRange(TopicPartition("a-topic", n), 10**12, 10**12 + n) for n in range(1_000))
    split = Split(tuple(SplitRange(each, "3f0e9e1c-0b62-4f5c-8f49-0b1d0a2f8d11") for each in ranges))
    pickled = pickle.dumps(SplitPartition(split))
    assert len(pickled) < 30_000
    assert pickle.loads(pickled).split == split  # noqa: S301 - our own bytes


def test_a_batch_read_without_splits_reads_nothing() -> None:
    options = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t"}
    reader = PenstockDataSource(options).reader(source_schema(include_headers=False))
    assert list(reader.read(InputPartition(None))) == []


def test_limits_come_from_options_and_triggers_may_lift_them() -> None:
    reader = reader_over(SourceCluster({tp(0): Log(0, 50)}), max_records_per_batch=10)
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    assert reader_over(SourceCluster()).getDefaultReadLimit() == ReadAllAvailable()
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10))["t"] == {"0": 10}
    assert reader.latestOffset(start, ReadAllAvailable())["t"] == {"0": 50}


def test_a_limit_on_bytes_comes_from_the_options_too() -> None:
    logs = {tp(0): Log(0, 50, size_bytes=500)}
    reader = reader_over(SourceCluster(logs), max_bytes_per_batch=100)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(100)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxBytes(100))["t"] == {"0": 10}
    assert reader.latestOffset(start, ReadAllAvailable())["t"] == {"0": 50}
    both = reader_over(SourceCluster(logs), max_bytes_per_batch=100, max_records_per_batch=30)
    assert both.getDefaultReadLimit() == ReadMaxRows(30)
    assert both.latestOffset(both.initialOffset(), ReadMaxRows(30))["t"] == {"0": 10}


def test_a_limit_from_below_comes_from_the_options_too() -> None:
    cluster = SourceCluster({tp(0): Log(0, 50)})
    reader = reader_over(cluster, min_records_per_batch=10)
    assert reader.getDefaultReadLimit() == ReadMinRows(10)
    first = reader.latestOffset({"t": {"0": 40}}, ReadMinRows(10))
    cluster.extend(tp(0), 55)
    assert reader.latestOffset(first, ReadMinRows(10)) is first
    assert reader.latestOffset(first, ReadAllAvailable())["t"] == {"0": 55}


def test_an_offset_that_did_not_move_keeps_its_text() -> None:
    reader = reader_over(SourceCluster({tp(0): Log(0, 50), tp(1): Log(0, 3)}))
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.latestOffset(first, ReadAllAvailable()) is first
    sparks = json.loads('{"t":{"1":3,"0":50}}')
    assert json.dumps(reader.latestOffset(sparks, ReadAllAvailable())) == '{"t": {"1": 3, "0": 50}}'
    assert reader.reportLatestOffset() == {"t": {"0": 50, "1": 3}}


def test_splits_follow_from_the_two_offsets() -> None:
    reader = reader_over(SourceCluster({tp(0): Log(0, 50), tp(1): Log(0, 3)}))
    planned = reader.partitions({"t": {"0": 10, "1": 3}}, {"t": {"0": 20, "1": 3}})
    assert [partition.value for partition in planned] == [Split.of(OffsetRange(tp(0), 10, 20))]


@pytest.mark.parametrize(
    "schema",
    [
        StructType().add("key", BinaryType()),
        StructType().add("value", BinaryType()).add("payload", IntegerType()),
        StructType().add("value", IntegerType()),
    ],
)
def test_a_write_is_checked_before_a_task_starts(schema: StructType) -> None:
    source = PenstockDataSource({"kafka.bootstrap.servers": "unused:1", "topic": "t"})
    with pytest.raises(RowError):
        source.writer(schema, overwrite=False)
    with pytest.raises(RowError):
        source.streamWriter(schema, overwrite=False)


@pytest.mark.parametrize(
    "bad",
    [
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "hunter2"},
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nhunter2\n-----END CERTIFICATE-----",
        },
    ],
    ids=["login", "certificate"],
)
def test_bad_security_is_found_before_a_task_starts(bad: dict[str, str]) -> None:
    properties = {f"kafka.{name}": text for name, text in bad.items()}
    source = PenstockDataSource({"kafka.bootstrap.servers": "unused:1", "topic": "t"} | properties)
    written = StructType().add("value", BinaryType())
    read = PenstockDataSource({"kafka.bootstrap.servers": "unused:1", "subscribe": "t"} | properties)
    columns = source_schema(include_headers=False)
    for make in (
        lambda: source.writer(written, overwrite=False),
        lambda: source.streamWriter(written, overwrite=False),
        lambda: read.reader(columns),
        lambda: read.streamReader(columns),
    ):
        with pytest.raises(OptionError) as caught:
            make()
        assert "hunter2" not in str(caught.value)


def test_the_runner_of_a_stream_gets_a_reader_that_raises_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PySpark's runner ends with an `UnboundLocalError` if `streamReader` raises."""
    monkeypatch.setattr(_reads, "is_stream_planner", lambda: True)
    missing = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/no/such.pem"}
    source = PenstockDataSource({"kafka.bootstrap.servers": "unused:1", "subscribe": "t"} | missing)
    reader = source.streamReader(source_schema(include_headers=False))
    assert isinstance(reader, SupportsTriggerAvailableNow), "or Spark plans without it, and says so"
    calls: list[Callable[[], object]] = [
        reader.prepareForTriggerAvailableNow,
        reader.getDefaultReadLimit,
        reader.initialOffset,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
    ]
    for call in calls:
        with pytest.raises(OptionError, match=r"/no/such\.pem' cannot be read here"):
            call()
    reader.stop()


def test_sigterm_lets_sparks_runner_stop_the_reader() -> None:
    """The runner's process: SIGTERM must lead to `finally: reader.stop()`, also when it comes twice."""
    code = """
import sys, types
spec = types.SimpleNamespace(name="pyspark.sql.streaming.python_streaming_source_runner")
sys.modules["__main__"].__spec__ = spec
from penstock.spark.process.begin import stop_in_order_on_sigterm
stop_in_order_on_sigterm()
try:
    print("ready", flush=True)
    sys.stdin.readline()  # a line ends it, too, if the signal came just before the wait
finally:
    sys.stdin.readline()
    print("stopped", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_other_processes_keep_their_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    reader = PenstockStreamReader(source_config(), source_schema(include_headers=False))
    assert reader._enumerator is not None
    reader.stop()
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_error_at_the_start_of_an_exactly_once_write_is_no_pickling_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark pickles the writer, which is when it recovers."""
    options = {
        "kafka.bootstrap.servers": "unused:1",
        "topic": "t",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "p",
    }
    schema = StructType().add("value", BinaryType())
    writer = PenstockDataSource(options).writer(schema, overwrite=False)
    assert isinstance(writer, ExactlyOnceWriter)

    def recover(*_: object) -> None:
        raise OptionError("too long", option="transaction.timeout.ms") from ValueError("a cause")

    serializer: Any = CloudPickleSerializer  # PySpark has no types for it
    serializer = serializer()
    monkeypatch.setattr(DriverSide, "recover", recover)
    with pytest.raises(OptionError, match=r"^too long$") as raised:
        serializer.dumps(writer)
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.endswith("penstock.errors.OptionError: too long\n")
    assert "ValueError: a cause" in shown
    assert "Pickl" not in shown.replace("CloudPickleSerializer", "")
    copy = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own bytes
    assert type(copy) is OptionError
    assert copy.facts == {"option": "transaction.timeout.ms"}
