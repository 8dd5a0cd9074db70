"""Continuous queries on real Spark and the real broker."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import penstock
from penstock.cli.app import app
from penstock.client.cluster.log_offsets import commit_offsets
from penstock.client.transactions.steps import Transactions
from penstock.devbroker.cluster import free_ports
from penstock.errors import (
    CheckpointError,
    DecodeError,
    OptionError,
    PenstockError,
    RowError,
    SchemaError,
    UnknownTopicOrPartitionError,
)
from penstock.options.continuous import parse_continuous
from penstock.relay import settings, supervisor
from penstock.relay.driver import PlanDriver
from penstock.relay.notes import plan_note
from penstock.relay.settings import QuerySettings, query_settings
from penstock.types import TopicPartition
from tests import judge
from tests.continuous_copy import PARTITIONS, Copy, writing
from tests.fix_broker import MakeTopic
from tests.unit.relay.thread_job import ThreadJob
from tests.unit.spark.test_continuous_shown import get
from tests.waiting import wait_until


@pytest.fixture
def copy(bootstrap: str, make_topic: MakeTopic) -> Iterator[Copy]:
    made = Copy(bootstrap, make_topic)
    yield made
    made.connections.close()


def even(batch: pa.RecordBatch) -> pa.RecordBatch:
    mask = [int(value.as_py()) % 2 == 0 for value in batch.column("value")]
    return batch.filter(pa.array(mask))


def test_a_query_copies_stops_and_goes_on(spark: SparkSession, copy: Copy) -> None:
    copy.write()
    (port,) = free_ports(1)
    options = copy.options(**{"metrics.http.port": str(port)})
    query = penstock.continuous(spark, options, even, {"topic": copy.target}, name="even")
    url = f"http://127.0.0.1:{port}"
    try:
        copy.await_all()
        copy.write(3)
        copy.await_all()
        wait_until(lambda: get(f"{url}/readyz")[0] == 200, "all tasks are seen")
        records = f"penstock_source_records_total {len(copy.written)}.0"
        wait_until(lambda: records in get(f"{url}/metrics")[1], "the metrics count each record")
        assert penstock.continuous_queries(spark) == [query]
        wait_until(lambda: query.status["numTasksBegun"] == 2, "both tasks are seen")
        wait_until(lambda: query.lastProgress, "a report")
        with pytest.raises(OptionError, match="runs in this program already"):
            penstock.continuous(spark, copy.options(), None, {"topic": copy.target})
        assert query.awaitTermination(0) is False
    finally:
        query.stop()
    assert query.awaitTermination(0) is True
    assert query.exception() is None
    assert penstock.continuous_queries(spark) == []
    assert sum(each["numInputRows"] for each in query.recentProgress) == len(copy.written)
    assert sum(each["numOutputRows"] for each in query.recentProgress) == len(copy.written) / 2
    copy.write()
    again = penstock.continuous(spark, copy.options(), even, {"topic": copy.target})
    try:
        assert again.id == query.id
        assert again.runId != query.runId
        copy.await_all()
    finally:
        again.stop()
    copy.check(lambda record: int(record.value or b"") % 2 == 0)


@contextmanager
def running(
    spark: Any, copy: Copy, function: Any = None, **changes: Any
) -> Iterator[penstock.ContinuousQuery]:
    """Run a query, and stop it at the end."""
    query = penstock.continuous(spark, copy.options(), function, {"topic": copy.target}, **changes)
    try:
        yield query
    finally:
        query.stop()


@pytest.mark.promise
def test_each_record_once_whatever_is_killed(spark: SparkSession, copy: Copy, tmp_path: Path) -> None:
    """Workers are killed while records come, and the query is started a second time beside itself."""
    pids, note_pid = noting_pids(tmp_path)

    copy.write()
    with running(spark, copy, note_pid, lanes=2) as first, writing(copy):
        copy.await_all()
        for _ in range(2):
            generation = first.status["generation"]
            kill_all(pids)
            reached = copy.offset_sum
            wait_until(lambda: first.status["generation"] > generation, "there is another plan")  # noqa: B023
            wait_until(lambda: copy.offset_sum > reached, "its tasks go on")  # noqa: B023
        # As another program does that runs the same query.
        second = PlanDriver(_settings(copy))
        try:
            job = ThreadJob(second.new_plan(None), lambda: None)
            with pytest.raises(PenstockError, match="taken over the consumer group"):
                first.awaitTermination()
            copy.await_all()
        finally:
            second.leave()
            second.close()
        assert job.wait(60)
    with running(spark, copy):
        copy.await_all()
    copy.check()


def _settings(copy: Copy) -> QuerySettings:
    config = parse_continuous(copy.options(), {"topic": copy.target})
    return query_settings(config, lanes=2, commit_interval_ms=20, maker=None)


class Streams:
    """Streams with micro-batches that copy, whose workers die after their rows while a file is there."""

    def __init__(self, spark: SparkSession, copy: Copy, folder: Path) -> None:
        self._spark, self._copy, self._folder = spark, copy, folder
        self.dies = folder / "dies"

    def run(self, checkpoint: str, start: str) -> None:
        """Run a stream up to the present ends."""
        copy, dies = self._copy, self.dies

        def die(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                if dies.exists():
                    os.kill(os.getpid(), signal.SIGKILL)

        rows = self._spark.readStream.format("penstock").options(**{
            "topic": copy.source, "properties.bootstrap.servers": copy.bootstrap,
            "properties.group.id": copy.source, "scan.startup.mode": start,
        }).load().select("key", "value")  # fmt: skip
        sink = {
            "kafka.bootstrap.servers": copy.bootstrap, "topic": copy.target,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": f"{copy.source}-{checkpoint}",
            "checkpointLocation": str(self._folder / checkpoint),
        }  # fmt: skip
        writer = rows.mapInArrow(die, rows.schema).writeStream.format("penstock").options(**sink)
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.promise
def test_a_stream_and_a_continuous_query_take_over_from_each_other(
    spark: SparkSession, copy: Copy, tmp_path: Path
) -> None:
    """There and back, as docs/continuous-take-over.md says. Workers are killed before each change."""
    pids, note_pid = noting_pids(tmp_path)

    streams = Streams(spark, copy, tmp_path)
    run_stream, dies = streams.run, streams.dies

    def take_over(*more: str) -> None:
        folder = str(tmp_path / "first")
        arguments = ["-b", copy.bootstrap, "--checkpoint", folder, "--group", copy.source, *more]
        assert not CliRunner().invoke(app, ["take-over", *arguments], catch_exceptions=False).exit_code

    copy.write()
    run_stream("first", "earliest-offset")
    copy.write()
    dies.touch()
    with pytest.raises(StreamingQueryException):
        run_stream("first", "earliest-offset")
    with pytest.raises(CheckpointError, match="was planned and is not finished"):
        take_over("--yes")
    dies.unlink()
    run_stream("first", "earliest-offset")
    copy.await_all()  # the offsets that a stream commits beside its checkpoint come a moment later
    with pytest.raises(OptionError, match="penstock take-over"), running(spark, copy):
        pass
    take_over("--yes")
    with running(spark, copy, note_pid, lanes=2), writing(copy):
        copy.await_each()
        kill_all(pids)
    copy.write()
    run_stream("second", "group-offsets")
    copy.check()


def test_a_stream_after_a_take_over_repeats_its_first_batch_unless_it_was_read(
    spark: SparkSession, copy: Copy, tmp_path: Path
) -> None:
    """Spark asks for the start again, and for no end. The notes are those of a continuous query."""
    streams, notes = Streams(spark, copy, tmp_path), {copy.source: plan_note(None)}

    def stands_at(offset: int) -> None:
        offsets = dict.fromkeys(copy.places, offset)
        assert commit_offsets(copy.connections, copy.source, offsets, notes=notes) == {}

    stands_at(0)
    copy.write()
    streams.dies.touch()
    with pytest.raises(StreamingQueryException):
        streams.run("killed", "group-offsets")
    streams.dies.unlink()
    with pytest.raises(OptionError, match="penstock take-over"), running(spark, copy):
        pass
    stands_at(1)
    with pytest.raises(StreamingQueryException, match="a continuous query has read on to offset 1"):
        streams.run("killed", "group-offsets")
    stands_at(0)
    streams.run("killed", "group-offsets")
    copy.check()


def test_at_least_once_writes_everything_and_opens_no_transaction(
    spark: SparkSession, copy: Copy, tmp_path: Path
) -> None:
    pids, note_pid = noting_pids(tmp_path)

    sink = {"topic": copy.target, "sink.delivery-guarantee": "at-least-once"}
    query = penstock.continuous(spark, copy.options(), note_pid, sink)
    try:
        copy.write()
        copy.await_all()
        generation = query.status["generation"]
        kill_all(pids)
        copy.write()
        wait_until(lambda: query.status["generation"] > generation, "there is another plan")
        wait_until(lambda: query.status["numTasksBegun"] == 2, "both tasks are seen")
        copy.await_all()
        names = [name for task in (0, 1) for name in _settings(copy).transactional_ids(task)]
        found = Transactions(copy.connections).describe(names)
        begun = [each for each in found.values() if each is not None]
        assert begun
        assert {each.state.value for each in begun} == {"Empty"}
    finally:
        query.stop()
    written = {each.value for each in judge.consume_all(copy.bootstrap, copy.target)}
    assert written == {each.value for each in copy.written}


def test_an_error_of_the_function_ends_the_query_and_leaves_nothing_open(
    spark: SparkSession, copy: Copy
) -> None:
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("the function does not like this")

    copy.write()
    with running(spark, copy, fails) as query:
        with pytest.raises(PythonException, match="the function does not like this"):
            query.awaitTermination()
        assert isinstance(query.exception(), PythonException)
    with (
        running(spark, copy, lambda batch: batch.num_rows) as query,
        pytest.raises(RowError, match="got int"),
    ):
        query.awaitTermination()
    with running(spark, copy):
        copy.await_all()
    copy.check()


def test_slots_that_are_missing_and_topic_partitions_that_come(
    spark: SparkSession, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session has two slots. Spark says nothing about a third task, which never begins."""
    monkeypatch.setattr(supervisor, "_SLOT_PATIENCE_MS", 2_000)
    monkeypatch.setattr(settings, "_DISCOVERY_MS", 200)
    copy.write()
    with running(spark, copy, tasks=3) as query:
        copy.await_all()
        assert query.status["numTasks"] == 2
        generation = query.status["generation"]
        judge.add_partitions(copy.bootstrap, copy.source, PARTITIONS + 1)
        copy.places.append(TopicPartition(copy.source, PARTITIONS))
        wait_until(lambda: query.status["generation"] > generation, "it is planned again")
        more = [judge.Record(b"%d" % number, key=b"new", partition=PARTITIONS) for number in range(900, 950)]
        copy.written += judge.produce(copy.bootstrap, copy.source, *more)
        copy.await_all()
    copy.check()


