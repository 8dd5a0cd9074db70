"""Run Nexmark's queries as streams of so many micro-batches, and return the tables that they leave.

Invariant: the text of each query is that of the benchmark. Only its target is another one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.sql.run.session import Session
from tests import judge
from tests.judges.nexmark.oracle import Rows

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,3})?")
_QUERIES = Path(__file__).parent / "queries"
TARGETS = {
    "q4": "id BIGINT, `final` BIGINT",
    "q5": "auction BIGINT, num BIGINT",
    "q7": "auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra VARCHAR",
    "q8": "id BIGINT, name VARCHAR, stime TIMESTAMP(3)",
    "q9": "id BIGINT, itemName VARCHAR, description VARCHAR, initialBid BIGINT, reserve BIGINT, "
    "`dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra VARCHAR, "
    "auction BIGINT, bidder BIGINT, price BIGINT, bid_dateTime TIMESTAMP(3), bid_extra VARCHAR",
}
"""The columns of the target of each query."""
_CHANGING = ("q4", "q9")
"""The queries that change rows. Their targets are topics of changes."""


def tables_of(
    spark: SparkSession,
    bootstrap: str,
    source: str,
    names: list[str],
    per_batch: int,
    folder: Path,
    *,
    timeout_s: float,
) -> dict[str, Rows]:
    """Run queries at the same time over a topic, and return the rows of the table of each.

    Args:
        spark: the session.
        bootstrap: of the broker.
        source: the topic of the events. The topic of a target has this name, the query's, and `per_batch`.
        names: of the queries.
        per_batch: how many events a micro-batch has.
        folder: of the checkpoints.
        timeout_s: for each query.
    """
    session = Session(spark)
    try:
        session.execute(f"SET 'execution.checkpointing.dir' = '{folder}'")
        session.execute(_declared(bootstrap, source, names, per_batch))
        jobs = [session.execute(_text_of(name))[0].job for name in names]
        for job in jobs:
            assert job is not None
            assert job.wait(timeout_s), f"{job.name} has not ended within {timeout_s} s"
    finally:
        session.stop()
    return {name: _table(bootstrap, _topic(source, name, per_batch), name) for name in names}


def _topic(source: str, name: str, per_batch: int) -> str:
    return f"{source}-{name}-{per_batch}"


def _text_of(name: str) -> str:
    return (_QUERIES / f"{name}.sql").read_text()


def _declared(bootstrap: str, source: str, names: list[str], per_batch: int) -> str:
    broker = f"'properties.bootstrap.servers' = '{bootstrap}'"
    parts = [
        f"{_text_of('events')}) WITH ('connector' = 'kafka', 'topic' = '{source}', {broker}, "
        "'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
        f"'scan.max-records-per-batch' = '{per_batch}')",
        _text_of("views").replace("${NEXMARK_TABLE}", "kafka").rstrip().removesuffix(";"),
    ]
    for name in names:
        topic = _topic(source, name, per_batch)
        judge.create_topic(bootstrap, topic)
        written = "debezium-json" if name in _CHANGING else "json"
        options = f"'connector' = 'kafka', 'format' = '{written}', 'topic' = '{topic}', {broker}"
        parts.append(f"CREATE TABLE nexmark_{name} ({TARGETS[name]}) WITH ({options})")
    return ";\n".join(parts)


def _table(bootstrap: str, topic: str, name: str) -> Rows:
    """Return the rows that the records of a topic leave."""
    rows: Rows = Counter()
    for record in judge.consume_all(bootstrap, topic):
        found = json.loads(record.value or b"null")
        old, new = (found["before"], found["after"]) if name in _CHANGING else (None, found)
        for row, count in ((old, -1), (new, 1)):
            if row is not None:
                rows[tuple(map(_value, row.values()))] += count
    return Counter({row: count for row, count in rows.items() if count})


def _value(value: Any) -> Any:
    """Return a value of a record; a text that is a time becomes one."""
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        return value
    return datetime.strptime(value.partition(".")[0], "%Y-%m-%d %H:%M:%S") + timedelta(  # noqa: DTZ007 - no zone
        milliseconds=int((value.partition(".")[2] or "0").ljust(3, "0"))
    )
