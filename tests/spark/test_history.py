"""A history and a log of a Debezium topic on real Spark and the real broker, with a killed driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.history_job import KINDS, start, target_of
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

deltalake: Any = pytest.importorskip("deltalake")
KEYS, CHANGES = 5, 200
START_MS = 1_767_225_600_000


def messages() -> list[tuple[bytes, bytes]]:
    """Return changes of a table: each key is created, updated, deleted and created again."""
    found, rows = [], dict[int, dict[str, Any]]()
    for number in range(CHANGES):
        key = number % KEYS
        step = number // KEYS % 4
        before = rows.get(key)
        row = None if step == 3 else {"id": key, "name": f"name {number}"}
        if row is None:
            del rows[key]
        else:
            rows[key] = row
        operation = "d" if row is None else "c" if before is None else "u"
        source = {"ts_ms": START_MS + number * 1000}
        message = {"before": before, "after": row, "op": operation, "source": source}
        found.append((json.dumps({"id": key}).encode(), json.dumps(message).encode()))
    return found


def time_of(number: int) -> datetime:
    return datetime.fromtimestamp(START_MS / 1000 + number, UTC)


def expected_versions() -> list[tuple[Any, ...]]:
    found = []
    for number in range(CHANGES):
        if number // KEYS % 4 != 3:
            next_of_key = number + KEYS
            end = time_of(next_of_key) if next_of_key < CHANGES else None
            found.append((number % KEYS, f"name {number}", time_of(number), end, end is None))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_driver_leaves_no_gap_and_no_double(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, kind: str
) -> None:
    topic = make_topic(2)
    judge.produce(bootstrap, topic, *messages())
    arguments = [bootstrap, topic, str(tmp_path), kind, "2"]
    died = subprocess.run(
        [sys.executable, "-m", "tests.spark.history_job", *arguments],
        env={**os.environ},
        check=False,
        timeout=QUERY_TIMEOUT_S,
        capture_output=True,
        text=True,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]
    table = deltalake.DeltaTable(str(tmp_path / kind))
    assert table.transaction_version("penstock.batch") == 2
    assert not (tmp_path / f"{kind}-c" / "commits" / "2").exists()

    query = start(spark, bootstrap, topic, tmp_path, target_of(tmp_path, kind), kind)
    with stopped(query) as running:
        assert running.awaitTermination(QUERY_TIMEOUT_S)
    rows = pa.table(deltalake.DeltaTable(str(tmp_path / kind)).to_pyarrow_table()).to_pylist()
    if kind == "history":
        names = ("id", "name", "valid_from", "valid_to", "is_current")
        found = sorted(tuple(row[name] for name in names) for row in rows)
        assert found == sorted(expected_versions())
        return
    places = [(row["change_batch"], row["change_number"]) for row in rows]
    assert len(set(places)) == len(places)
    in_order = [row for _, row in sorted(zip(places, rows, strict=True), key=lambda one: one[0])]
    for key in range(KEYS):
        of_key = [(row["at"], row["row_kind"]) for row in in_order if row["id"] == key]
        kinds = [("+I", "-U+U", "-U+U", "-D")[number // KEYS % 4] for number in range(key, CHANGES, KEYS)]
        single = [each for both in kinds for each in ((both,) if len(both) == 2 else (both[:2], both[2:]))]
        assert [kind for _, kind in of_key] == single
        assert [at for at, _ in of_key] == sorted(at for at, _ in of_key)
