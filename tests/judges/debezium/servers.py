"""A PostgreSQL and a Kafka Connect with Debezium's connector, as child processes that a hunt kills.

Invariants: the jars are fetched by their coordinates and checked, as those of the broker are. Both processes
have ended when their contexts end.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.devbroker.cluster import free_ports
from penstock.devbroker.ivy import Coordinate
from penstock.devbroker.jars import JarSet, ensure_jars
from penstock.devbroker.java import find_java
from tests.judges.debezium.registry import Registry, plugin_path

DEBEZIUM_VERSION = "3.0.8.Final"
_CONNECT_VERSION = "3.9.0"
_JARS = JarSet(
    name=f"debezium-connector-postgres-{DEBEZIUM_VERSION}",
    title=f"Debezium {DEBEZIUM_VERSION}",
    coordinates=(
        Coordinate("io.debezium", "debezium-connector-postgres", DEBEZIUM_VERSION, is_transitive=True),
        Coordinate("org.apache.kafka", "connect-runtime", _CONNECT_VERSION, is_transitive=True),
        Coordinate("org.apache.kafka", "connect-json", _CONNECT_VERSION, is_transitive=True),
        Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36", is_transitive=True),
    ),
    pins_file=str(Path(__file__).parent / "debezium.sha256"),
)
_LOGGING = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
PREFIX = "shop"
TABLE = "goods"
TOPIC = f"{PREFIX}.public.{TABLE}"
SIGNALS = "public.debezium_signal"
SLOT = "debezium"


def find_postgresql() -> Path:
    """Return the folder of PostgreSQL's programs. End the process with a message if there is none."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        sys.exit("Skipped: there is no PostgreSQL on this machine (on Debian the package postgresql).")
    return folders[-1]


@contextmanager
def running_postgresql(programs: Path, folder: Path) -> Iterator[str]:
    """Start a PostgreSQL that writes a logical log, and yield how to connect to it."""
    user = "postgres" if os.geteuid() == 0 else None  # it does not run as root
    home = folder / "postgresql"
    home.mkdir()
    if user is not None:
        shutil.chown(home, pwd.getpwnam(user).pw_uid)
        folder.chmod(0o711)  # the user has to reach it
    (port,) = free_ports(1)
    settings = f"-F -h 127.0.0.1 -p {port} -k {home} -c wal_level=logical -c shared_buffers=16MB"

    def run(*command: object) -> None:
        subprocess.run(
            [str(each) for each in command], check=True, stdout=subprocess.DEVNULL, cwd=home, user=user
        )

    data = home / "data"
    run(programs / "initdb", *f"-D {data} -U penstock -A trust --no-sync --locale=C.UTF-8 -E UTF8".split())
    control = (programs / "pg_ctl", "-D", data, "-w")
    run(*control, "-l", home / "log", "-o", settings, "start")
    try:
        yield f"host=127.0.0.1 port={port} user=penstock"
    finally:
        run(*control, "-m", "immediate", "stop")


def _json(of: str, has_schema: bool) -> dict[str, str]:
    """Return the settings of a converter that writes JSON."""
    return {
        f"{of}.converter": "org.apache.kafka.connect.json.JsonConverter",
        f"{of}.converter.schemas.enable": str(has_schema).lower(),
        # Otherwise a NULL in a column with a default becomes the default.
        f"{of}.converter.replace.null.with.default": "false",
    }


class Connect:
    """Kafka Connect with one connector. It keeps its offsets over kills, as a user's does."""

    def __init__(
        self,
        bootstrap: str,
        dsn: str,
        folder: Path,
        *,
        has_schema: bool,
        connector: Mapping[str, str] | None = None,
        key_schema: bool = False,
        registry: Registry | None = None,
    ) -> None:
        self._folder = folder / "connect"
        self._folder.mkdir()
        self.log_file = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        (port,) = free_ports(1)
        self._write("logging", _LOGGING)
        self._write_properties(
            "worker",
            {
                "bootstrap.servers": bootstrap,
                **(
                    _json("key", key_schema) | _json("value", has_schema)
                    if registry is None
                    else registry.converter("key") | registry.converter("value")
                ),
                **({} if registry is None else {"plugin.path": str(plugin_path(self._folder))}),
                "offset.storage.file.filename": str(self._folder / "offsets"),
                "offset.flush.interval.ms": "10000",
                "listeners": f"http://127.0.0.1:{port}",
            },
        )
        server = dict(part.split("=") for part in dsn.split())
        self._write_properties(
            "connector",
            {
                "name": PREFIX,
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "database.hostname": server["host"],
                "database.port": server["port"],
                "database.user": server["user"],
                "database.password": "unused",
                "database.dbname": "postgres",
                "topic.prefix": PREFIX,
                "slot.name": SLOT,
                "plugin.name": "pgoutput",
                "publication.autocreate.mode": "filtered",
                "table.include.list": f"public.{TABLE}",
                "signal.data.collection": SIGNALS,
                "incremental.snapshot.chunk.size": "16",
                "decimal.handling.mode": "string",
                "skipped.operations": "none",
                "provide.transaction.metadata": "true",
                "heartbeat.interval.ms": "1000",
                "topic.creation.default.replication.factor": "1",
                "topic.creation.default.partitions": "2",
                **(connector or {}),
            },
        )

    def _write(self, name: str, text: str) -> None:
        (self._folder / f"{name}.properties").write_text(text)

    def _write_properties(self, name: str, values: Mapping[str, str]) -> None:
        self._write(name, "".join(f"{key}={value}\n" for key, value in values.items()))

    def start(self) -> None:
        """Start it, if it does not run."""
        if self.is_running():
            return
        files = [str(self._folder / f"{name}.properties") for name in ("worker", "connector")]
        logging = f"-Dlog4j.configuration=file:{self._folder / 'logging.properties'}"
        jars = os.pathsep.join(map(str, ensure_jars(_JARS)))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [str(find_java()), "-Xmx512m", "-XX:TieredStopAtLevel=1", logging, "-cp", jars, main, *files],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, so that it does not store where it stands."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def offsets_stored_since(self, at_ns: int) -> Callable[[], bool]:
        """Return a condition: Connect has stored its offsets after a time."""
        file = self._folder / "offsets"
        return lambda: file.exists() and file.stat().st_mtime_ns > at_ns

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")
