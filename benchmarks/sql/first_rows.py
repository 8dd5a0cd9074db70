"""The time to the first row of a small script, of a new process and of a warm session.

Invariant: both systems run the same text, over the same topic, and give the same number of rows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.flink import flink_command
from benchmarks.harness import Say, WrongAnswerError
from benchmarks.sql.runs import SqlBench, fill, finish, opened
from benchmarks.sql.scripts import FIRST_ROW, ORDERS, filtered, split
from benchmarks.systems import FLINK

SMALL = 1_000
"""Orders of the small script."""
COMMAND, WARM = "first-row-of-a-command", "first-row-of-a-warm-session"
_COMMAND_TIMEOUT_S = 300.0


def measure_first_rows(
    bench: SqlBench, rounds: int, say: Say, kinds: Sequence[str] = (COMMAND, WARM)
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds to the first row of a small script: of a new process, and of a warm session.

    The first round of each warms up: it reads the files of the programs, and Flink or Spark has to load the
    classes.
    """
    source = fill(bench, SMALL)
    text = f"{ORDERS.format(servers=bench.servers, source=source)}{FIRST_ROW};"
    runs = {COMMAND: _command_s, WARM: _warm_s}
    found: dict[str, dict[str, list[float]]] = {kind: {each: [] for each in bench.systems} for kind in kinds}
    for kind in kinds:
        for number in range(rounds + 1):
            for system, seconds in found[kind].items():
                took_s, row_count = runs[kind](bench, system, text)
                if row_count != filtered(SMALL).total():
                    msg = f"{kind}: {system} gives {row_count} rows."
                    raise WrongAnswerError(msg)
                if number:
                    seconds.append(took_s)
                say(f"{kind} {system} {number or 'warm-up'}: {took_s:.2f} s")
    return found


def _command_s(bench: SqlBench, system: str, text: str) -> tuple[float, int]:
    """Start a process for the script. Return the seconds to its first row, and the number of rows."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "job.sql"
        script.write_text(text)
        if system == FLINK:
            assert bench.flink is not None
            command, environment = flink_command(split(text)), bench.flink.environment
        else:
            settings = ("spark.master=local[2]", "spark.sql.shuffle.partitions=2", "spark.ui.enabled=false")
            options = [f"--conf={each}" for each in (*settings, "spark.sql.session.timeZone=UTC")]
            command, environment = [_penstock(), "sql", str(script), *options], None
        with (Path(folder) / "log").open("w+") as log:
            started = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
            watchdog = threading.Timer(_COMMAND_TIMEOUT_S, process.kill)
            watchdog.start()
            try:
                moments = [time.perf_counter() for line in process.stdout or () if line.startswith("+I")]
            finally:
                watchdog.cancel()
                process.wait()
            if process.returncode or not moments:
                log.seek(0)
                msg = f"{system} ended with {process.returncode}:\n{log.read()[-4_000:]}"
                raise WrongAnswerError(msg)
    return moments[0] - started, len(moments)


def _penstock() -> str:
    return str(Path(sys.executable).with_name("penstock"))


def _warm_s(bench: SqlBench, system: str, text: str) -> tuple[float, int]:
    """Run the script in a process that is warm. Return the seconds to its first row, and their number."""
    if system == FLINK:
        assert bench.flink is not None
        return bench.flink.first_row(split(text))
    moments: list[float] = []
    with opened(bench.spark, lambda _: moments.append(time.perf_counter())) as session:
        columns = "id BIGINT, customer STRING, amount DECIMAL(10, 2)"
        started = time.perf_counter()
        *tables, query = split(text)
        for each in (*tables, f"CREATE TABLE shown ({columns}) WITH ('connector' = 'print')"):
            session.execute(each)
        finish(session.execute(f"INSERT INTO shown {query}"))
    return moments[0] - started, len(moments)
