"""Kill the processes of normalize -> aggregate -> exactly-once sink at random, and judge each row.

    python -m tests.chaos.chain_hunt --kills 300 [--cluster [--connect]] [--brokers 3 [--rolling 40]]
        [--seed 1] [--seconds 1500]

Rows come doubled, shuffled and late. Each kill comes at a random moment of a batch: the driver, a Python
worker, with --cluster an executor of a standalone cluster of two, with several brokers a broker. Several of
them (--strikes) hit one batch, so also its repeated tasks. One kill in ten (--driver-every) takes the driver.
With --connect the job is a client of a Spark Connect server on that cluster, and both die as its driver.
With --rolling, after so many kills all brokers are stopped in order and started again, one after the other,
while the other processes are killed.
Spark's log of offsets says which records were in which batch. A reference in plain Python makes the rows of
each batch from them. The program ends with 0 if a read_committed consumer (confluent-kafka) finds exactly
these rows under each key, in their order, if no transaction is open, and if the states are whole.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from penstock.devbroker import DevCluster
from penstock.state import tools
from penstock.state.files import LocalFiles
from tests import judge, quick_jvm
from tests.chaos.chain import STATES, ChainReference
from tests.chaos.exactly_once_job import Copy
from tests.chaos.exactly_once_scene import Scene
from tests.chaos.fault_points import Fault
from tests.chaos.job_process import ROOT, JobProcess
from tests.chaos.random_kills import (
    DRIVER,
    RECORDS_PER_KILL,
    START_TIMEOUT_S,
    WORKER,
    RandomKills,
    add_rolling,
)
from tests.chaos.spark_cluster import SparkCluster
from tests.unit.changelog.running import Row
from tests.waiting import wait_until

EXECUTOR = "executor"
DRIVER_EVERY = 10
SAID_EVERY = 20
STRIKES = 3
"""How many kills may hit one batch. Then it may end, so that the query gets on."""
KEYS, GROUPS, VALUES = 200, 7, 5
LATE, AGAIN = 0.05, 0.1
"""Of the rows, how many come with the next ones only, and how many come once more."""
SETTINGS = {
    "spark.sql.streaming.minBatchesToRetain": "1000000",  # the judge reads the offsets of all batches
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": quick_jvm.OPTIONS,
    "spark.task.maxFailures": "100",  # a driver sees many of its tasks die
    "spark.stage.maxConsecutiveAttempts": "100",  # and many shuffle files go with their executors
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.speculation": "true",
}


class ChainScene(Scene):
    """One query with two states, its input, and the judge."""

    def __init__(
        self, copy: Copy, folder: Path, seed: int, cluster: SparkCluster | None, *, is_connect: bool = False
    ) -> None:
        super().__init__(copy, folder)
        self.cluster = cluster
        self._connect = ["--connect"] if is_connect else []
        self.row_count = 0
        self._random = random.Random(seed)
        self._late: list[Row] = []
        self._last: list[Row] = []

    def fill(self, count: int) -> None:
        """Send new rows, rows that are late, and rows that were sent before."""
        new = [self._row(at) for at in range(self.record_count, self.record_count + count)]
        self.record_count += count
        late: list[Row] = []
        on_time: list[Row] = []
        for row in new:
            (late if self._random.random() < LATE else on_time).append(row)
        again = [row for row in self._last + on_time if self._random.random() < AGAIN]
        rows = on_time + self._late + again
        self._late, self._last = late, on_time
        self._random.shuffle(rows)
        pairs = [(b"%d" % row["k"], json.dumps(row).encode()) for row in rows]
        judge.produce(self.copy.bootstrap, self.copy.source, *pairs, config={"enable.idempotence": True})

    def _row(self, at: int) -> Row:
        """Return a row. A -D has no values: they would have to be those of the row that it deletes."""
        key, kind = self._random.randrange(KEYS), self._random.choice(("+I", "+U", "+U", "-D"))
        group, value = f"group {self._random.randrange(GROUPS)}", self._random.randrange(VALUES)
        values = {} if kind == "-D" else {"s": group, "v": value}
        return {"k": key, **values, "at": at, "row_kind": kind}

    def job(self, *more: str, fault: Fault | None = None) -> JobProcess:
        """Start the query in a process of its own."""
        settings = [f"--conf={key}={value}" for key, value in SETTINGS.items()]
        master = "local[2,100]" if self.cluster is None else self.cluster.master
        return super().job(*settings, f"--master={master}", *self._connect, *more, fault=fault)

    def check(self) -> None:
        """Check each row under each key, the transactions and the states."""
        expected = self._expected()
        self.row_count = sum(map(len, expected.values()))
        seen: dict[str, list[Row]] = defaultdict(list)
        for record in judge.consume_all(self.copy.bootstrap, self.copy.target):
            seen[(record.key or b"").decode()].append(json.loads(record.value or b""))
        for key in sorted(expected.keys() | seen.keys()):
            check_rows(key, seen[key], expected.get(key, []))
        wait_until(lambda: not self.open_transactions(), "no transaction to be open")
        for name in STATES:
            assert list(tools.verify(LocalFiles(f"{self.copy.states}/{name}"))) == []

    def keep(self, folder: Path) -> None:
        """Copy the checkpoint, the states and both topics, to find out why a row is wrong."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        for topic in (self.copy.source, self.copy.target):
            with (folder / f"{topic}.jsonl").open("w") as out:
                for each in judge.consume_all(self.copy.bootstrap, topic):
                    key, value = ((each.key or b"").decode(), (each.value or b"").decode())
                    out.write(json.dumps([each.partition, each.offset, key, value]) + "\n")

    def _expected(self) -> dict[str, list[Row]]:
        """Return the rows of each key, from the records of each batch."""
        reference = ChainReference()
        for values in self.batches():
            reference.step(values)
        return reference.rows

    def batches(self) -> Iterator[list[bytes]]:
        """Give the values that each batch has read. Every record of the source is in one of them."""
        records: dict[int, list[bytes]] = defaultdict(list)
        for record in judge.consume_all(self.copy.bootstrap, self.copy.source):
            assert record.offset == len(records[record.partition or 0])
            records[record.partition or 0].append(record.value or b"")
        starts = dict.fromkeys(records, 0)
        for ends in self._ends_of_batches():
            yield [value for number, end in ends.items() for value in records[number][starts[number] : end]]
            starts.update(ends)
        assert starts == {number: len(values) for number, values in records.items()}

    def _ends_of_batches(self) -> Iterator[dict[int, int]]:
        offsets = Path(self.copy.checkpoint) / "offsets"
        numbers = sorted(int(file.name) for file in offsets.iterdir() if file.name.isdigit())
        assert numbers == list(range(len(numbers)))
        for number in numbers:
            ends = json.loads((offsets / str(number)).read_text().splitlines()[-1])[self.copy.source]
            yield {int(partition): end for partition, end in ends.items()}


