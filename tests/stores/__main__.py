"""Kill the driver of a query with its state on a store: `python -m tests.stores s3 azure gcs hdfs --kills 3`.

Each name is a store of `servers.py`. All rows have to come out once, and `penstock state` has to find no
problem in the state and in its copy with another number of partitions.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.state.files import open_files
from penstock.targets import ParquetTable
from tests.chaos.job_process import JobProcess
from tests.spark.test_changelog import expected, history, with_repeats, write_batches
from tests.stores.servers import STORES, Store
from tests.unit.changelog.reference import Reference
from tests.waiting import PATIENCE_S


def hunt(store: Store, folder: Path, kills: int, seed: int, batch_count: int) -> str:
    """Run the query, and kill its driver several times. Return what was seen.

    Raises:
        AssertionError: a row is lost, doubled or wrong.
    """
    chance = random.Random(seed)
    batches = with_repeats(history(seed, count=8 * batch_count), 8, seed)
    write_batches(folder / "in", batches)
    locations = [store.uri(f"bucket/{seed}/{name}") for name in ("state", "table", "copy")]
    state, table, copy = locations
    arguments = [str(folder), state, table]
    killed = 0
    for _ in range(kills):
        with JobProcess("tests.stores.job", arguments, folder / "log") as job:
            job.wait_for_line(lambda line: line.startswith("batch"))
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.process.wait(chance.uniform(0, 2))
                break  # it has read all
            killed += 1
    with JobProcess("tests.stores.job", arguments, folder / "log") as job:
        job.wait_until_done(4 * PATIENCE_S)
    reference = Reference()
    rows = Counter(str(row) for row in _written(folder / "out"))
    assert rows == expected(batches, reference), "rows are lost, doubled or wrong"
    assert _table(table) == {row["k"]: row["v"] for row in reference.rows.values()}
    _tools(state, copy, folder)
    return f"{killed} kills, {sum(rows.values())} rows of {len(batches)} batches are right"


def _written(folder: Path) -> list[dict[str, object]]:
    """Return the rows that Spark's file sink has committed."""
    log = folder / "_spark_metadata"
    found: set[str] = set()
    for path in log.iterdir():
        if not path.name.startswith("."):
            lines = path.read_text().splitlines()[1:]
            found.update(line.split('"path":"file://')[1].split('"')[0] for line in lines)
    tables = [pq.read_table(path) for path in sorted(found)]
    return [row for each in tables for row in each.to_pylist()]


def _table(location: str) -> dict[str, int]:
    newest, files = ParquetTable(location).newest(), open_files(location)
    assert newest is not None
    read = [pq.read_table(pa.BufferReader(files.read(file))) for file in newest.files.values()]
    return {row["k"]: row["v"] for each in read for row in each.to_pylist()}


def _tools(state: str, copy: str, folder: Path) -> None:
    """Run `penstock state` on the state, and on a copy of it with more partitions."""
    checkpoint = str(folder / "out-checkpoint")
    commands = [
        ["inspect", state],
        ["verify", state],
        ["repartition", state, copy, "--partitions", "5", "--checkpoint", checkpoint],
        ["inspect", copy],
        ["verify", copy],
    ]
    for command in commands:
        result = CliRunner().invoke(app, ["state", *command])
        assert result.exit_code == 0, f"{command[0]}: {result.output} {result.exception}"


def main() -> None:
    """Hunt on each store that was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=list(STORES))
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", type=int, default=12)
    options = parser.parse_args()
    for name in options.stores:
        run, missing = STORES[name]
        if reason := missing():
            print(f"{name}: skipped, {reason}", flush=True)  # noqa: T201
            continue
        with tempfile.TemporaryDirectory() as made:
            server = Path(made, "server")
            server.mkdir()
            with run(server) as store:
                seen = hunt(store, Path(made), options.kills, options.seed, options.batches)
            print(f"{name}: {seen}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