def test_on_connect(connect_spark: Any, copy: Copy) -> None:
    copy.write()
    with running(connect_spark, copy, lambda batch: batch.drop_columns(["partition"]), tasks=2) as query:
        copy.await_all()
        assert penstock.continuous_queries(connect_spark) == [query]
    copy.check()


def test_the_examples_of_the_docs_run(spark: SparkSession, copy: Copy) -> None:
    code, typed = re.findall(r"```python\n(.*?)```", Path("docs/continuous.md").read_text(), re.DOTALL)
    code = code.replace("localhost:9092", copy.bootstrap).replace("orders-copier", copy.source)
    code = code.replace('"orders-copy"', repr(copy.target)).replace('"orders"', repr(copy.source))
    code = code.replace("query.awaitTermination()", "")
    scope: dict[str, Any] = {"spark": spark}
    exec(code, scope)  # noqa: S102 - the example
    try:
        copy.write()
        copy.await_all()
    finally:
        scope["query"].stop()
    copy.check()
    typed = typed.replace("localhost:9092", copy.bootstrap).replace('"names"', repr(copy.source + "-typed"))
    typed = typed.replace('"orders-copy"', repr(copy.target)).replace('"orders"', repr(copy.source))
    typed = typed.replace('"format": "json",', '"format": "json", "startingOffsets": "latest",', 1)
    exec(typed, scope)  # noqa: S102 - the same
    try:
        judge.produce(copy.bootstrap, copy.source, b'{"id": 1, "name": "a"}', b'{"id": 0, "name": "b"}')
        found = judge.consume_until(copy.bootstrap, copy.target, len(copy.written) + 1)
    finally:
        scope["query"].stop()
    assert b'{"name":"a"}' in {record.value for record in found}


