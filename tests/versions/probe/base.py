"""The cases, and what each of them gets: a session, topics, folders."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

WAIT_S = 240


class Case(NamedTuple):
    """A function of the probe that raises if penstock is wrong."""

    run: Callable[[Probe], Any]
    is_of_connect: bool
    is_alone: bool


CASES: dict[str, Case] = {}

_Function = Callable[["Probe"], Any]


def case(name: str, *, not_on_connect: str = "", is_alone: bool = False) -> Callable[[_Function], _Function]:
    """Keep a function as a case.

    Args:
        name: of the case.
        not_on_connect: why it does not run on Spark Connect; empty if it does.
        is_alone: it runs only if it is asked for.
    """

    def keep(function: _Function) -> _Function:
        CASES[name] = Case(function, not not_on_connect, is_alone)
        return function

    return keep


def names_for(kind: str) -> list[str]:
    """Return the cases that run on classic or Connect if none is asked for."""
    return [
        name
        for name, each in CASES.items()
        if not each.is_alone and (kind == "classic" or each.is_of_connect)
    ]


class Probe:
    """The session, and the topics of this run."""

    def __init__(self, spark: Any, servers: str, prefix: str, folder: Path, kind: str) -> None:
        self.spark = spark
        self.servers = servers
        self.prefix = prefix
        self.folder = folder
        self.is_connect = kind == "connect"

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def source(self, name: str, **more: Any) -> dict[str, str]:
        """Options of a read, in Flink's dialect."""
        options = {"topic": self.topic(name), "properties.bootstrap.servers": self.servers, **more}
        return {key: str(value) for key, value in options.items()}

    def read(self, name: str, **more: Any) -> Any:
        return self.spark.read.format("penstock").options(**self.source(name, **more)).load()

    def stream(self, name: str, **more: Any) -> Any:
        return self.spark.readStream.format("penstock").options(**self.source(name, **more)).load()

    def sink(self, name: str, *, exactly_once: bool = False) -> dict[str, str]:
        options = {"topic": self.topic(name), "properties.bootstrap.servers": self.servers}
        if exactly_once:
            options |= {
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": self.topic(name),
            }
        return options

    def rows(self, first: int, count: int) -> Any:
        """Records with the values v<number>."""
        return self.spark.range(first, first + count).selectExpr(
            "CAST(id AS STRING) AS key", "concat('v', id) AS value"
        )

    def append(self, name: str, first: int, count: int) -> None:
        self.rows(first, count).write.format("penstock").options(**self.sink(name)).mode("append").save()

    def checkpoint(self, name: str) -> str:
        return str(self.folder / f"checkpoint-{name.replace(' ', '-')}")

    def run_into(self, writer: Any) -> Any:
        """Run a stream to the end of what is there."""
        query = writer.trigger(availableNow=True).start()
        return self.ended(query)

    @staticmethod
    def ended(query: Any) -> Any:
        if not query.awaitTermination(WAIT_S):
            query.stop()
            raise AssertionError(f"The query did not end within {WAIT_S} s: {query.status}")
        return query

    def collect(self, frame: Any, name: str) -> Collected:
        return Collected(frame, self.checkpoint(name), self.folder / f"rows-{name}-{time.time_ns()}")

    def until(self, query: Any, condition: Callable[[], bool]) -> None:
        """Wait while the query runs."""
        ends_s = time.monotonic() + WAIT_S
        while not condition():
            if query.awaitTermination(0.2):
                raise AssertionError("The query has ended.")
            assert time.monotonic() < ends_s, f"{query.status} {query.lastProgress}"


class Collected:
    """The rows of a stream, batch by batch. They are in files: with Connect another process writes them."""

    def __init__(self, frame: Any, checkpoint: str, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder

        def keep(rows: Any, _: int) -> None:
            new = folder / f"{time.time_ns()}.new"
            new.write_bytes(pickle.dumps(rows.collect()))
            new.rename(new.with_suffix(".batch"))

        self.writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)

    @property
    def batches(self) -> list[list[Any]]:
        files = sorted(self._folder.glob("*.batch"))
        return [pickle.loads(file.read_bytes()) for file in files]  # noqa: S301 - written above

    @property
    def count(self) -> int:
        return sum(map(len, self.batches))


@contextlib.contextmanager
def raises(*parts: str) -> Iterator[None]:
    text = ""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the text is judged
        text = str(error)
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in {text or 'no error'}"


def last_batch(log: Path) -> int:
    """Return the last batch in a log of a checkpoint."""
    return max(int(path.name) for path in log.iterdir() if path.name.isdigit())


def forget_last_batch(checkpoint: Path) -> None:
    """Take the last batch out of the commit log, as if the driver had died before that entry."""
    last = last_batch(checkpoint / "commits")
    for path in (checkpoint / "commits" / str(last), checkpoint / "commits" / f".{last}.crc"):
        path.unlink(missing_ok=True)
