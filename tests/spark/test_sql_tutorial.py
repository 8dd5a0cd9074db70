"""The commands of docs/sql-tutorial.md run as printed, with a broker of their own on a free port.

The checks of docs/sql-production.md run on its topics and its job, and the prompt of docs/sql-jobs.md.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.devbroker.background import stop_in_background
from penstock.devbroker.cluster import free_ports
from penstock.devbroker.paths import cache_folder
from penstock.devbroker.state import StateFolder
from tests.fix_spark import spark_settings
from tests.printed import DOCS, Here, section
from tests.waiting import wait_until

PAGE = (DOCS / "sql-tutorial.md").read_text(encoding="utf-8")
WAIT_S = 240
INTERRUPTED = 130


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """A shell whose development broker and settings of Spark are those of the test."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars").symlink_to(cache_folder() / "jars")
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    settings = "\n".join(f"{key} {value}" for key, value in spark_settings(tmp_path).items())
    (tmp_path / "spark-defaults.conf").write_text(settings)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    port = str(free_ports(1)[0])
    names = {"9092": port, "localhost:9092": f"127.0.0.1:{port}", "broker:9092": f"127.0.0.1:{port}"}
    try:
        yield Here(tmp_path, {**names, "/tmp/": f"{tmp_path}/"})  # noqa: S108 - the text of the page
    finally:
        stop_in_background(StateFolder())


def script(heading: str) -> str:
    """Return the first script of a section."""
    found: str = re.findall(r"```sql\n(.*?)```", PAGE.partition(f"\n## {heading}\n")[2], re.DOTALL)[0]
    return found


def stop(job: subprocess.Popen[str]) -> None:
    """End a job with Ctrl-C, as the page says."""
    job.send_signal(signal.SIGINT)
    said, _ = job.communicate(timeout=WAIT_S)
    assert job.returncode == INTERRUPTED, said


def test_the_commands_of_the_page_show_and_write_the_totals(
    spark: SparkSession, here: Here, tmp_path: Path
) -> None:
    """Two orders are produced. The last change of their group has both, and later their windows."""
    (tmp_path / "try.sql").write_text(here.placed(script("Try it")))
    (tmp_path / "job.sql").write_text(here.placed(script("A job")))
    *commands, show = section("sql-tutorial.md", "Try it")
    assert show == "penstock sql try.sql"
    for command in commands:
        here.shell(here.placed(command))
    job = here.start("sql-tutorial.md", "penstock sql try.sql")
    assert job.stdout is not None
    lines = list(iter_until(job, "[a, 2, 6.50]\n"))
    stop(job)
    assert lines[-1].endswith("[a, 2, 6.50]\n"), "".join(lines)

    words = shlex.split(here.line("sql-production.md", "penstock sql --explain job.sql"))
    shown = CliRunner().invoke(app, [*words[1:-1], str(tmp_path / words[-1])])  # in the session of the test
    assert (shown.exit_code, spark.streams.active) == (0, []), shown.output
    assert "at-least-once" in shown.output
    said = here.run("sql-production.md", "penstock doctor --bootstrap-server broker:9092")
    assert "good     topic orders" in said
    assert "good     Spark worker" in said

    job = here.start("sql-tutorial.md", "penstock sql job.sql")
    later = {"value": '{"id": 3, "shop": "b", "amount": 1}', "timestamp": int(time.time() * 1_000) + 90_000}
    # A record of later takes the place of the wait until the minute is over.
    here.shell(f"echo {shlex.quote(json.dumps(later))} | penstock produce --json orders")
    rows: list[dict[str, float]] = []

    def is_counted() -> bool:
        assert job.poll() is None, job.communicate()[0]
        rows[:] = map(json.loads, here.run("sql-tutorial.md", "penstock cat totals").splitlines()[:-1])
        return sum(row["n"] for row in rows) == len(commands) - 2

    wait_until(is_counted, "the totals of both orders", timeout_s=WAIT_S)
    assert sum(row["total"] for row in rows) == 6.5
    stop(job)


def iter_until(job: subprocess.Popen[str], end: str) -> Iterator[str]:
    """Yield the lines of a job up to one with this end."""
    assert job.stdout is not None
    for line in job.stdout:
        yield line
        if line.endswith(end):
            return


def test_the_prompt_of_the_page_answers(spark: SparkSession, tmp_path: Path) -> None:
    words = shlex.split(Here(tmp_path, {}).line("sql-jobs.md", "penstock sql"))
    assert spark.version
    found = CliRunner().invoke(app, words[1:], input="SELECT 1 + 1;\n")
    assert (found.exit_code, found.stdout.splitlines()[-1]) == (0, "+I[2]"), found.output
