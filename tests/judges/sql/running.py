"""Run scripts with penstock, on a broker and a Spark of its own, and keep what came of each.

Runs by hand: `python -m tests.judges.sql`. Invariant: an outcome is kept as soon as its script ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.cli.quick_start.python import quick_python
from penstock.devbroker import DevCluster
from tests.fix_spark import add_jars, spark_settings
from tests.judges.sql import topics
from tests.judges.sql.answering import answer
from tests.judges.sql.corpus import MODES, Answer, Locations, Script
from tests.judges.sql.judged import judged, judged_in_batches, was_too_busy
from tests.judges.sql.outcomes import Asked, Counts, Outcome

_AT_ONCE = 2

Keep = Callable[[Script, str, Outcome, str], None]
"""Keeps the outcome of a script in a mode, and its message."""


def judge_all(
    asked: list[Asked], limit_s: float, counts: Counts, keep: Keep, *, restarts: bool = False
) -> int:
    """Run scripts, print what is not equal and how many are, and return 1 if something is not right.

    Args:
        asked: the scripts and their modes.
        limit_s: the seconds after which no further script starts.
        counts: the numbers of micro-batches that each stream runs in.
        keep: gets each outcome, as soon as it is known.
        restarts: whether a stream of several micro-batches is stopped once, and continues.
    """
    found: list[tuple[str, Outcome]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-judge-") as folder, DevCluster() as cluster:
        topics.write_inputs(cluster.bootstrap_servers, "in-")
        for script, mode, given in _answers(
            asked, cluster.bootstrap_servers, Path(folder), limit_s, counts, restarts=restarts
        ):
            is_stream = mode == "streaming"
            outcome, why = judged_in_batches(script, given) if is_stream else judged(script, mode, given[1])
            why = why.replace(folder, "/folder").replace(cluster.bootstrap_servers, "broker")
            keep(script, mode, outcome, why)
            found.append((mode, outcome))
            if outcome not in (Outcome.EQUAL, Outcome.REFUSED_BY_BOTH):
                sys.stdout.write(f"{outcome.value}: {mode} {script.name}: {why}\n")
                sys.stdout.flush()
    for mode in MODES:
        of_mode = Counter(outcome for each, outcome in found if each == mode)
        parts = ", ".join(f"{of_mode[each]} {each.value}" for each in Outcome if of_mode[each])
        if parts:
            sys.stdout.write(f"{mode}: {of_mode.total()} scripts: {parts}\n")
    if len(found) < len(asked):
        sys.stdout.write(f"{len(asked) - len(found)} scripts have no outcome: continue with --resume\n")
    return 1 if any(outcome in (Outcome.DIFFERENT, Outcome.UNASKED) for _, outcome in found) else 0


def _answers(
    asked: list[Asked], servers: str, folder: Path, limit_s: float, counts: Counts, *, restarts: bool
) -> Iterator[tuple[Script, str, dict[int, Answer]]]:
    """Yield answers as they come, by the number of micro-batches. Some scripts run at once."""
    end_s = time.monotonic() + limit_s

    def one(script: Script, mode: str, count: int) -> Answer:
        try:
            return run_script(
                spark, script, mode, servers, folder, inputs="in-", batches=count, restarts=restarts
            )
        except Exception as error:  # noqa: BLE001 - one script must not end the others
            return {"crashed": f"{type(error).__name__}: {error}"[:500]}

    def run(script: Script, mode: str) -> tuple[Script, str, dict[int, Answer]] | None:
        if time.monotonic() > end_s:
            return None
        answers: dict[int, Answer] = {}
        for count in counts if mode == "streaming" else (1,):
            answers[count] = one(script, mode, count)
            if was_too_busy(answers[count]):
                sys.stdout.write(f"no outcome, because the machine is too busy: {mode} {script.name}\n")
                return None
            if "refused" in answers[count]:
                break  # before anything ran, so it is refused in any number of micro-batches
        return script, mode, answers

    with spark_of_its_own(folder) as spark, ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            for future in as_completed([pool.submit(run, *each) for each in asked]):
                if (found := future.result()) is not None:
                    yield found
        finally:
            pool.shutdown(cancel_futures=True)


def run_script(
    spark: SparkSession,
    script: Script,
    mode: str,
    servers: str,
    folder: Path,
    *,
    inputs: str,
    batches: int = 1,
    restarts: bool = False,
) -> Answer:
    """Make the topics of a script and return penstock's answer to it."""
    own = f"{script.name}-{mode}-{batches}"
    made = f"made-{inputs}{own}-"  # a topic pattern of inputs must not find it
    locations = Locations(servers, inputs, made, str(folder / own), batches, restarts)
    topics.create(servers, script.made_topics(locations))
    return answer(spark, script, mode, locations)


@contextmanager
def spark_of_its_own(folder: Path) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = quick_python()
    add_jars(os.environ)
    builder: Any = SparkSession.builder
    for key, value in spark_settings(folder).items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
