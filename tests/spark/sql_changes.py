"""Tables that change, for tests of SQL: their options, changes of a Debezium topic, rows that are left.

Runs in tests only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from tests import judge
from tests.spark.test_sql import Script

LINE = re.compile(r"([+-][IUD])\[(.*)\]")


def upsert(bootstrap: str, topic: str) -> str:
    """Return WITH of an upsert table in JSON."""
    return (
        f"WITH ('connector' = 'upsert-kafka', 'topic' = '{topic}', "
        f"'properties.bootstrap.servers' = '{bootstrap}', 'key.format' = 'json', 'value.format' = 'json')"
    )


def run(script: Script, insert: str) -> None:
    """Run an INSERT until all records are read."""
    for job in [each.job for each in script(insert) if each.job is not None]:
        for query in job.queries:
            query.processAllAvailable()
        job.stop()


def table(lines: list[str]) -> list[str]:
    """Return the rows that are there after the changes of a print table."""
    rows: Counter[str] = Counter()
    for line in lines:
        found = LINE.fullmatch(line)
        assert found is not None
        rows[found[2]] += 1 if found[1] in ("+I", "+U") else -1
        assert rows[found[2]] >= 0, f"{line} goes and was not there"
    return sorted(rows.elements())


def written(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """Return the rows of an upsert table, by its records."""
    last = {record.key: record.value for record in judge.consume_all(bootstrap, topic)}
    return sorted((json.loads(value) for value in last.values() if value is not None), key=str)


def event(op: str, before: Any, after: Any) -> bytes:
    rows = [
        None if row is None else dict(zip(("id", "shop", "amount"), row, strict=True))
        for row in (before, after)
    ]
    return json.dumps({"op": op, "before": rows[0], "after": rows[1]}).encode()


EVENTS = [
    event("c", None, (1, "a", 5)),
    event("c", None, (2, "a", 7)),
    event("c", None, (3, "b", 1)),
    event("u", (1, "a", 5), (1, "b", 5)),
    event("u", (2, "a", 7), (2, "a", 8)),
    event("d", (3, "b", 1), None),
]
SALES = "(id INT, shop STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)"
