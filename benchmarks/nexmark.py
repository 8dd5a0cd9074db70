"""Measure Nexmark's queries on penstock beside Flink: `python -m benchmarks.nexmark`. Take a quiet machine.

Both systems run the text of each query as a bounded stream over one topic of two partitions, into
`blackhole`, one after the other: first over a tenth of the events, which warms up, then in the rounds that
count. The times contain the planning of both systems. penstock has one micro-batch and no folder of
checkpoints. Flink has its state on the heap without checkpoints, and the mini-batches and the split of
distinct aggregates of Nexmark's own configuration. `python -m tests.judges.nexmark` compares the rows.

Left out: q6, which Flink refuses, and q14, whose function is in Java. What penstock refuses is shown as
refused.

To see quickly that it works: `python -m benchmarks.nexmark q0 q5 --events 20000 --name try`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from tests.judges.nexmark import scripts
from tests.judges.nexmark.events import Clock, generated, record

from benchmarks import machine, report, usage
from benchmarks.flink import FlinkSession
from benchmarks.harness import Say, WrongAnswerError
from benchmarks.inputs import BATCH_ROWS, make_topic
from benchmarks.measured import Measured
from benchmarks.sql.scripts import split
from benchmarks.systems import FLINK, PENSTOCK, prepared, taking_part
from penstock.errors import SqlError
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows
from penstock.sql import Session

QUERIES = tuple(f"q{number}" for number in scripts.NUMBERS if number != 14)
"""Those that both systems can take."""
_PARTITIONS, _PER_S = 2, 10_000
_WARM_UP = 10
"""The warm-up reads one in so many events."""
_READ_TUNING = {
    "scan.bounded.mode": "latest-offset",
    "properties.max.partition.fetch.bytes": str(8 << 20),
    "properties.fetch.max.bytes": str(64 << 20),
    "properties.max.poll.records": "10000",
    "properties.fetch.max.wait.ms": "10",
}
_TEMPORAL_TIME, _QUOTED_TIME = "A.dateTime ", "A.`dateTime` "
"""Flink does not parse the name of q23 without backticks."""
_HEADINGS = (
    "query",
    "penstock s",
    "Flink s",
    "of these the job alone",
    "penstock is",
    "penstock's CPU s",
    "Flink's",
)


class Nexmark:
    """What the queries run on.

    Attributes:
        spark: the session of Spark.
        servers: the bootstrap servers.
        flink: the session of Flink; None to leave it out.
        folder: that has the side input.
        net_s: the seconds that Flink's jobs themselves ran, by query.
        refused: the messages with which penstock refuses queries.
    """

    def __init__(self, spark: Any, servers: str, flink: FlinkSession | None, folder: Path) -> None:
        self.spark = spark
        self.servers = servers
        self.flink = flink
        self.folder = folder
        self.net_s: dict[str, list[float]] = {}
        self.refused: dict[str, str] = {}

    def fill(self, count: int) -> str:
        """Return the name of a new topic of so many events."""
        name = f"bench-nexmark-{count}"
        make_topic(self.servers, name, _PARTITIONS)
        options = {"kafka.bootstrap.servers": self.servers, "topic": name, "kafka.compression.type": "lz4"}
        write_rows(parse_write(options).sink, _batches(count))
        return name

    def measure(self, name: str, topics: dict[str, int], rounds: int, say: Say) -> dict[str, Measured]:
        """Run a query by each system, over the first topic to warm up and over the second one to be timed."""
        (small, _), (large, count) = topics.items()
        systems = (PENSTOCK,) if self.flink is None else (PENSTOCK, FLINK)
        found = {system: Measured(count, 0) for system in systems}
        for number in range(rounds + 1):
            topic = large if number else small
            for system, measured in found.items():
                if system == PENSTOCK and name in self.refused:
                    continue
                before = usage.snapshot()
                usage.reset_peaks(before)
                took_s, net_s = self._run(name, system, topic, topics[topic])
                if number and took_s is not None:
                    measured.add(took_s, usage.spent(before, usage.snapshot(), taking_part(system)))
                if number and net_s is not None:
                    self.net_s.setdefault(name, []).append(net_s)
                say(f"{name} {system} {number or 'warm-up'}: {f'{took_s:.2f} s' if took_s else 'refused'}")
        return found

    def _run(self, name: str, system: str, topic: str, count: int) -> tuple[float | None, float | None]:
        """Return the seconds of the INSERT of a query, and of Flink's job alone; None if it is refused."""
        events = scripts.events_of(self.servers, topic, _READ_TUNING)
        if system == PENSTOCK:
            text = f"{events};\n{scripts.query_of(name, self.folder)}"
            return self._run_penstock(name, text, topic, count), None
        assert self.flink is not None
        # Flink looks up the side input with the keys of the benchmark alone.
        made = scripts.as_written if name == "q13" else scripts.query_of
        text = f"{events};\n{made(name, self.folder)}".replace(_TEMPORAL_TIME, _QUOTED_TIME)
        took_s, net_s, read = self.flink.nexmark(_statements(text))
        _check_read(name, system, read, count)
        return took_s, net_s

    def _run_penstock(self, name: str, text: str, topic: str, count: int) -> float | None:
        with _opened(self.spark) as session:
            try:
                for each in (statements := _statements(text))[:-1]:
                    session.execute(each)
                started = time.perf_counter()
                (result,) = session.execute(statements[-1])
                assert result.job is not None
                result.job.wait()
                took_s = time.perf_counter() - started
            except SqlError as error:
                self.refused[name] = str(error).partition("\n")[0]
                return None
            read = _read_to(result.job.queries[0].recentProgress[-1], topic)
        _check_read(name, PENSTOCK, read, count)
        return took_s


