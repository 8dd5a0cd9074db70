"""Fixtures of real Spark: a classic session, and a Spark Connect server in a process of its own.

Invariant: one session of each kind for a run, started by the first test that asks for it; no test leaves a
streaming query behind; no JVM outlives the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.quick_start.python import quick_python
from tests import quick_jvm
from tests.jars import spark_avro_jars, spark_kafka_connector_jars

if TYPE_CHECKING:  # unit tests load this module too, and need no Spark
    from pyspark.sql import SparkSession

_SERVER_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 120.0
_STREAMING = "org.apache.spark.sql.execution.streaming"
_PACKAGE = _STREAMING if version("pyspark").startswith("4.0.") else f"{_STREAMING}.checkpointing"


def pytest_configure(config: pytest.Config) -> None:
    quick_jvm.quicken(os.environ)
    # PySpark leaves sockets and pipes of its gateway to the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore:unclosed.*:ResourceWarning")
    config.addinivalue_line("filterwarnings", "ignore:subprocess .* is still running:ResourceWarning")
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:pyspark.*")
    config.addinivalue_line("filterwarnings", "ignore::FutureWarning:pyspark.*")


def add_jars(environment: MutableMapping[str, str]) -> None:
    """Give a Spark that is started with this environment its own Kafka source and Avro functions.

    They come last on its class path. Other jars before Spark's own would make Java ignore the archive of
    `quick_jvm`.
    """
    jars = (*spark_kafka_connector_jars(version("pyspark")), *spark_avro_jars())
    environment["SPARK_DIST_CLASSPATH"] = os.pathsep.join(map(str, jars))


def spark_settings(folder: Path) -> dict[str, str]:
    """Settings of a small local Spark."""
    return {
        "spark.master": "local[2]",
        "spark.app.name": "penstock-tests",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": quick_jvm.OPTIONS,
        "spark.local.dir": str(folder / "local"),
        "spark.python.worker.reuse": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.stopTimeout": "60s",
        # Spark's usual one starts a process for each look at a local file.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_PACKAGE}.FileSystemBasedCheckpointFileManager",
        "spark.ui.enabled": "false",
        # Spark forgets executions early, as it does late in a long session, so each order of tests meets it.
        "spark.sql.ui.retainedExecutions": "5",
        "spark.ui.showConsoleProgress": "false",
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The classic session of the run."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = quick_python()
    add_jars(os.environ)
    builder: Any = SparkSession.builder
    for key, value in spark_settings(tmp_path_factory.mktemp("spark")).items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    end_jvm()


def end_jvm() -> None:
    """Stop Spark here. PySpark does it at the end of the interpreter, when a failure is not visible."""
    from pyspark import SparkContext  # noqa: PLC0415 - lazy

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_STOP_TIMEOUT_S)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server that runs in a process of its own."""
    folder = tmp_path_factory.mktemp("spark-connect")
    arguments = [f"{key}={value}" for key, value in spark_settings(folder).items()]
    environment = {**os.environ, "PYSPARK_PYTHON": quick_python(), "PYSPARK_DRIVER_PYTHON": quick_python()}
    add_jars(environment)
    log_file = folder / "server.log"
    with (
        log_file.open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.connect_server", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=Path(__file__).parent.parent,
        ) as server,
    ):
        assert server.stdout is not None
        assert server.stdin is not None
        url = server.stdout.readline().strip()
        assert url.startswith("sc://"), f"the server did not start: {log_file.read_text()}"
        yield url
        server.stdin.close()
        server.wait(_STOP_TIMEOUT_S)


@pytest.fixture
def connect_spark(connect_url: str) -> Iterator[Any]:
    """A Spark Connect session. It is built directly, because the classic builder allows one kind only."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415 - lazy

    session = ConnectSession.builder.remote(connect_url).create()
    yield session
    session.stop()


@contextmanager
def settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session. Afterwards each has the value that it had."""
    before = session.conf.getAll
    for key, value in values.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in values:
            _restore(session, key, before.get(key))


def _restore(session: SparkSession, key: str, value: str | None) -> None:
    if value is None:
        session.conf.unset(key)
    else:
        session.conf.set(key, value)


@pytest.fixture(autouse=True)
def no_setting_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Find a test that leaves the session of the run with another setting, and restore the setting.

    ADAPTIVE and REUSE are left out: penstock changes them when a query of operators starts.

    A test that unset the number of partitions made each later micro-batch a hundred times as long.
    """
    if "spark" not in request.fixturenames:
        yield
        return
    from penstock.spark.one_thread import ADAPTIVE  # noqa: PLC0415 - lazy
    from penstock.spark.reused_shuffles import REUSE  # noqa: PLC0415 - lazy

    session = request.getfixturevalue("spark")
    text = _text_of_settings(session)
    before = _settings_of(session, text)
    yield
    after = _settings_of(session, _text_of_settings(session))
    changed = {key for key in {*before, *after} - {ADAPTIVE, REUSE} if before.get(key) != after.get(key)}
    left = {key: _value(session, key) for key in changed}
    for key in changed:
        _restore(session, key, before.get(key))
    left = {key: value for key, value in left.items() if _value(session, key) != value}
    assert not left, f"the test left other settings behind: {left}"


def _value(session: SparkSession, key: str) -> str | None:
    """Return what holds for a key, also if it was not set; None if Spark does not know it."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy

    try:
        return session.conf.get(key)
    except PySparkException:
        return None


def _text_of_settings(session: SparkSession) -> str:
    """Return all settings in one call of Java."""
    return str(session.conf._jconf.getAllAsJava().toString())


@lru_cache(maxsize=4)
def _settings_of(session: SparkSession, text: str) -> dict[str, str]:
    """Return the settings whose text this is. That takes some calls of Java for each of them."""
    return session.conf.getAll


@pytest.fixture(autouse=True)
def no_query_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop queries that a test leaves running, because they would disturb later tests."""
    sessions = [request.getfixturevalue(n) for n in ("spark", "connect_spark") if n in request.fixturenames]
    yield
    for session in sessions:
        left = session.streams.active
        for query in left:
            query.stop()
        assert not left, f"the test left streaming queries behind: {[query.name for query in left]}"