def check_rows(key: str, found: list[Row], expected: list[Row]) -> None:
    """Check that a key has these rows, in this order."""
    for index, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert one == other, f"row {index} of {key} is {one}, expected {other}"
    assert len(found) == len(expected), f"{key} has {len(found)} rows, expected {len(expected)}"


class ChainHunt(RandomKills):
    """Kills processes of a chain, also executors if there is a cluster.

    A worker or executor dies several times in the life of a driver, because the start of a driver takes most
    of the time. The driver dies at least each `driver_every`th time.
    """

    scene: ChainScene

    def __init__(
        self,
        brokers: DevCluster,
        scene: ChainScene,
        seed: int,
        driver_every: int,
        strikes: int = STRIKES,
        rolling_every: int | None = None,
    ) -> None:
        super().__init__(brokers, scene, seed, rolling_every)
        self._driver_every, self._strikes = driver_every, strikes
        self._group, self._driver_at = -1, 0
        self._said_at = 0

    def _kill_something(self) -> None:
        self.scene.fill(RECORDS_PER_KILL)
        job = self._running_job()
        if self.kills.total() >= self._said_at + SAID_EVERY:
            self._said_at = self.kills.total()
            sys.stdout.write(self.said())
            sys.stdout.flush()
        for _ in range(min(self.random.randint(1, self._strikes), self.kill_count - self.kills.total())):
            if self._strike_somewhere(job) == DRIVER or job.process.poll() is not None:
                return

    def next_victim(self) -> str:
        """Choose the driver once in each `driver_every` kills, at a random one of them."""
        group, turn = divmod(self.kills.total(), self._driver_every)
        if group != self._group:
            self._group, self._driver_at = group, self.random.randrange(self._driver_every)
        return DRIVER if turn == self._driver_at else self.random.choice(self.victims())

    def victims(self) -> list[str]:
        """Return what may be killed beside the driver, by how often."""
        others = [victim for victim in super().victims() if victim != DRIVER]
        return others + ([EXECUTOR] if self.scene.cluster else [])

    def processes(self, victim: str, job: JobProcess) -> list[int]:
        cluster = self.scene.cluster
        if cluster is None:
            return super().processes(victim, job)
        return cluster.python_workers() if victim == WORKER else cluster.executors()

    def _drain(self) -> None:
        # The tasks of a dead driver may begin transactions after its last batch. A new batch ends them.
        self._kill_job()
        self.scene.fill(100)
        super()._drain()