def _read_to(progress: Any, topic: str) -> int:
    """Return how many records of the topic the scans of a query have read. Not all of them become rows."""
    ends = (each["endOffset"] for each in progress["sources"])
    found = (json.loads(each) if isinstance(each, str) else each for each in ends)
    return sum(sum(each[topic].values()) for each in found)


def _check_read(name: str, system: str, read: int, count: int) -> None:
    """Check that a query has read the topic as a whole; a join may have read it more often."""
    if read < count or read % count:
        msg = f"{name}: {system} has read {read} records of {count}."
        raise WrongAnswerError(msg)


def _statements(text: str) -> list[str]:
    """Return the statements of a script. Comments of the benchmark have semicolons."""
    return split("\n".join(line.partition("--")[0] for line in text.splitlines()))


def _batches(count: int) -> Iterator[pa.RecordBatch]:
    """Make events, in turn for each topic partition."""
    every = enumerate(generated(count, Clock(_PER_S)))
    while numbered := list(itertools.islice(every, BATCH_ROWS)):
        yield pa.record_batch(
            {
                "value": pa.array([record(kind, row) for _, (kind, row) in numbered]),
                "partition": pa.array([number % _PARTITIONS for number, _ in numbered], pa.int32()),
            }
        )


@contextlib.contextmanager
def _opened(spark: Any) -> Iterator[Session]:
    """Give a session. Spark's settings are then as they were."""
    session = Session(spark, lambda _: None)
    session.execute("SET 'table.local-time-zone' = 'UTC'; SET 'parallelism.default' = '2'")
    try:
        yield session
    finally:
        session.execute("RESET")
        session.stop()


def main() -> None:
    arguments = _arguments()
    # Python's processes keep what they compile, as after an installation by pip.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    console = Console()
    found: dict[str, dict[str, Measured]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-nexmark-")))
        spark, servers = stack.enter_context(prepared())
        flink = stack.enter_context(closing(FlinkSession(servers)))
        bench = Nexmark(spark, servers, flink, folder)
        counts = (max(1, arguments.events // _WARM_UP), arguments.events)
        topics = {bench.fill(count): count for count in counts}
        for name in arguments.queries or QUERIES:
            found[name] = bench.measure(name, topics, arguments.rounds, console.print)
            _save(arguments.name, found, bench, arguments.events, arguments.rounds)
    console.print(report.RESULTS.joinpath(f"{arguments.name}.md").read_text(), markup=False, soft_wrap=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("queries", nargs="*", choices=[*QUERIES, []], default=[], metavar="QUERY")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=1, help="of both systems in turn")
    parser.add_argument("--name", default="nexmark", help="of the files in benchmarks/results")
    return parser.parse_args()


def _save(name: str, found: dict[str, dict[str, Measured]], bench: Nexmark, events: int, rounds: int) -> None:
    """Write what was measured until now, so that a run that is cut off leaves its queries."""
    described = machine.describe(with_flink=True)
    ratios = {each: report.ratio(found[each], FLINK) for each in found if each not in bench.refused}
    net_s = {query: statistics.median(times) for query, times in bench.net_s.items()}
    raw: dict[str, Any] = {
        "machine": described,
        "events": events,
        "rounds": rounds,
        "queries": {
            query: {system: measured.as_json() for system, measured in systems.items() if measured.seconds}
            for query, systems in found.items()
        },
        "flink_job_alone_s": net_s,
        "refused": bench.refused,
    }
    report.RESULTS.joinpath(f"{name}.json").write_text(json.dumps(raw, indent=2) + "\n")
    known = [each for each in ratios.values() if each is not None]
    lines = [
        "# What `python -m benchmarks.nexmark` measured",
        "",
        *report.described(described),
        f"- {events:,} events, medians of {rounds} rounds, the systems in turn, after a warm-up",
        *([f"- median of the ratios: **{statistics.median(known):.2f}x**"] if known else []),
        "",
        *report.markdown_table(_HEADINGS, [_row(each, found[each], bench, net_s) for each in found]),
    ]
    if bench.refused:
        lines += ["", *(f"- {query} is refused: {why}" for query, why in bench.refused.items())]
    report.RESULTS.joinpath(f"{name}.md").write_text("\n".join([*lines, ""]))


def _row(
    query: str, systems: dict[str, Measured], bench: Nexmark, net_s: dict[str, float]
) -> tuple[str, ...]:
    ours, flinks = systems[PENSTOCK], systems[FLINK]
    is_refused = query in bench.refused
    return (
        query,
        "refused" if is_refused else f"{ours.median_s:.2f}",
        f"{flinks.median_s:.2f}",
        f"{net_s[query]:.2f}",
        "" if is_refused else f"{report.ratio(systems, FLINK):.2f}x",
        "" if is_refused else _cpu(ours),
        _cpu(flinks),
    )


def _cpu(measured: Measured) -> str:
    return ", ".join(f"{kind} {spent:.1f}" for kind, spent in measured.cpu_s.items() if spent >= _LEAST_CPU_S)


_LEAST_CPU_S = 0.05
if __name__ == "__main__":
    main()
