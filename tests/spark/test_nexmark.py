"""Nexmark's queries as streams and as batches, beside a plain oracle.

`python -m tests.judges.nexmark` has all of them in more numbers of micro-batches.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.reused_shuffles import REUSE
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judges.nexmark import scripts
from tests.judges.nexmark.events import Events, events
from tests.judges.nexmark.oracle import ORACLES, decided
from tests.judges.nexmark.running import FILES, Nexmark

COUNT = 3_000
IN_BATCHES = [name for name in ORACLES if name != "q12"]


@pytest.fixture(scope="module")
def made() -> Events:
    return events(COUNT)


@pytest.fixture
def runs(spark: SparkSession, bootstrap: str, make_topic: MakeTopic, made: Events, tmp_path: Path) -> Nexmark:
    topic = make_topic()
    judge.produce(bootstrap, topic, *made.records)
    return Nexmark(spark, bootstrap, topic, tmp_path, timeout_s=240)


@pytest.mark.long
def test_the_tables_do_not_depend_on_the_number_of_micro_batches(
    spark: SparkSession, runs: Nexmark, made: Events
) -> None:
    """These depended on it, or on ties that no order decides."""
    names, before = ["q4", "q5", "q9", "q18", "q19"], spark.conf.get(REUSE)
    wanted = {name: decided(name, ORACLES[name](made), is_batch=False) for name in names}
    for batches in (1, 10):
        tables = runs.stream(names, math.ceil(len(made.records) / batches))
        found = {name: decided(name, rows, is_batch=False) for name, rows in tables.items()}
        assert found == wanted, f"in {batches} micro-batches"
    assert spark.conf.get(REUSE) == before


@pytest.mark.parametrize("batches", [1, 5])
def test_groups_of_days_give_the_tables_of_the_oracle(runs: Nexmark, made: Events, batches: int) -> None:
    names = ["q15", "q16", "q17"]
    tables = runs.stream(names, math.ceil(len(made.records) / batches))
    wanted = {name: decided(name, ORACLES[name](made), is_batch=False) for name in names}
    assert {name: decided(name, rows, is_batch=False) for name, rows in tables.items()} == wanted


@pytest.mark.long
def test_batches_give_the_tables_of_the_oracle(runs: Nexmark, made: Events) -> None:
    for name, rows in runs.batch([*IN_BATCHES, FILES]).items():
        query = "q10" if name == FILES else name
        wanted = decided(query, ORACLES[query](made.of_batch), is_batch=True)
        assert decided(query, rows, is_batch=True) == wanted, name


def test_a_query_with_changes_and_one_with_windows_give_the_tables_of_the_oracle(
    runs: Nexmark, made: Events
) -> None:
    names = ["q8", "q17"]
    assert runs.stream(names, COUNT // 2) == {name: ORACLES[name](made) for name in names}


@pytest.mark.parametrize(
    ("name", "is_batch", "message"),
    [
        ("q6", False, "there is no column 'rownum'"),
        ("q6", True, "there is no column 'rownum'"),
        ("q10", False, "'sink.partition-commit.trigger' is not served"),
        ("q12", False, "windows over PROCTIME() are not served in a stream"),
        ("q12", True, "windows over PROCTIME() are not served, because a batch has one time"),
        ("q13", False, "'connector.type' is a key of Flink before 1.11"),
        ("q14", False, "Spark cannot call Flink's Java functions"),
    ],
)
def test_what_insert_refuses_is_refused_by_explain_too(
    runs: Nexmark, name: str, is_batch: bool, message: str
) -> None:
    """As the benchmark wrote it."""
    insert, explained = runs.refusal(scripts.as_written(name, runs.folder), is_batch=is_batch)
    assert message in insert
    assert insert == explained