def json_query(spark: Any, copy: Copy, function: Any, **options: str) -> penstock.ContinuousQuery:
    source, sink = copy.options(format="json", **options), {"topic": copy.target, "format": "json"}
    return penstock.continuous(spark, source, function, sink, schema="id BIGINT", lanes=2)


def write_some_bad(copy: Copy, first: int) -> None:
    """Write 50 records, of which each fifth is bad."""
    values = [b'{"id":%d}' % at if at % 5 else b"bad %d" % at for at in range(first, first + 50)]
    records = [judge.Record(each, partition=at % PARTITIONS) for at, each in enumerate(values)]
    copy.written += judge.produce(copy.bootstrap, copy.source, *records)


def noting_pids(folder: Path) -> tuple[Path, Callable[[pa.RecordBatch], pa.RecordBatch]]:
    """Return a folder, and a function that copies records and notes there in which process."""
    pids = folder / "pids"
    pids.mkdir()

    def note_pid(batch: pa.RecordBatch) -> pa.RecordBatch:
        (pids / str(os.getpid())).touch()
        return batch.drop_columns(["partition"])

    return pids, note_pid


def kill_all(pids: Path) -> None:
    for each in pids.iterdir():
        with suppress(ProcessLookupError):
            os.kill(int(each.name), signal.SIGKILL)
        each.unlink()


