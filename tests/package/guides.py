"""Time the guides from an empty machine to a running exactly-once job: `python -m tests.package.guides`.

The machine is that of `first_record.py`: a new user, an empty home, no compiler, no checkout, and nothing in
a cache. One environment and one broker serve all guides. Each program is that of its page, as printed but for
the broker, the topics, the folders, and where the page itself says what to change. A guide ends when its
target has what it should have, and its seconds count from its topics on. Invariant: leaves no
user, no broker and no file behind, and fails if a target has another content.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from penstock.devbroker.cluster import free_ports
from tests.package.first_record import SHELL, Stranger, path_without_compilers, stranger
from tests.package.installed import built
from tests.postgresql import running_postgresql, why_not

DOCS = Path(__file__).parents[2] / "docs"
EXTRAS = "spark,cli,sql,delta,iceberg,postgresql"
CATALOG = "pyiceberg[sql-sqlite]"
"""The extra of pyiceberg for a catalog in SQLite."""
WAIT_S = 400
SPARKS_LIMIT = "Python worker failed to connect back|Timed out while waiting for the Python worker"
ORDERS = ("one", "two", "three")
CHANGES = (
    '{"before":null,"after":{"id":1,"name":"pen"},"op":"c"}',
    '{"before":null,"after":{"id":2,"name":"ink"},"op":"c"}',
    '{"before":{"id":1,"name":"pen"},"after":{"id":1,"name":"pens"},"op":"u"}',
    '{"before":{"id":2,"name":"ink"},"after":null,"op":"d"}',
)
"""What Debezium writes of a table in which the row 1 is left."""
MINUTE_MS = 60_000
BEGIN_MS = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 10 * MINUTE_MS
"""A minute that is over. Kafka soon deletes records whose timestamps are older than a topic keeps them."""
SQL_ORDERS = tuple(
    json.dumps({"value": json.dumps(order), "timestamp": BEGIN_MS + after_ms})
    for after_ms, order in (
        (0, {"id": 1, "shop": "a", "amount": 2.5}),
        (10_000, {"id": 2, "shop": "a", "amount": 4.0}),
        (90_000, {"id": 3, "shop": "b", "amount": 1.0}),
    )
)
"""Two orders of a minute, and one that is late enough to close it. Times take the place of the wait."""
SQLITE = 'SqlTable("customers", lambda: sqlite3.connect("/tmp/copies.db"), "sqlite")'
DATABASE = "host=db dbname=copies user=app"
"""The PostgreSQL of the page. One of `tests/postgresql.py` takes its place."""
SERVICE = '{"type": "rest", "uri": "https://catalog:8181"}'
"""The catalog of the page. One in SQLite takes its place."""
CATALOG_HERE = '{"type": "sql", "uri": "sqlite:////tmp/catalog.db", "warehouse": "file:///tmp/iceberg"}'
OPENED = (
    "from pyiceberg.catalog.sql import SqlCatalog; c = SqlCatalog('default', uri='sqlite:///catalog.db'); "
)
NAMESPACE = f"{OPENED}c.create_namespace('shop')"
ROWS = {
    "SQLite": "import sqlite3; rows = sqlite3.connect('copies.db').execute('SELECT * FROM customers'); "
    "print(rows.fetchall())",
    "Delta": "import deltalake; print([tuple(each.values()) for each in "
    "deltalake.DeltaTable('lake/customers').to_pyarrow_table().select(['id', 'name']).to_pylist()])",
    "Iceberg": f"{OPENED}print([(each['id'], each['name']) for each in "
    "c.load_table('shop.customers').scan().to_arrow().to_pylist()])",
    "PostgreSQL": f"import psycopg; c = psycopg.connect('{DATABASE}'); "
    "print(c.execute('TABLE customers').fetchall())",
}

RUN = f"""run() {{
  for attempt in 1 2 3; do
    case "$1" in
      *.sql) penstock sql "$1" > "$1.log" 2>&1 & ;;
      *) python "$1" > "$1.log" 2>&1 & ;;
    esac
    echo $! > "$1.pid"
    wait $! && return 0
    grep -qE '{SPARKS_LIMIT}' "$1.log" || return 1
    echo "started again: $1" >&2
  done
  return 1
}}"""
"""Runs a program, and again if the machine was too busy for Spark, as docs/troubleshooting.md says."""


@dataclass(frozen=True)
class Guide:
    """A program of a page, what its topics have before, and how its target is looked at."""

    name: str
    page: str
    heading: str
    topics: tuple[str, ...]
    records: tuple[str, ...]
    shows: str
    """A command that prints the content of the target."""
    wanted: str
    changed: tuple[tuple[str, str], ...] = ()
    """Texts of the program, and what the page says to write in their place."""
    language: Literal["python", "sql"] = "python"
    produced: str = ""
    """Options of `penstock produce`."""
    before: str = ""
    """A command that makes what the page expects to be there, beside the topics."""

    @property
    def file(self) -> str:
        """The name of the program's file."""
        return f"{self.topics[-1]}.{'sql' if self.language == 'sql' else 'py'}"

    def program(self) -> str:
        """Return the program of the section."""
        code = block(self.page, self.heading, self.language)
        for old, new in self.changed:
            assert old in code, f"{self.page} has no {old!r}"
            code = code.replace(old, new)
        return code


