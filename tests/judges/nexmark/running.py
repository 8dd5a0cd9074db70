"""Run Nexmark's queries as streams of so many micro-batches or as batches, and return their tables.

Invariant: the text of each query is that of the benchmark. Only its target, and what it says of places, is
another one.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from penstock.errors import SqlError
from penstock.sql.run.session import Session
from tests import judge
from tests.judges.nexmark import scripts
from tests.judges.nexmark.oracle import Rows

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z?")
FILES = "q10 into files"
"""The name of q10 that writes a folder for each minute."""


@dataclass(frozen=True)
class Nexmark:
    """What the queries run on.

    Attributes:
        spark: the session.
        bootstrap: of the broker.
        source: the topic of the events. The topic of a target has this name, the query's and the run's.
        folder: of the checkpoints, files and the side input.
        timeout_s: for each query.
    """

    spark: SparkSession
    bootstrap: str
    source: str
    folder: Path
    timeout_s: float

    def stream(self, names: Sequence[str], per_batch: int) -> dict[str, Rows]:
        """Run queries as streams, at the same time, and return the rows of the table of each.

        Args:
            names: of the queries.
            per_batch: how many events a micro-batch has.
        """
        bounded = {"scan.bounded.mode": "latest-offset", "scan.max-records-per-batch": str(per_batch)}
        with self.session(str(per_batch), bounded) as session:
            jobs = [session.execute(self._text(name, str(per_batch)))[-1].job for name in names]
            for job in jobs:
                assert job is not None
                assert job.wait(self.timeout_s), f"{job.name} has not ended within {self.timeout_s} s"
        return {name: self._table(name, str(per_batch)) for name in names}

    def batch(self, names: Sequence[str]) -> dict[str, Rows]:
        """Run queries as batches, one behind the other, and return the rows of the table of each."""
        with self.session("batch", {}) as session:
            session.execute("SET 'execution.runtime-mode' = 'batch'")
            for name in names:
                session.execute(self._text(name, "batch"))
        return {name: self._table(name, "batch") for name in names}

    def refusal(self, text: str, *, is_batch: bool) -> tuple[str, str]:
        """Return the messages that refuse a script and the EXPLAIN of its INSERT; "" where it is accepted.

        A stream that is accepted is stopped.
        """
        with self.session("refused", {}) as session:
            if is_batch:
                session.execute("SET 'execution.runtime-mode' = 'batch'")
            before, insert, query = text.rpartition("INSERT INTO")
            message = _message(session, before)
            if message:
                return message, message
            return _message(session, insert + query), _message(session, f"EXPLAIN {insert}{query}")

    @contextmanager
    def session(self, run: str, more: dict[str, str]) -> Iterator[Session]:
        """Give a session with the table of events, with more options, and its views."""
        session = Session(self.spark)
        try:
            session.execute(f"SET 'execution.checkpointing.dir' = '{self.folder}/{run}/checkpoints'")
            more = more or {"scan.bounded.mode": "latest-offset"}
            session.execute(scripts.events_of(self.bootstrap, self.source, more))
            yield session
        finally:
            session.stop()

    def _text(self, name: str, run: str) -> str:
        if name == FILES:
            return scripts.into_files(self.folder / run)
        topic = self._topic(name, run)
        judge.create_topic(self.bootstrap, topic)
        target = {
            "connector": "kafka",
            "format": "debezium-json" if name in scripts.CHANGING else "json",
            "topic": topic,
            "properties.bootstrap.servers": self.bootstrap,
        }
        return scripts.query_of(name, self.folder, scripts.options_of(target))

    def _topic(self, name: str, run: str) -> str:
        return f"{self.source}-{name}-{run}"

    def _table(self, name: str, run: str) -> Rows:
        if name == FILES:
            return _rows_of_files(scripts.folder_of_files(self.folder / run))
        rows: Rows = Counter()
        for record in judge.consume_all(self.bootstrap, self._topic(name, run)):
            found = json.loads(record.value or b"null", parse_float=Decimal)
            is_change = name in scripts.CHANGING
            old, new = (found["before"], found["after"]) if is_change else (None, found)
            for row, count in ((old, -1), (new, 1)):
                if row is not None:
                    rows[tuple(map(_value, row.values()))] += count
        left: Rows = Counter({row: count for row, count in rows.items() if count})
        return _by_bidder(left) if name == "q12" else left


def _message(session: Session, text: str) -> str:
    try:
        session.execute(text)
    except SqlError as error:
        return str(error)
    return ""


def _by_bidder(rows: Rows) -> Rows:
    """Return the rows of q12 without their windows, which depend on when the query ran."""
    counts: Counter[int] = Counter()
    for (bidder, bids, *_), times in rows.items():
        counts[bidder] += bids * times
    return Counter(counts.items())


def _rows_of_files(folder: Path) -> Rows:
    rows: Rows = Counter()
    for path in folder.glob("dt=*/hm=*/*.csv"):
        dt, hm = (unquote(each.name.partition("=")[2]) for each in (path.parent.parent, path.parent))
        with path.open(newline="") as lines:
            for auction, bidder, price, time, extra in csv.reader(lines):
                rows[int(auction), int(bidder), int(price), _value(time), extra, dt, hm] += 1
    return rows


def _value(value: Any) -> Any:
    """Return a value of a record; a text that is a time becomes one."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    day, seconds, digits = found.groups()
    return datetime.fromisoformat(f"{day} {seconds}") + timedelta(
        microseconds=int((digits or "0").ljust(6, "0"))
    )