@pytest.mark.promise
def test_a_query_that_failed_goes_on_with_dead_letters_once_whatever_is_killed(
    spark: SparkSession, copy: Copy, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Workers are killed while bad records come."""
    dead = make_topic(2, suffix="-dead")
    pids = tmp_path / "pids"
    pids.mkdir()

    def note_pid(batch: pa.RecordBatch) -> pa.RecordBatch:
        (pids / str(os.getpid())).touch()
        return batch

    write_some_bad(copy, 0)
    failing = json_query(spark, copy, note_pid)
    try:
        with pytest.raises(DecodeError, match=rf"topic {copy.source}, partition \d, offset \d"):
            failing.awaitTermination()
    finally:
        failing.stop()
    letters = {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": dead}
    running = json_query(spark, copy, note_pid, **letters)
    try:
        copy.await_all()
        for first in (50, 100):
            generation = running.status["generation"]
            kill_all(pids)
            write_some_bad(copy, first)
            wait_until(lambda: running.status["generation"] > generation, "there is another plan")  # noqa: B023
            copy.await_all()
    finally:
        running.stop()
    bad = [each for each in copy.written if (each.value or b"").startswith(b"bad")]
    found = judge.consume_all(copy.bootstrap, dead)
    assert sorted(each.value or b"" for each in found) == sorted(each.value or b"" for each in bad)
    headers = dict(next(each.headers for each in found if each.value == bad[-1].value))
    assert headers["penstock.dead-letter.topic"] == copy.source.encode()
    assert headers["penstock.dead-letter.partition"] == b"%d" % (bad[-1].partition or 0)
    copy.check(lambda record: record not in bad)


def test_rows_of_formats(spark: SparkSession, copy: Copy) -> None:
    """The function gets decoded rows with metadata. What it returns is brought to the columns of the sink."""
    bad = judge.Record(b"not JSON", partition=0)
    records = [
        judge.Record(b'{"id": %d, "name": "n%d"}' % (number, number), key=b"k", partition=number % PARTITIONS)
        for number in range(90)
    ]
    judge.produce(copy.bootstrap, copy.source, *records[:50], bad, *records[50:])

    def double(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        assert batch.schema.names == ["id", "name", "at"]
        kept = batch.filter(pc.greater_equal(batch["id"], 10))
        doubled = pc.multiply(kept["id"], 2).cast("int32")
        made = pa.RecordBatch.from_arrays([kept["name"], doubled], ["name", "double"])
        half = made.num_rows // 2
        return [made.slice(0, half), made.slice(half)]

    source = copy.options(**{
        "format": "json", "metadata.columns": "at = offset", "scan.on-decode-error": "skip",
        "scan.on-decode-error.max-share": "1",
    })  # fmt: skip
    sink = {"topic": copy.target, "format": "json", "key.format": "json", "key.fields": "double"}
    query = penstock.continuous(
        spark,
        source,
        double,
        sink,
        schema="id BIGINT, name STRING, at BIGINT",
        output_schema="double BIGINT, name STRING",
    )
    try:
        wait_until(lambda: copy.offset_sum == 91, "all is read", progress=lambda: copy.offset_sum)
    finally:
        query.stop()
    reports = query.recentProgress
    assert sum(each["numSkippedRecords"] for each in reports) == query.status["numSkippedRecords"] == 1
    assert sum(each["numInputBytes"] for each in reports) == query.status["numInputBytes"] > 91 * 20
    assert query.status["numDeadLetters"] == query.status["numIgnoredRecords"] == 0
    found = judge.consume_all(copy.bootstrap, copy.target)
    assert {(record.key, record.value) for record in found} == {
        (b'{"double":%d}' % (2 * number), b'{"double":%d,"name":"n%d"}' % (2 * number, number))
        for number in range(10, 90)
    }
    assert len(found) == 80


def test_rows_that_do_not_fit_the_format_are_an_error(spark: SparkSession, copy: Copy) -> None:
    copy.write()
    sink = {"topic": copy.target, "format": "json"}
    with pytest.raises(SchemaError, match="declared columns"):
        penstock.continuous(spark, copy.options(), even, sink)
    with pytest.raises(OptionError, match="`schema`"):
        penstock.continuous(spark, copy.options(), even, {"topic": copy.target}, schema="id INT")
    query = penstock.continuous(spark, copy.options(), even, sink, output_schema="value INT")
    try:
        with pytest.raises(RowError, match="expected the columns value, got key, value"):
            query.awaitTermination()
    finally:
        query.stop()


def test_wrong_arguments_are_errors_before_anything_starts(spark: SparkSession, copy: Copy) -> None:
    sink = {"topic": copy.target}
    for changes, wanted in (
        ({"lanes": 0}, "`lanes`"),
        ({"tasks": 0}, "`tasks`"),
        ({"commit_interval": "2 min"}, "`commit_interval`"),
    ):
        with pytest.raises(OptionError, match=wanted):
            penstock.continuous(spark, copy.options(), None, sink, **changes)
    with pytest.raises(PenstockError, match="does not exist"):
        penstock.continuous(spark, copy.options(), None, {"topic": copy.target + "-x"})
    letters = {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": copy.target + "-x"}
    with pytest.raises(UnknownTopicOrPartitionError, match=r"scan\.dead-letter\.topic"):
        json_query(spark, copy, None, **letters)
    with pytest.raises(OptionError, match=r"bootstrap\.servers"):
        penstock.continuous(spark, copy.options(), None, sink | {"kafka.bootstrap.servers": "other:1"})
