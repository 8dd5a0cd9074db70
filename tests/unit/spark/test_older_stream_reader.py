"""Streaming reads on Spark before 4.2, in the order in which it asks. `make versions` runs a real one."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructType

from penstock import _pyspark
from penstock.errors import OptionError, UnsupportedOptionError
from penstock.options.parse import parse_read
from penstock.source.checkpoint_offset import Positions
from penstock.source.enumerator import SplitEnumerator
from penstock.source.splits import Split
from penstock.spark import _reads, check_options
from penstock.spark._older_stream_reader import OlderStreamReader, check_limits
from penstock.spark._reads import FailedStreamReader
from penstock.sql.connectors.datagen.plan import plan_of
from penstock.sql.connectors.datagen.source import OlderStream
from penstock.sql.language.parse import parse_statement
from penstock.sql.language.statements import CreateTable
from penstock.types import OffsetRange
from tests.unit.planning import source_config, tp
from tests.unit.source_cluster import Log, SourceCluster
from tests.waiting import PATIENCE_S

VALUE = StructType().add("value", BinaryType())


class Committed:
    """What was submitted for the consumer group."""

    def __init__(self) -> None:
        self.positions: list[Positions] = []

    def submit(self, positions: Positions) -> None:
        self.positions.append(positions)

    def close(self) -> None:
        pass


@pytest.fixture
def cluster() -> SourceCluster:
    return SourceCluster({tp(0): Log(0, 5)})


def reader_over(cluster: SourceCluster) -> tuple[OlderStreamReader, list[Positions]]:
    config = source_config()
    reader, committed = OlderStreamReader(config, VALUE), Committed()
    reader._opened = SplitEnumerator(config, cluster.lookup)
    reader._committer = committed  # type: ignore[assignment] # it only takes notes
    return reader, committed.positions


def test_a_new_query_begins_at_its_first_offset_and_goes_on_at_each_end(cluster: SourceCluster) -> None:
    reader, committed = reader_over(cluster)
    first = reader.latestOffset()
    [split] = reader.partitions(reader.initialOffset(), first)
    assert first["t"] == {"0": 5}
    assert split.value == Split.of(OffsetRange(tp(0), 0, 5), cluster.topic_ids["t"])
    assert committed == []
    assert reader.latestOffset() is first, "or Spark makes an empty batch"
    cluster.extend(tp(0), 8)
    assert reader.latestOffset()["t"] == {"0": 8}
    assert committed == [{tp(0): 5}] * 2


def test_a_restarted_query_goes_on_where_spark_says(cluster: SourceCluster) -> None:
    last = reader_over(cluster)[0].latestOffset()
    cluster.extend(tp(0), 9)
    reader, _ = reader_over(cluster)
    assert list(reader.partitions(last, last)) == []
    end = reader.latestOffset()
    assert end["t"] == {"0": 9}
    [split] = reader.partitions(last, end)
    assert split.value == Split.of(OffsetRange(tp(0), 5, 9), cluster.topic_ids["t"])


def test_the_group_does_not_get_a_batch_that_spark_may_repeat(cluster: SourceCluster) -> None:
    last = reader_over(cluster)[0].latestOffset()
    reader, committed = reader_over(cluster)
    reader.partitions(last, last)
    reader.latestOffset()  # the wrapper for availableNow asks before it repeats the batch
    assert committed == []
    reader.commit(last)
    assert committed == [{tp(0): 5}]
    reader.latestOffset()
    assert committed == [{tp(0): 5}] * 2


def test_the_group_does_not_get_an_end_that_spark_asked_for_twice(cluster: SourceCluster) -> None:
    """The wrapper for availableNow asks when it prepares the run, and again for the progress."""
    reader, committed = reader_over(cluster)
    end = reader.latestOffset()
    reader.latestOffset()
    assert committed == [], "the batch has not run"
    reader.partitions(reader.initialOffset(), end)
    assert committed == []
    reader.latestOffset()
    assert committed == [{tp(0): 5}]


def test_the_group_does_not_get_a_newer_end_than_that_of_the_batch(cluster: SourceCluster) -> None:
    reader, committed = reader_over(cluster)
    end = reader.latestOffset()
    cluster.extend(tp(0), 8)
    reader.latestOffset()
    reader.partitions(reader.initialOffset(), end)
    reader.latestOffset()
    assert committed == []
    reader.commit(end)
    assert committed == [{tp(0): 5}]


def test_the_group_gets_a_batch_that_spark_has_repeated(cluster: SourceCluster) -> None:
    first, _ = reader_over(cluster)
    begin, last = first.initialOffset(), first.latestOffset()
    reader, committed = reader_over(cluster)
    reader.partitions(last, last)
    reader.partitions(begin, last)
    assert committed == []
    reader.latestOffset()
    assert committed == [{tp(0): 5}]


def test_a_restarted_query_whose_end_is_asked_for_too_early_is_refused(cluster: SourceCluster) -> None:
    """The planned end begins at the options' start, so the batch would read offsets 0 to 5 again."""
    last = reader_over(cluster)[0].latestOffset()
    cluster.extend(tp(0), 9)
    reader, committed = reader_over(cluster)
    reader.latestOffset()
    with pytest.raises(
        UnsupportedOptionError, match=r"triggerAvailableNowWrapper.*Nothing was read"
    ) as error:
        reader.partitions(last, last)
    assert error.value.facts == {"option": "spark.sql.streaming.triggerAvailableNowWrapper.enabled"}
    assert committed == []


