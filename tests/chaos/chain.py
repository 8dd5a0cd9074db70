"""Two operators over a changelog, and what they make of records, in plain Python.

Invariant: the reference knows batches, rows and groups only. It takes no code of penstock.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock import changelog
from tests.unit.changelog.reference import Reference
from tests.unit.changelog.running import Row

COLUMNS = "k BIGINT, s STRING, v BIGINT, at BIGINT, row_kind STRING"
STATES = ("normalize", "aggregate")
GROUPS = {
    "n": "count(*)",
    "total": "sum(v)",
    "low": "min(v)",
    "high": "max(v)",
    "different": "count(distinct v)",
}


def chain_of(records: DataFrame, states: str) -> DataFrame:
    """Return the changes of groups, as keys and values for a topic."""
    row = F.from_json(F.col("value").cast("string"), COLUMNS)
    rows = records.select(row.alias("row")).select("row.*")
    first, second = (f"{states}/{name}" for name in STATES)
    changes = changelog.normalize(rows, ["k"], order_by=["at"], state=first, partitions=3)
    groups = changelog.aggregate(changes, ["s"], GROUPS, state=second, partitions=2)
    return groups.select(F.col("s").alias("key"), F.to_json(F.struct(*groups.columns)).alias("value"))


class ChainReference:
    """The rows of each key of the topic, in their order."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._table = Reference()
        self._groups: dict[str, Row] = {}

    def step(self, values: Iterable[bytes]) -> None:
        """Take the records of one batch."""
        self._table.step([json.loads(value) for value in values])
        groups = _groups_of(self._table.rows.values())
        for s in sorted(groups.keys() | self._groups.keys()):
            old, new = self._groups.get(s), groups.get(s)
            if old == new:
                continue
            kinds = ("-U", "+U") if old and new else ("-D", "+I")
            self.rows[s] += [
                {**row, "row_kind": kind} for row, kind in zip((old, new), kinds, strict=True) if row
            ]
        self._groups = groups


def _groups_of(rows: Iterable[Row]) -> dict[str, Row]:
    values: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        values[row["s"]].append(row["v"])
    return {
        s: {
            "s": s,
            "n": len(found),
            "total": sum(found),
            "low": min(found),
            "high": max(found),
            "different": len(set(found)),
        }
        for s, found in values.items()
    }
