"""The queries of `penstock demo cdc` on three days of its history, in more than one batch."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from penstock.demo.cdc import run
from penstock.demo.cdc.history import OPERATIONS, REPEATED, TOMBSTONES
from penstock.demo.stage import progress_bars
from tests.fix_broker import MakeTopic


@pytest.mark.promise
def test_both_tables_are_the_true_ones(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "ROWS_PER_BATCH", 5_000)
    topic, flights = make_topic(2), run.flights_of(3)
    with progress_bars(Console(file=io.StringIO())) as progress:
        counts = run.send(bootstrap, topic, flights, progress)
        assert counts.keys() == {*OPERATIONS.values(), REPEATED, TOMBSTONES}
        outcome = run.keep_tables(spark, bootstrap, topic, flights, counts, tmp_path, progress)
    assert [verdict for verdict in outcome.verdicts if not verdict.is_right] == []
    assert [verdict.row_count for verdict in outcome.verdicts] == [2_677, 15]
