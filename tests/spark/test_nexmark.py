"""Nexmark's queries whose tables depended on the size of the micro-batches, beside a plain oracle.

`python -m tests.judges.nexmark` has more queries, and more micro-batches.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.reused_shuffles import REUSE
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judges.nexmark.events import events
from tests.judges.nexmark.oracle import ORACLES
from tests.judges.nexmark.running import tables_of

COUNT, NAMES = 3_000, ["q4", "q5", "q9"]


@pytest.mark.long
def test_the_tables_do_not_depend_on_the_number_of_micro_batches(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    made, topic, before = events(COUNT), make_topic(), spark.conf.get(REUSE)
    judge.produce(bootstrap, topic, *made.records)
    wanted = {name: ORACLES[name](made) for name in NAMES}
    for batches in (1, 10):
        per_batch = math.ceil(len(made.records) / batches)
        found = tables_of(spark, bootstrap, topic, NAMES, per_batch, tmp_path / str(batches), timeout_s=240)
        assert found == wanted, f"in {batches} micro-batches"
    assert spark.conf.get(REUSE) == before
