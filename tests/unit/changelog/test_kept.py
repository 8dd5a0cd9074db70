"""What each function keeps: the table of docs/changelog-functions.md. `test_over.py` has that of `over`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import Join
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.temporal_join import TemporalJoin
from penstock.changelog.operators.top_n import TopN
from penstock.state.columns import DELETED
from penstock.state.snapshot import Lifetime
from tests.unit.changelog.running import Row, Running

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])


def running(operator: Operator, lifetime: Lifetime | None = None) -> Running:
    columns: pa.Schema = operator.columns  # type: ignore[attr-defined]
    return Running(operator, columns.append(pa.field("row_kind", pa.string())), lifetime)


def rows(*given: tuple[str, str, int | None, int]) -> list[Row]:
    return [{"row_kind": kind, "k": k, "v": v, "at": at} for kind, k, v, at in given]


def kinds(out: Iterable[Row]) -> list[str]:
    return [row["row_kind"] for row in out]


def test_normalize_keeps_a_row_for_each_key_and_of_a_deleted_one_its_sort_key() -> None:
    tested = running(Normalize(COLUMNS, ("k",), ("at",)), Lifetime(deleted_ttl_ms=100))
    tested.step(rows(("+I", "a", 1, 1), ("+U", "a", 2, 2), ("+I", "b", 3, 3)), now_ms=1)
    tested.step(rows(("-D", "b", None, 4)), now_ms=2)
    by_key = {row["k"]: row for row in tested.kept()}
    assert (by_key["a"]["v"], by_key["b"]["v"]) == (2, None)
    assert (by_key["b"][DELETED], by_key["b"]["#seen at"]) == (True, 4)
    assert tested.step(rows(("+U", "a", 9, 1), ("+I", "b", 9, 3)), now_ms=3) == [], "late rows vanish"
    assert kinds(tested.step(rows(("+I", "b", 9, 4)), now_ms=200)) == ["+I"], "the deleted key is forgotten"


@pytest.mark.parametrize(("keep", "late", "other"), [("first", 0, 7), ("last", 7, 0)])
def test_deduplicate_keeps_a_row_for_each_key(keep: Any, late: int, other: int) -> None:
    tested = running(Deduplicate(COLUMNS, ("k",), ("at",), keep), Lifetime(ttl_ms=100))
    tested.step(rows(*(("+I", k, 1, at) for k in "ab" for at in (3, 4, 5))), now_ms=1)
    assert kinds(tested.step(rows(("+I", "a", 1, late)), now_ms=2)) == ["-U", "+U"]
    assert tested.step(rows(("+I", "a", 1, other)), now_ms=3) == []
    assert [row["k"] for row in sorted(tested.kept(), key=lambda row: row["k"])] == ["a", "b"]
    assert kinds(tested.step(rows(("+I", "b", 1, other)), now_ms=200)) == ["+I"], "the key is forgotten"


def test_top_n_keeps_all_rows_that_are_there() -> None:
    tested = running(TopN(COLUMNS, ("k",), (("at", False),), 1))
    tested.step(rows(*(("+I", "a", 1, at) for at in range(5))))
    assert len(tested.kept()) == 5
    assert kinds(tested.step(rows(("-D", "a", 1, 0)))) == ["-D", "+I"]
    tested.step(rows(*(("-D", "a", 1, at) for at in range(1, 5))))
    assert tested.kept() == []


@pytest.mark.parametrize(
    ("calls", "counts"),
    [
        ({"n": "count(*)", "sum": "sum(v)", "mean": "avg(v)"}, [2, 2, 0]),
        ({"low": "min(v)"}, [2 + 5, 2 + 2, 0]),
        ({"values": "count(distinct v)", "first": "first(v order by at)"}, [2 + 5 + 6, 2 + 2 + 2, 0]),
    ],
)
def test_aggregate_keeps_sums_and_for_some_aggregates_each_different_value(
    calls: dict[str, str], counts: list[int]
) -> None:
    tested = running(Aggregate(COLUMNS, ("k",), tuple(parse_calls(calls))))
    gone = [("a", 1, 1), ("a", 1, 2), ("a", 2, 3), ("a", 3, 4)]
    stays = [("a", 4, 5), ("b", 4, 6)]
    tested.step(rows(*(("+I", *each) for each in [*gone, *stays])))
    found = [len(tested.kept())]
    for each in (gone, stays):
        tested.step(rows(*(("-D", *one) for one in each)))
        found.append(len(tested.kept()))
    assert found == counts


SIDES = pa.schema(
    [
        ("#side", pa.int8()),
        ("#key 0", pa.string()),
        ("#left k", pa.string()),
        ("#left at", pa.timestamp("us", "UTC")),
        ("#right rate", pa.int64()),
        ("#right since", pa.timestamp("us", "UTC")),
    ]
)
NAMES = (("k", ("#left k",)), ("rate", ("#right rate",)))


def at(second: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def of_sides(*given: tuple[int, str, int, str]) -> list[Row]:
    none: Row = dict.fromkeys([*SIDES.names, "#clock"])
    found = []
    for side, k, second, kind in given:
        own = (
            {"#right rate": second, "#right since": at(second)}
            if side
            else {"#left k": k, "#left at": at(second)}
        )
        found.append({**none, "#side": side, "#key 0": k, "row_kind": kind, **own})
    return found


def test_join_keeps_the_rows_of_both_sides_that_are_there() -> None:
    tested = running(Join(SIDES, "inner", NAMES))
    both = [(0, "a", 1), (0, "a", 2), (1, "a", 3), (1, "b", 4)]
    tested.step(of_sides(*((*each, "+I") for each in both)))
    assert len(tested.kept()) == 4
    assert kinds(tested.step(of_sides((0, "a", 1, "-D")))) == ["-D"]
    tested.step(of_sides(*((*each, "-D") for each in both[1:])))
    assert tested.kept() == []


def clocks(second: int) -> list[Row]:
    micros = int(at(second).timestamp()) * 1_000_000
    none: Row = {**dict.fromkeys(SIDES.names), "row_kind": "+I"}
    return [{**none, "#side": 2 + side, "#clock": micros} for side in (0, 1)]


def test_temporal_join_keeps_rows_that_wait_and_the_version_at_the_watermark() -> None:
    columns = SIDES.append(pa.field("#clock", pa.int64()))
    tested = running(TemporalJoin(columns, ("#left at", "#right since"), NAMES, "left", 0))
    clock_count = 2
    tested.step([*of_sides(*((1, "a", since, "+I") for since in range(5)), (0, "a", 9, "+I")), *clocks(0)])
    assert len(tested.kept()) == 1 + 5 + clock_count, "a row that waits"
    out = tested.step([*of_sides((1, "a", 20, "-D")), *clocks(30)])
    assert [(row["k"], row["rate"]) for row in out] == [("a", 4)]
    out = tested.step([*of_sides((0, "a", 1, "+I")), *clocks(30)])
    assert [row["rate"] for row in out] == [None], "a late row comes out at once, and sees what is left"
    assert len(tested.kept()) == 1 + clock_count, "a deleted key is one row"
