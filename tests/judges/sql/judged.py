"""Compare penstock's answer to a script with Flink's, and run all scripts.

Invariant: what penstock serves is equal to Flink's table, or the script says at its head how it differs.
What it refuses is listed with its message in tests/data/sql/corpus/refused.json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests.fix_spark import add_jars, spark_settings
from tests.judges.sql import topics
from tests.judges.sql.answering import answer
from tests.judges.sql.corpus import CORPUS, MODES, SCRIPTS, Answer, Places, Script, wanted
from tests.spark.sql_answers import same, same_type

REFUSED = CORPUS / "refused.json"
_AT_ONCE = 2
_SAME = {("streaming", "timestamp", "TIMESTAMP")}
"""A watermark of Spark is for TIMESTAMP with a zone only, so a time attribute has that type in a stream."""


class Outcome(Enum):
    """What a comparison gave."""

    EQUAL = "equal"
    REFUSED_BY_BOTH = "refused by both"
    REFUSED = "refused by penstock"
    LISTED = "different, and listed"
    KINDER = "refused by Flink alone, and listed"
    DIFFERENT = "different"
    UNASKED = "not asked of Flink yet"


def judged(  # noqa: PLR0911 - one for each outcome
    script: Script, mode: str, given: Answer
) -> tuple[Outcome, str]:
    """Return how an answer of penstock compares with Flink's, and why it is not equal."""
    flinks = wanted(script, mode)
    if flinks is None:
        return Outcome.UNASKED, "FLINK=1 python -m tests.judges.sql --missing"
    if "crashed" in given:
        return Outcome.DIFFERENT, f"it failed without a message of penstock: {given['crashed']}"
    message = given.get("refused") or given.get("failed")
    if "error" in flinks:
        if message:
            return Outcome.REFUSED_BY_BOTH, message
        kinder = script.mark("kinder", mode)
        return (Outcome.KINDER, kinder) if kinder else (Outcome.DIFFERENT, f"Flink fails: {flinks['error']}")
    if message:
        return Outcome.REFUSED, message
    difference = _difference(script, mode, given, flinks)
    if not difference:
        return Outcome.EQUAL, ""
    listed = script.mark("differs", mode)
    return (Outcome.LISTED, listed) if listed else (Outcome.DIFFERENT, difference)


def _difference(script: Script, mode: str, given: Answer, flinks: Answer) -> str:
    names, kinds = ([each[place] for each in flinks["columns"]] for place in (0, 1))
    if [name for name, _ in given["columns"]] != names:
        return f"columns {given['columns']}, Flink {flinks['columns']}"
    pairs = [(mine[1], kind) for mine, kind in zip(given["columns"], kinds, strict=True)]
    if not all(same_type(*pair) or (mode, *pair) in _SAME for pair in pairs):
        return f"types {pairs}"
    rows, expected = given["rows"], _closed(script, mode, flinks)
    if mode != "batch" or script.mark("ordered", mode) is None:
        rows, expected = sorted(rows, key=json.dumps), sorted(expected, key=json.dumps)
    if len(rows) == len(expected) and all(
        all(map(same, row, other, kinds)) for row, other in zip(rows, expected, strict=True)
    ):
        return ""
    return f"\n  {rows}\n  Flink {expected}"


def _closed(script: Script, mode: str, flinks: Answer) -> list[Any]:
    """Return the rows of Flink without those of windows that a bounded stream of Spark leaves open."""
    open_ones = script.mark("open", mode)
    if open_ones is None or mode == "batch":
        return list(flinks["rows"])
    column, sign, value = open_ones.split()
    place = [name for name, _ in flinks["columns"]].index(column)

    def is_open(row: list[Any]) -> bool:
        if row[place] is None:
            return False
        limit = type(row[place])(value)
        return bool(row[place] >= limit if sign == ">=" else row[place] == limit)

    return [row for row in flinks["rows"] if not is_open(row)]


def listed_refusals() -> dict[str, dict[str, str]]:
    """Return the messages of what penstock refuses, by mode and script."""
    found: dict[str, dict[str, str]] = json.loads(REFUSED.read_text())
    return found


def judge_all(beginnings: list[str], *, is_written: bool = False) -> int:
    """Run the scripts, print what differs and the figures, and return 1 if something is not listed."""
    modes = [each for each in MODES if each in beginnings] or list(MODES)
    names = tuple(each for each in beginnings if each not in MODES)
    asked = [
        (script, mode)
        for mode in modes
        for script in SCRIPTS.values()
        if mode in script.modes and (not names or script.name.startswith(names))
    ]
    found: dict[str, dict[str, tuple[Outcome, str]]] = {mode: {} for mode in modes}
    with tempfile.TemporaryDirectory(prefix="penstock-judge-") as folder, DevCluster() as cluster:
        topics.write_inputs(cluster.bootstrap_servers, "in-")
        for script, mode, given in _answers(asked, cluster.bootstrap_servers, Path(folder)):
            outcome, why = found[mode][script.name] = judged(script, mode, given)
            if outcome not in (Outcome.EQUAL, Outcome.REFUSED_BY_BOTH):
                sys.stdout.write(f"{outcome.value}: {mode} {script.name}: {why}\n")
                sys.stdout.flush()
    is_right = True
    for mode, outcomes in found.items():
        counts = Counter(outcome for outcome, _ in outcomes.values())
        figures = ", ".join(f"{counts[each]} {each.value}" for each in Outcome if counts[each])
        sys.stdout.write(f"{mode}: {len(outcomes)} scripts: {figures}\n")
        is_right = is_right and not counts[Outcome.DIFFERENT]
    if is_written and not names and modes == list(MODES):
        REFUSED.write_text(f"{json.dumps(_refusals(found), indent=1, ensure_ascii=False)}\n")
    return 0 if is_right else 1


def _refusals(found: dict[str, dict[str, tuple[Outcome, str]]]) -> dict[str, dict[str, str]]:
    return {
        mode: {name: why for name, (outcome, why) in outcomes.items() if outcome is Outcome.REFUSED}
        for mode, outcomes in found.items()
    }


def _answers(
    asked: list[tuple[Script, str]], servers: str, folder: Path
) -> Iterator[tuple[Script, str, Answer]]:
    """Yield answers as they come. Some scripts run at once."""

    def run(script: Script, mode: str) -> tuple[Script, str, Answer]:
        try:
            return script, mode, run_script(spark, script, mode, servers, folder, inputs="in-")
        except Exception as error:  # noqa: BLE001 - one script must not end the others
            return script, mode, {"crashed": f"{type(error).__name__}: {error}"[:500]}

    with _spark(folder) as spark, ThreadPoolExecutor(_AT_ONCE) as pool:
        for future in [pool.submit(run, *each) for each in asked]:
            yield future.result()


def run_script(
    spark: SparkSession, script: Script, mode: str, servers: str, folder: Path, *, inputs: str
) -> Answer:
    """Make the topics of a script and return penstock's answer to it."""
    made = f"{inputs}{script.name}-{mode}-"
    places = Places(servers, inputs, made, str(folder / f"{script.name}-{mode}"))
    topics.create(servers, script.made_topics(places))
    return answer(spark, script, mode, places)


@contextmanager
def _spark(folder: Path) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
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