def test_a_new_query_may_begin_with_an_empty_batch() -> None:
    cluster = SourceCluster({tp(0): Log(0, 0)})
    reader, committed = reader_over(cluster)
    begin = reader.latestOffset()
    assert list(reader.partitions(begin, begin)) == []
    cluster.extend(tp(0), 3)
    end = reader.latestOffset()
    [split] = reader.partitions(begin, end)
    assert split.value == Split.of(OffsetRange(tp(0), 0, 3), cluster.topic_ids["t"])
    reader.latestOffset()
    assert committed == [{tp(0): 3}]


@pytest.mark.parametrize("is_repeated", [False, True])
def test_it_says_what_is_less_once_a_query(
    cluster: SourceCluster,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_repeated: bool,
) -> None:
    first, _ = reader_over(cluster)
    begin, last = first.initialOffset(), first.latestOffset()
    caplog.clear()
    reader, _ = reader_over(cluster)
    monkeypatch.setattr("penstock.spark._older_stream_reader.missing", lambda: ["Less."])
    with caplog.at_level(logging.WARNING):
        if is_repeated:  # with availableNow Spark then asks for no end
            reader.partitions(begin, last)
        else:
            reader.latestOffset()
            reader.latestOffset()
    assert [record.message.partition(" in /")[2][-5:] for record in caplog.records] == ["Less."]


OF_FLINK = {"properties.bootstrap.servers": "unused:1", "topic": "t"}
OF_SPARK = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t"}
LIMITED = [
    (OF_SPARK, "maxOffsetsPerTrigger", "5"),
    (OF_SPARK, "minOffsetsPerTrigger", "5"),
    (OF_FLINK, "scan.max-records-per-batch", "5"),
    (OF_FLINK, "scan.max-bytes-per-batch", "1 mb"),
    (OF_FLINK, "scan.watermark.alignment.max-drift", "1 min"),
]


def test_each_limit_of_a_batch_is_refused() -> None:
    config = source_config()
    of_tasks = {"min_splits", "max_records_per_split"}
    limits = [
        each.name
        for each in dataclasses.fields(config)
        if each.name.startswith(("max_", "min_")) and each.default is None and each.name not in of_tasks
    ]
    assert len(limits) >= 4
    for name in limits:
        limited: Any = {name: 1}
        with pytest.raises(OptionError, match="limits a batch"):
            check_limits(dataclasses.replace(config, **limited))