def block(page: str, heading: str, language: str) -> str:
    """Return the first block of a section in this language."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    code: str = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[0]
    return code


def sql(
    name: str, heading: str, topic: str, target: str, shows: str, wanted: str, *changed: tuple[str, str]
) -> Guide:
    return Guide(
        name,
        "sql-tutorial.md",
        heading,
        (topic, target),
        SQL_ORDERS,
        shows,
        wanted,
        (*changed, ("'topic' = 'orders'", f"'topic' = '{topic}'")),
        "sql",
        "--json",
    )


def exactly_once_table() -> tuple[str, str]:
    """Return the table that the job of the tutorial writes, and what the page puts in its place."""
    [table] = re.findall(r"CREATE TABLE totals.*?;\n", block("sql-tutorial.md", "A job", "sql"), re.DOTALL)
    return table, block("sql-tutorial.md", "Write it exactly once", "sql")


def copied(topic: str) -> str:
    return f"penstock cat {topic} 2>/dev/null | sort | xargs"


def table(kind: str) -> str:
    return f"python -c {shlex.quote(ROWS[kind])} 2>/dev/null"


def cdc(kind: str, *changed: tuple[str, str], before: str = "") -> Guide:
    topic = f"shop.public.{kind.lower()}"
    return Guide(
        f"CDC into {kind}",
        "cdc-tutorial.md",
        "Your own topic",
        (topic,),
        CHANGES,
        table(kind),
        "[(1, 'pens')]",
        (
            ("shop.public.customers", topic),
            ("/tmp/customers", f"/tmp/{kind}"),  # noqa: S108 - the text of the page
            (").start()", ").trigger(availableNow=True).start()"),
            *changed,
        ),
        before=before,
    )


def postgresql_target() -> str:
    """Return the target that the page's table has for PostgreSQL."""
    [target] = re.findall(
        r"^\| PostgreSQL.*? \| `(.*)` \|$",
        (DOCS / "cdc-tutorial.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    return str(target)


GUIDES = (
    Guide(
        "from Spark's connector",
        "from-spark.md",
        "A whole job",
        ("spark-orders", "spark-orders-copy"),
        ORDERS,
        copied("spark-orders-copy"),
        "one three two",
        (('"orders"', '"spark-orders"'), ('"orders-copy"', '"spark-orders-copy"')),
    ),
    Guide(
        "from PyFlink",
        "from-flink.md",
        "A whole job",
        ("orders", "orders-copy"),
        ORDERS,
        copied("orders-copy"),
        "one three two",
    ),
    Guide(
        "milliseconds (a continuous query)",
        "continuous.md",
        "Start one",
        ("ms-orders", "ms-orders-copy"),
        ORDERS,
        copied("ms-orders-copy"),
        "one three two",
        (
            ('"orders"', '"ms-orders"'),
            ('"orders-copy"', '"ms-orders-copy"'),
            ('"orders-copier"', '"ms-copier"'),
        ),
    ),
    cdc("SQLite"),
    cdc(
        "Delta",
        ("from penstock.targets import SqlTable", "from penstock.targets import DeltaTable"),
        (SQLITE, 'DeltaTable("lake/customers")'),
    ),
    cdc(
        "Iceberg",
        (f"target = {SQLITE}\n", block("materialize.md", "IcebergTable", "python")),
        (SERVICE, CATALOG_HERE),
        before=f"python -c {shlex.quote(NAMESPACE)}",
    ),
    cdc("PostgreSQL", ("import sqlite3\n", "import psycopg\n"), (SQLITE, postgresql_target())),
    sql(
        "Flink SQL, a first table",
        "Try it",
        "sql-orders",
        "sql-none",
        "grep -o '\\[a, 2, 6.50\\]' sql-none.sql.log | tail -n 1",
        "[a, 2, 6.50]",
    ),
    sql(
        "Flink SQL, a job that writes exactly once",
        "A job",
        "job-orders",
        "job-totals",
        copied("job-totals"),
        f"{{b:{datetime.fromtimestamp(BEGIN_MS / 1000):%Y-%m-%d %H:%M:%S},shop:a,n:2,total:6.5}}",  # noqa: DTZ006 - of the zone of this machine, as the job's
        exactly_once_table(),
        ("'topic' = 'totals'", "'topic' = 'job-totals'"),
    ),
)


def commands(guide: Guide, number: int, home: Path, port: str, database: str) -> list[str]:
    """Return the lines of the shell that run a guide, with the time before and after it."""
    file = guide.file
    places = {"localhost:9092": f"127.0.0.1:{port}", "/tmp/": f"{home}/", DATABASE: database}  # noqa: S108
    code = guide.program()
    for place, here in places.items():
        code = code.replace(place, here)
    records = " ".join(map(shlex.quote, guide.records))
    shows, wanted = guide.shows.replace(DATABASE, database), shlex.quote(guide.wanted)
    return [
        f"printf '%s' {shlex.quote(code)} > {file}",
        f'echo "===== {number} $EPOCHREALTIME"',
        f"penstock topics create {' '.join(guide.topics)}",
        guide.before,
        f"printf '%s\\n' {records} | penstock produce {guide.produced} {guide.topics[0]}",
        f"run {file} & job=$!",
        f'until found=$({shows}); [ "$found" = {wanted} ]; do',
        f"  kill -0 $job 2>/dev/null || wait $job || {{ tail -n 30 {file}.log; exit 1; }}",
        f'  [ $SECONDS -lt {WAIT_S * (number + 3)} ] || {{ tail -n 30 {file}.log; echo "$found"; exit 1; }}',
        "  sleep 0.2",
        "done",
        'echo "===== end $EPOCHREALTIME"',
        # A shell without a terminal lets its background processes ignore SIGINT.
        f"kill $(cat {file}.pid) 2>/dev/null || true",
        "wait $job || true",
        # The end of the program has added nothing.
        f"[ \"$({shows})\" = {wanted} ] || {{ echo 'the target has changed'; exit 1; }}",
    ]


def script(guides: Sequence[Guide], home: Path, wheel: Path, database: str) -> str:
    """Return the commands of the whole walk."""
    [port] = free_ports(1)
    lines = [
        "set -eo pipefail",
        RUN,
        f"cd {home}",
        "trap 'penstock broker stop >&2 || true' EXIT",
        'echo "===== install $EPOCHREALTIME"',
        "python3 -m venv .venv && . .venv/bin/activate",
        f"pip install --quiet '{wheel}[{EXTRAS}]' '{CATALOG}'",
        'echo "===== end $EPOCHREALTIME"',
        'echo "===== broker $EPOCHREALTIME"',
        f"penstock broker start --port {port}",
        'echo "===== end $EPOCHREALTIME"',
    ]
    for number, guide in enumerate(guides):
        lines += commands(guide, number, home, str(port), database)
    return "\n".join(lines)


def seconds_of(said: str) -> dict[str, float]:
    """Return the seconds of each part."""
    found = re.findall(r"^===== (\w+) ([\d.]+)$.*?^===== end ([\d.]+)$", said, re.DOTALL | re.MULTILINE)
    return {name: float(end) - float(begin) for name, begin, end in found}


@contextlib.contextmanager
def database_of(guides: Sequence[Guide]) -> Iterator[str]:
    """Start a PostgreSQL if a guide has one, and yield how to connect to it."""
    if not any(DATABASE in guide.program() for guide in guides):
        yield ""
        return
    with running_postgresql(free_ports(1)[0]) as database:
        yield database


def walk(
    guides: Sequence[Guide], who: Stranger, wheel: Path, variables: dict[str, str], database: str
) -> str:
    """Run the commands as the stranger. Return what they print."""
    done = subprocess.run(
        [*who.prefix, SHELL, "-c", script(guides, who.home, wheel, database)],
        check=False,
        capture_output=True,
        text=True,
        cwd=who.home,
        env=variables,
    )
    if done.returncode:
        sys.exit(f"A guide failed:\n{done.stdout[-6_000:]}\n{done.stderr[-4_000:]}")
    return done.stdout


def run(guides: Sequence[Guide], wheel: Path, python: Path) -> None:
    """Walk the guides, and print their seconds."""
    with stranger() as who, tempfile.TemporaryDirectory() as folder, database_of(guides) as database:
        Path(folder).chmod(0o755)
        brought = Path(folder) / wheel.name
        shutil.copy(wheel, brought)
        path = path_without_compilers(Path(folder), python)
        variables = {"HOME": str(who.home), "PATH": str(path), "LANG": "C.UTF-8"}
        times = seconds_of(walk(guides, who, brought, variables, database))
    before = times["install"] + times["broker"]
    say(f"{times['install']:6.0f} s  environment, pip install of the wheel with [{EXTRAS}]")
    say(f"{times['broker']:6.0f} s  the broker, which downloads Kafka")
    for number, guide in enumerate(guides):
        seconds = times[str(number)]
        say(f"{seconds:6.0f} s  {guide.name}; {before + seconds:.0f} s from the empty machine")
    say(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Build the wheel if there is none, and walk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="builds nothing, and tries this one")
    parser.add_argument(
        "--python", type=Path, default=Path("/usr/bin/python3"), help="one that every user can run"
    )
    parser.add_argument("--only", default="", help="a pattern of names of guides")
    given = parser.parse_args()
    guides = [each for each in GUIDES if re.search(given.only, each.name)]
    if any(DATABASE in each.program() for each in guides) and (reason := why_not()):
        guides = [each for each in guides if DATABASE not in each.program()]
        say(f"the guides with PostgreSQL are left out: {reason}")
    if not guides:
        parser.error(f"no guide has a name with {given.only!r}")
    with tempfile.TemporaryDirectory() as folder:
        run(guides, given.wheel.resolve() if given.wheel else built(Path(folder)), given.python.absolute())


if __name__ == "__main__":
    main()
