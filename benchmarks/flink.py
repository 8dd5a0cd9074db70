"""Run Flink SQL beside the other systems: `FLINK=1 make bench`.

apache-flink is installed into a virtual environment of its own in the user's cache. The devbroker's Ivy
fetches its Kafka connector. Invariant: Flink reads and writes the same topics as the others, with parallelism
2, object reuse, and the fetch and producer settings of "spark tuned". Its figures do not include planning,
submission and the start of processes. Spark's figures do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pyspark

from penstock.devbroker.ivy import Coordinate
from penstock.devbroker.jars import JarSet, ensure_jars
from penstock.devbroker.paths import cache_folder, locked

FLINK_VERSION = "2.3.0"
CONNECTOR_VERSION = "5.0.0-2.2"
_PYTHONS = ((3, 9), (3, 12))  # that Flink 2.3 is released for
_HERE = Path(__file__).parent
_TIMEOUT_S = 1_200.0  # of one request
CONNECTOR = JarSet(
    name=f"flink-sql-connector-kafka-{CONNECTOR_VERSION}",
    title=f"Flink's Kafka connector {CONNECTOR_VERSION}",
    coordinates=(Coordinate("org.apache.flink", "flink-sql-connector-kafka", CONNECTOR_VERSION),),
    pins_file=str(_HERE / "flink_kafka.sha256"),
)
AVRO = JarSet(
    name=f"flink-sql-avro-confluent-registry-{FLINK_VERSION}",
    title=f"Flink's Avro with a Schema Registry {FLINK_VERSION}",
    coordinates=(Coordinate("org.apache.flink", "flink-sql-avro-confluent-registry", FLINK_VERSION),),
    pins_file=str(_HERE / "flink_avro.sha256"),
)
_READ_TUNING = {
    "properties.max.partition.fetch.bytes": str(8 << 20),
    "properties.fetch.max.bytes": str(64 << 20),
    "properties.max.poll.records": "10000",
    "properties.fetch.max.wait.ms": "10",
}
_WRITE_TUNING = {
    "properties.linger.ms": "20",
    "properties.batch.size": str(256 << 10),
    "properties.compression.type": "lz4",
}
_RAW_KEY_AND_VALUE = {
    "key.format": "raw",
    "key.fields": "key",
    "value.format": "raw",
    "value.fields-include": "EXCEPT_KEY",
}
_ALL_COLUMNS = (
    "`key` BYTES, `value` BYTES, `topic` STRING METADATA VIRTUAL, `partition` INT METADATA VIRTUAL, "
    "`offset` BIGINT METADATA VIRTUAL, `timestamp` TIMESTAMP_LTZ(3) METADATA VIRTUAL, "
    "`timestamp-type` STRING METADATA VIRTUAL"
)
_GENERATED = (
    "LPAD(CAST(id AS STRING), 8, '0'), "
    '\'{"id":\' || CAST(id AS STRING) || \',"name":"customer-\' || CAST(id AS STRING) || '
    "'\",\"amount\":' || CAST(id AS STRING) || '.25}'"
)


def _zstd_jars() -> list[Path]:
    """Return Spark's zstd jar. The connector's Kafka client needs one for zstd topics and brings none."""
    return sorted((Path(pyspark.__file__).parent / "jars").glob("zstd-jni-*.jar"))


def _jars() -> list[Path]:
    return [*ensure_jars(CONNECTOR)[:1], *ensure_jars(AVRO)[:1], *_zstd_jars()]


class FlinkError(Exception):
    """Flink could not be installed or started, or a request failed."""


class FlinkSession:
    """A warm Flink in a child process."""

    def __init__(self, bootstrap_servers: str, jvm_options: str = "") -> None:
        self._bootstrap_servers = bootstrap_servers
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-flink-")
        self._log = Path(self._folder.name) / "flink.log"
        self.environment = _environment(self._folder.name, jvm_options)
        """The variables of a process that runs Flink."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                flink_command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment,
            )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the child process, and with it the JVM."""
        with suppress(BrokenPipeError):  # it has ended already
            _pipe(self._process.stdin).close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:  # its JVM ends with its standard input
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()
        self._folder.cleanup()

    def count(self, topic: str) -> tuple[int, float]:
        """Read all columns of every record into a sink that drops them. Return count and net seconds."""
        columns = _ALL_COLUMNS.replace(" METADATA VIRTUAL", "")
        tables = {
            "records": self._source(topic, _ALL_COLUMNS),
            "nothing": _table(columns, connector="blackhole"),
        }
        answer = self._run(tables, _DROP)
        return answer["read_records"], answer["net_s"]

    def aggregate(self, topic: str, expressions: str, **options: str) -> tuple[tuple[Any, ...], float]:
        """Aggregate raw values."""
        tables = {"records": self._source(topic, "`value` STRING", {"format": "raw"}, options)}
        return self._select(tables, f"SELECT {expressions} FROM records")  # noqa: S608 - ours

    def aggregate_json(self, topic: str, columns: str, expressions: str) -> tuple[tuple[Any, ...], float]:
        """Aggregate typed columns of JSON."""
        tables = {"records": self._source(topic, columns, {"format": "json"})}
        return self._select(tables, f"SELECT {expressions} FROM records")  # noqa: S608 - ours

    def drop(self, topic: str, columns: str, options: Mapping[str, str]) -> tuple[int, float]:
        """Read a table, also of changes, into a sink that drops its rows. Return count and net seconds."""
        tables = {
            "records": self._source(topic, columns, options),
            "nothing": _table(columns, connector="blackhole"),
        }
        answer = self._run(tables, _DROP, "streaming")
        return answer["read_records"], answer["net_s"]

    def aggregate_changes(
        self, topic: str, columns: str, options: Mapping[str, str], expressions: str
    ) -> tuple[Any, ...]:
        """Aggregate the rows that changes leave."""
        tables = {"records": self._source(topic, columns, options)}
        query = f"SELECT {expressions} FROM records"  # noqa: S608 - ours
        return tuple(self._run(tables, query, "mini-batch")["rows"][-1])

    def normalize(self, topic: str, columns: str, key: str, condition: str) -> int:
        """Read an upsert table, with a state in RocksDB, and drop its changes. Return the count.

        A condition that is not of the key needs old rows. Without one Flink leaves ChangelogNormalize out.
        """
        options = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
        tables = {
            "records": _table(
                f"{columns}, PRIMARY KEY ({key}) NOT ENFORCED", **options, **self._reading(topic)
            ),
            "nothing": _table(columns, connector="blackhole"),
        }
        query = f"{_DROP} WHERE {condition}"
        plan = self._ask(action="explain", mode="rocksdb", tables=tables, query=query)["plan"]
        if "ChangelogNormalize" not in plan:
            msg = f"Flink's plan has no ChangelogNormalize:\n{plan}"
            raise FlinkError(msg)
        count: int = self._run(tables, query, "rocksdb")["read_records"]
        return count

    def write(self, topic: str, record_count: int, *, exactly_once: bool) -> float:
        """Write generated rows into a topic. Return net seconds."""
        generator = {
            "connector": "datagen",
            "fields.id.kind": "sequence",
            "fields.id.start": "0",
            "fields.id.end": str(record_count - 1),
            "number-of-rows": str(record_count),
            "rows-per-second": str(10**9),
        }
        output = self._sink(topic, exactly_once=exactly_once)
        tables = {"generated": _table("id BIGINT", **generator), "output": output}
        # A batch job makes all rows before it writes the first. But no other job ends without checkpoints.
        mode = "batch" if exactly_once else "streaming"
        query = f"INSERT INTO output SELECT {_GENERATED} FROM generated"  # noqa: S608 - ours
        net_s: float = self._run(tables, query, mode)["net_s"]
        return net_s

    def copy(self, source: str, target: str, *, checkpoint_ms: int | None = None) -> float:
        """Copy key and value of one topic into another, up to its end now. Return net seconds.

        Args:
            source: of the records.
            target: of the copies.
            checkpoint_ms: copy exactly-once, as a stream, with a checkpoint so often; None: at-least-once,
                as a batch.
        """
        tables = self._copy_tables(source, target, exactly_once=checkpoint_ms is not None)
        mode = "batch" if checkpoint_ms is None else checkpointed(checkpoint_ms)
        net_s: float = self._run(tables, _COPY, mode)["net_s"]
        return net_s

    def script(self, statements: list[str]) -> tuple[float, float]:
        """Run a bounded script as a stream. Return the seconds of its last statement, whole and net."""
        answer = self._ask(action="script", statements=statements)
        return answer["wall_s"], answer["net_s"]

    def nexmark(self, statements: list[str]) -> tuple[float, float, int]:
        """Run a bounded script with Nexmark's settings.

        Returns:
            The seconds of its last statement, whole and net, and the number of records that its sources gave.
        """
        answer = self._ask(action="script", mode="nexmark", statements=statements)
        return answer["wall_s"], answer["net_s"], answer["read_records"]

    def first_row(self, statements: list[str]) -> tuple[float, int]:
        """Run a bounded script. Return the seconds to the first row of its SELECT, and the number of rows."""
        answer = self._ask(action="first_row", statements=statements)
        return answer["wall_s"], answer["row_count"]

    def start_copy(
        self, source: str, target: str, *, linger_ms: int = 0, checkpoint_ms: int | None = None
    ) -> str:
        """Start an endless copy. Return its id.

        Args:
            source: of the records.
            target: of the copies.
            linger_ms: of its producers.
            checkpoint_ms: copy exactly-once, with a checkpoint so often; None: at-least-once, with a
                checkpoint as often as the others have a batch.
        """
        exactly_once = checkpoint_ms is not None
        endless = {"scan.bounded.mode": "unbounded", "properties.group.id": source}
        tables = self._copy_tables(source, target, endless, linger_ms, exactly_once=exactly_once)
        mode = "checkpointed" if checkpoint_ms is None else checkpointed(checkpoint_ms)
        answer = self._ask(action="start", mode=mode, tables=tables, query=_COPY)
        job_id: str = answer["job_id"]
        return job_id

    def cancel(self, job_id: str) -> None:
        """End the job that `start_copy` started."""
        self._ask(action="cancel", job_id=job_id)

    def _copy_tables(
        self,
        source: str,
        target: str,
        reading: Mapping[str, str] | None = None,
        linger_ms: int | None = None,
        *,
        exactly_once: bool = False,
    ) -> dict[str, str]:
        columns = "`key` BYTES, `value` BYTES"
        writing = {} if linger_ms is None else {"properties.linger.ms": str(linger_ms)}
        return {
            "records": self._source(source, columns, _RAW_KEY_AND_VALUE, reading),
            "output": self._sink(target, columns=columns, options=writing, exactly_once=exactly_once),
        }

    def _source(
        self,
        topic: str,
        columns: str,
        formats: Mapping[str, str] = _RAW_KEY_AND_VALUE,
        options: Mapping[str, str] | None = None,
    ) -> str:
        given = {
            "connector": "kafka",
            "scan.startup.mode": "earliest-offset",
            **self._reading(topic),
            **formats,
            **(options or {}),
        }
        return _table(columns, **given)

    def _reading(self, topic: str) -> dict[str, str]:
        """Return the options of a source that ends where the topic ends now."""
        return {
            "topic": topic,
            "properties.bootstrap.servers": self._bootstrap_servers,
            "scan.bounded.mode": "latest-offset",
            **_READ_TUNING,
        }

    def _sink(
        self,
        topic: str,
        *,
        exactly_once: bool = False,
        columns: str = "`key` STRING, `value` STRING",
        options: Mapping[str, str] | None = None,
    ) -> str:
        given = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self._bootstrap_servers,
            **_RAW_KEY_AND_VALUE,
            **_WRITE_TUNING,
            **(options or {}),
        }
        if exactly_once:
            given |= {
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": f"bench-{uuid.uuid4().hex}",
                "properties.transaction.timeout.ms": "600000",
            }
        return _table(columns, **given)

    def _select(self, tables: dict[str, str], query: str) -> tuple[tuple[Any, ...], float]:
        answer = self._run(tables, query)
        (row,) = answer["rows"]
        return tuple(row), answer["net_s"]

    def _run(self, tables: dict[str, str], query: str, mode: str = "batch") -> dict[str, Any]:
        return self._ask(action="run", mode=mode, tables=tables, query=query)

    def _ask(self, **request: Any) -> dict[str, Any]:
        stdin = _pipe(self._process.stdin)
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        watchdog = threading.Timer(_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            line = _pipe(self._process.stdout).readline()
        finally:
            watchdog.cancel()
        answer: dict[str, Any] = json.loads(line or _NO_ANSWER)
        if "error" in answer:
            last = self._log.read_text(errors="replace")[-4_000:]
            msg = f"Flink failed: {answer['error']}\nThe end of its log:\n{last}"
            raise FlinkError(msg)
        return answer


_DROP = "INSERT INTO nothing SELECT * FROM records"
_COPY = "INSERT INTO output SELECT `key`, `value` FROM records"
_NO_ANSWER = json.dumps({"error": f"its process has ended, or gave no answer in {_TIMEOUT_S:.0f} s"})


def checkpointed(interval_ms: int) -> str:
    """Return the mode of a stream with a checkpoint so often. The worker reads the number."""
    return f"checkpoints {interval_ms} ms"


def flink_python() -> Path:
    """Return the Python of the environment that has apache-flink. Create the environment if it is missing."""
    lowest, highest = _PYTHONS
    if not lowest <= sys.version_info[:2] <= highest:
        msg = f"apache-flink {FLINK_VERSION} runs on Python 3.9 to 3.12; run the benchmark with one of these."
        raise FlinkError(msg)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = cache_folder() / f"apache-flink-{FLINK_VERSION}-python{version}"
    python, done = folder / "bin" / "python", folder / "installed"
    with locked(folder.with_suffix(".lock"), timeout_s=1_800, purpose="installing apache-flink"):
        if not done.exists():
            print(
                f"installing apache-flink {FLINK_VERSION} (about 900 MB), once for this user, into {folder}"
            )
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            install = [str(python), "-m", "pip", "install", "--quiet", f"apache-flink=={FLINK_VERSION}"]
            subprocess.run(install, check=True)
            done.touch()
    return python


def flink_command(statements: Sequence[str] = ()) -> list[str]:
    """Return the command of a process that waits for requests, or that runs statements and prints rows."""
    command = [str(flink_python()), "-I", str(_HERE / "flink_worker.py")]
    return [*command, json.dumps(statements)] if statements else command


def _environment(folder: str, jvm_options: str) -> dict[str, str]:
    return {
        **os.environ,
        # On Flink's own class path, like its lib folder, so that the JIT compiler's work is kept.
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, _jars())),
        "FLINK_LOG_DIR": folder,
        "JVM_ARGS": f"-Xmx4g {jvm_options}",  # as much as Spark's driver
    }


def _table(columns: str, **options: str) -> str:
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"({columns}) WITH ({given})"


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