@pytest.mark.parametrize(("options", "name", "text"), LIMITED)
def test_a_limit_is_refused_unless_the_trigger_is_known(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], name: str, text: str
) -> None:
    monkeypatch.setattr(_reads, "PLANS_WITH_LIMITS", False)
    monkeypatch.setattr(check_options, "PLANS_WITH_LIMITS", False)
    limited = options | {name: text}
    with pytest.raises(OptionError, match=rf"'{name}' limits a batch.*Nothing was read\..*'scan\.trigger'"):
        _reads.streaming_read(limited, VALUE)
    config = parse_read(limited, streaming=True)
    with pytest.raises(OptionError, match=r"'scan\.trigger'"):
        check_options.check_read(config, limited, VALUE, streaming=True, is_planned_here=True)
    known = limited | {"scan.trigger": "processing-time"}
    assert isinstance(_reads.streaming_read(known, VALUE), OlderStreamReader)
    check_limits(parse_read(options, streaming=True).source)
    _reads.batch_read(limited, VALUE)


def test_spark_that_tells_the_trigger_takes_limits() -> None:
    limited = _reads.streaming_read(OF_SPARK | {"maxOffsetsPerTrigger": "5"}, VALUE)
    assert not isinstance(limited, OlderStreamReader)
    assert _reads.streaming_read(OF_SPARK | {"scan.trigger": "processing-time"}, VALUE)


def test_a_failed_read_shows_its_reason_when_it_gets_no_arguments() -> None:
    with pytest.raises(OptionError, match="reason"):
        FailedStreamReader(OptionError("reason")).latestOffset()


def test_made_rows_go_on_too() -> None:
    rate = "'number-of-rows' = '9', 'rows-per-second' = '1000000'"
    table = parse_statement(f"CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen', {rate})")
    assert isinstance(table, CreateTable)

    def stream() -> OlderStream:
        return OlderStream(plan_of(table), VALUE)

    first = stream()
    ends: list[dict[str, Any]] = [first.latestOffset()]
    while ends[-1] not in ends[:-1]:
        ends.append(first.latestOffset())
    assert ends[-1]["row"] == 9
    again = stream()
    again.partitions(ends[0], ends[0])
    assert again.latestOffset()["seed"] == ends[0]["seed"]


def test_made_rows_refuse_a_restarted_query_whose_end_is_asked_for_too_early() -> None:
    """The planned end has another seed, so the batch would make other rows."""
    rate = "'number-of-rows' = '9', 'rows-per-second' = '1000000'"
    table = parse_statement(f"CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen', {rate})")
    assert isinstance(table, CreateTable)
    last = OlderStream(plan_of(table), VALUE).latestOffset()
    again = OlderStream(plan_of(table), VALUE)
    again.latestOffset()
    with pytest.raises(UnsupportedOptionError, match="triggerAvailableNowWrapper"):
        again.partitions(last, last)


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError, match=r"needs PySpark 4\.0\.1 or newer .* has none"):
        _pyspark.check_pyspark()


def test_an_older_pyspark_is_named_with_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    with pytest.raises(ImportError, match=r"needs PySpark 4\.0\.1 .* found PySpark [\d.]+ in /.*pyspark"):
        _pyspark.check_pyspark()


def test_a_public_name_says_that_pyspark_is_missing() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import penstock; penstock.write_batch"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert f"penstock needs PySpark 4.0.1 or newer for this, and {sys.executable} has none." in done.stderr


OLDER_PYSPARK = """
import sys

class Older:
    def find_spec(self, name, path=None, target=None):
        if name == "pyspark.sql.datasource":  # Python makes an ImportError of it if it is a name of `from`
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Older())
import penstock, penstock.flink
KAFKA = {"bootstrap.servers": "unused:1"}
"""
USES = [
    "penstock.changelog.normalize",
    "penstock.KafkaSource.builder()",
    "penstock.KafkaSink.builder()",
    "penstock.changelog.materialize",
    "penstock.flink.legacy.FlinkKafkaConsumer('t', penstock.flink.SimpleStringSchema(), KAFKA).source()",
    "from penstock.sql import Session",
]


def test_each_way_in_says_that_pyspark_is_too_old() -> None:
    """PySpark 3.5 has `pyspark.sql` without `datasource`."""
    program = (
        OLDER_PYSPARK
        + f"""
for use in {USES}:
    try:
        exec(use)
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("no error", use)
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=PATIENCE_S
    )
    wanted = "UnfitPackageError penstock needs PySpark 4.0.1 or newer for this, and found PySpark "
    assert [line[: len(wanted)] for line in done.stdout.splitlines()] == [wanted] * len(USES)