def make_chain(
    brokers: DevCluster,
    folder: Path,
    name: str,
    seed: int,
    cluster: SparkCluster | None = None,
    driver_every: int = DRIVER_EVERY,
    strikes: int = STRIKES,
    rolling_every: int | None = None,
    *,
    is_connect: bool = False,
) -> ChainHunt:
    """Make topics and a query with new names."""
    source, target = f"{name}-source", f"{name}-target"
    for topic, partitions in ((source, 4), (target, 3)):
        judge.create_topic(brokers.bootstrap_servers, topic, partitions=partitions)
    checkpoint, states = str(folder / "checkpoint"), str(folder / "states")
    copy = Copy(brokers.bootstrap_servers, source, target, name, checkpoint, states=states)
    scene = ChainScene(copy, folder, seed, cluster, is_connect=is_connect)
    return ChainHunt(brokers, scene, seed, driver_every, strikes, rolling_every)


def quicken() -> None:
    """Let all processes of a hunt start quickly: few flags of Java, and Python keeps what it compiled."""
    quick_jvm.quicken(os.environ)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cluster", action="store_true", help="a standalone cluster of two workers")
    parser.add_argument("--connect", action="store_true", help="the job is a client of Spark Connect")
    parser.add_argument("--brokers", type=int, default=1)
    add_rolling(parser)
    parser.add_argument(
        "--driver-every", type=int, default=DRIVER_EVERY, help="one in so many kills takes the driver"
    )
    parser.add_argument("--strikes", type=int, default=STRIKES, help="so many kills may hit one batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new folder for all data, if a row is wrong")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="kill no more after so long")
    arguments = parser.parse_args()
    ends_at_s = time.monotonic() + arguments.seconds
    quicken()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers = stack.enter_context(DevCluster(arguments.brokers, start_timeout_s=START_TIMEOUT_S))
        cluster = stack.enter_context(SparkCluster(folder)) if arguments.cluster else None
        name, seed, strikes = f"chain-{arguments.seed}", arguments.seed, arguments.strikes
        every = arguments.driver_every, strikes, arguments.rolling
        hunt = make_chain(brokers, folder, name, seed, cluster, *every, is_connect=arguments.connect)
        try:
            hunt.run(arguments.kills, ends_at_s=ends_at_s)
        except AssertionError:
            sys.stdout.write(traceback.format_exc())  # keeping may fail, too
            if arguments.keep is not None:
                hunt.scene.keep(arguments.keep)
            raise
        finally:
            sys.stdout.write(hunt.said())
        sys.stdout.write(f"{hunt.scene.row_count:,} rows, each right, in order per key, nothing open\n")


if __name__ == "__main__":
    main()
