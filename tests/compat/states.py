"""States of operators: what each release keeps of two batches, and what comes of the third one.

No Spark is needed: each task runs here as Spark would run it. Invariant: operators and batches never change,
because a release has recorded what they make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.append_join import AppendJoin
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import Join
from penstock.changelog.operators.join_with_ttl import JoinWithTtl
from penstock.changelog.operators.keep_values import KeepValues
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.over.calls import parse_over_calls
from penstock.changelog.operators.over.operator import Over
from penstock.changelog.operators.sessions import Sessions
from penstock.changelog.operators.sort_by_time import SortByTime
from penstock.changelog.operators.temporal_join import TemporalJoin
from penstock.changelog.operators.top_n import TopN
from penstock.spark import _keyed_task
from penstock.spark._keyed_task import NOW_MS, PARTITION, KeyedTask
from penstock.spark._planning import PlanWriter
from penstock.spark._task_context import BatchTask
from penstock.state import store
from penstock.state.snapshot import Lifetime

RECORDED = 2
"""The number of batches that a release has recorded."""
_PARTITIONS = 2
_QUERY = "8c19773b-93ee-4f08-a627-63d7f625a574"
_TIME = pa.timestamp("us", "UTC")
_START = datetime(2026, 1, 1, tzinfo=UTC)
_START_US = 1_767_225_600_000_000
_WAITING = [("#side", pa.int8()), ("#clock", pa.int64())]

Row = tuple[Any, ...]
"""The values of the columns, and the kind of the row."""


@dataclass(frozen=True)
class Kept:
    """An operator, and the rows of its batches. The first text of a row says which partition it has."""

    operator: Operator
    columns: pa.Schema
    batches: Sequence[Sequence[Row]]


def _at(second: int) -> datetime:
    return _START + timedelta(seconds=second)


def _clocked(*batches: Sequence[tuple[str, int, int]]) -> list[list[Row]]:
    """Return rows with a time, and the clocks that a task adds to them for both partitions."""
    found: list[list[Row]] = []
    for batch in batches:
        clock = _START_US + 1_000_000 * max(second for _, second, _ in batch)
        clocks: list[Row] = [(2, clock, key, None, None, "+I") for key in "ab"]
        found.append([*((0, None, key, _at(second), v, "+I") for key, second, v in batch), *clocks])
    return found


def _kept() -> dict[str, Kept]:
    plain = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])
    timed = pa.schema([*_WAITING, ("k", pa.string()), ("at", _TIME), ("v", pa.int64())])
    sides = pa.schema(
        [("#side", pa.int8()), ("#key 0", pa.string()), ("#left k", pa.string()), ("#left v", pa.int64()),
         ("#right k", pa.string()), ("#right w", pa.float64())]
    )  # fmt: skip
    versions = pa.schema(
        [("#side", pa.int8()), ("#key 0", pa.string()), ("#left k", pa.string()), ("#left at", _TIME),
         ("#right rate", pa.int64()), ("#right since", _TIME), ("#clock", pa.int64())]
    )  # fmt: skip
    names = (("k", ("#left k", "#right k")), ("v", ("#left v",)), ("w", ("#right w",)))
    rated = (("k", ("#left k",)), ("at", ("#left at",)), ("rate", ("#right rate",)))
    calls = {
        "n": "count(*)",
        "total": "sum(v)",
        "low": "min(v)",
        "different": "count(DISTINCT v)",
        "all": "listagg(k)",
    }
    changes: list[list[Row]] = [
        [("a", 1, 1, "+I"), ("a", 2, 2, "+I"), ("b", 3, 3, "+I")],
        [("a", 2, 2, "-D"), ("b", 4, 5, "+I")],
        [("a", 5, 6, "+I"), ("b", 3, 3, "-D"), ("a", 1, 1, "-D")],
    ]
    inserts: list[list[Row]] = [[(*row[:3], "+I") for row in batch] for batch in changes]
    upserts: list[list[Row]] = [
        [("a", 1, 1, "+U"), ("b", 2, 2, "+U")],
        [("a", 7, 3, "+U"), ("b", 2, 4, "-D")],
        [("a", 8, 5, "+U"), ("b", 9, 6, "+U"), ("a", 7, 2, "+U")],
    ]
    two_sides: list[list[Row]] = [
        [(0, "a", "a", 1, None, None, "+I"), (1, "b", None, None, "b", 0.5, "+I")],
        [(1, "a", None, None, "a", 1.5, "+I"), (0, "b", "b", 2, None, None, "+I")],
        [(1, "b", None, None, "b", 0.5, "-D"), (0, "a", "a", 3, None, None, "+I")],
    ]
    pairs: list[list[Row]] = [[(*row[:-1], "+I") for row in batch] for batch in two_sides]
    three = pa.schema(
        [("#side", pa.int8()), ("#key 0", pa.string()), ("#0 v", pa.int64()), ("#1 w", pa.float64()),
         ("#2 x", pa.string())]
    )  # fmt: skip
    of_three: list[list[Row]] = [
        [(0, "a", 1, None, None, "+I"), (1, "a", None, 0.5, None, "+I"), (2, "b", None, None, "x", "+I")],
        [(1, "a", None, 1.5, None, "+I"), (0, "b", 2, None, None, "+I"), (0, "b", 2, None, None, "+I")],
        [(2, "a", None, None, "y", "+I"), (1, "b", None, 2.5, None, "+I"), (0, "a", 3, None, None, "+I")],
    ]
    rates: list[list[Row]] = [
        [
            (1, "a", None, None, 10, _at(0), None, "+I"),
            (0, "a", "a", _at(2), None, None, None, "+I"),
            *_clocks(2, 0),
        ],
        [
            (1, "a", None, None, 11, _at(5), None, "+I"),
            (0, "a", "a", _at(6), None, None, None, "+I"),
            *_clocks(6, 5),
        ],
        [
            (1, "a", None, None, 12, _at(9), None, "+I"),
            (0, "a", "a", _at(8), None, None, None, "+I"),
            *_clocks(12, 12),
        ],
    ]
    times = _clocked([("a", 1, 1), ("b", 2, 2)], [("a", 4, 3), ("b", 3, 4)], [("b", 20, 5), ("a", 21, 6)])
    over = tuple(parse_over_calls({"n": "count(*)", "total": "sum(v)", "before": "lag(v)"}))
    return {
        "aggregate": Kept(Aggregate(plain, ("k",), tuple(parse_calls(calls))), plain, changes),
        "normalize": Kept(Normalize(plain, ("k",), ("at",)), plain, upserts),
        "normalize with columns that change": Kept(
            Normalize(plain, ("k",), ("at",), version=2), plain, upserts
        ),
        "deduplicate": Kept(Deduplicate(plain, ("k",), ("at",), "last"), plain, inserts),
        "top_n": Kept(TopN(plain, ("k",), (("v", True),), 2, "place"), plain, changes),
        "keep_values": Kept(KeepValues(plain, ("k",), ("at",)), plain, changes),
        "append_join": Kept(AppendJoin(sides, names), sides, pairs),
        "append_join of three inputs": Kept(
            AppendJoin(
                three,
                (("v", ("#0 v",)), ("w", ("#1 w",)), ("x", ("#2 x",))),
                (("k0", "k1", "k2"),),
                ("#0 ", "#1 ", "#2 "),
            ),
            three,
            of_three,
        ),
        "join": Kept(Join(sides, "full", names), sides, two_sides),
        "join with a time to live": Kept(JoinWithTtl(sides, "left", names), sides, two_sides),
        "temporal_join": Kept(
            TemporalJoin(versions, ("#left at", "#right since"), rated, "left", 1_000_000), versions, rates
        ),
        "over": Kept(Over(timed, ("k",), "at", (), over, "rows", 1, 1_000_000), timed, times),
        "sessions": Kept(
            Sessions(timed, ("k",), "at", 5_000_000, ("begin", "stop"), 1_000_000), timed, times
        ),
        "sort_by_time": Kept(SortByTime(timed, "at", (), 1_000_000), timed, times),
    }


def _clocks(left: int, right: int) -> Iterator[Row]:
    """Yield the clocks of both sides for both partitions."""
    for key in ("a", "b"):
        for side, second in ((2, left), (3, right)):
            yield side, key, None, None, None, None, _START_US + 1_000_000 * second, "+I"


def run(kept: Kept, folder: Path, number: int) -> list[dict[str, Any]]:
    """Run one batch as one task, and return the rows that come of it."""
    location = str(folder)
    with _as_spark(number):
        identity = _keyed_task.identity_of(kept.operator, "", _PARTITIONS)
        planned = PlanWriter(location, f"{number:02x}", identity).run()
        lifetime = Lifetime(remembers_deleted=kept.operator.remembers_deleted)
        task = KeyedTask(
            kept.operator,
            _with_kind(kept.columns),
            location,
            _PARTITIONS,
            lifetime,
            plan_id=f"{number:02x}",
            plan_number=planned.number,
            folder_id=planned.folder_id,
            has_one_machine=True,
        )
        return [row for batch in task.run([_sent(kept, number)]) for row in batch.to_pylist()]


def _with_kind(columns: pa.Schema) -> pa.Schema:
    return columns.append(pa.field("row_kind", pa.string()))


def _sent(kept: Kept, number: int) -> pa.RecordBatch:
    rows = kept.batches[number]
    partitions = [next(value for value in row if value in ("a", "b")) == "b" for row in rows]
    schema = pa.schema([*_with_kind(kept.columns), (PARTITION, pa.int32()), (NOW_MS, pa.int64())])
    columns = [*zip(*rows, strict=True), map(int, partitions), [_START_US // 1_000 + number] * len(rows)]
    arrays = [pa.array(list(each), field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def _as_spark(batch_id: int) -> Iterator[None]:
    """Be a task of a run of its own: each batch comes after a restart."""
    task = BatchTask(_QUERY, f"run {batch_id}", batch_id, batch_id, 0, batch_id)
    with patch.object(_keyed_task, "batch_of_task", lambda: task), patch.object(store, "_OPEN", {}):
        yield


KEPT = _kept()
