"""Times to live of `join`, `aggregate` and `top_n`, against Flink's operators in plain Python.

The references take one change at a time, as Flink does, so here each batch has one change.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.join import HOWS, SIDE, How
from penstock.changelog.operators.join_with_ttl import JoinWithTtl
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.top_n import TopN
from penstock.state.merge import merged, run_in_memory
from penstock.state.snapshot import Lifetime
from tests.examples import examples
from tests.unit.changelog.histories import apply, changelog, in_batches
from tests.unit.changelog.running import Row, Running, as_changelog
from tests.unit.changelog.test_join import COLUMNS, NAMES, WITH_KIND, make, reference

TTL = 10
NOTHING = dict.fromkeys(COLUMNS.names)


def joined(how: How, ttls_ms: tuple[int | None, int | None] = (TTL, TTL)) -> Running:
    names = ("k", "a") if how in ("semi", "anti") else tuple(NAMES)
    operator = JoinWithTtl(COLUMNS, how, tuple((name, NAMES[name]) for name in names))
    return Running(operator, WITH_KIND, Lifetime(remembers_deleted=False, by=SIDE, ttls_ms=ttls_ms))


class FlinksJoin:
    """StreamingJoinOperator and StreamingSemiAntiJoinOperator of Flink with a time to live."""

    def __init__(self, how: str, ttls_ms: tuple[int | None, int | None]) -> None:
        self.how = how
        self.ttls_ms = ttls_ms
        self.rows: list[dict[str, list[Any]]] = [{}, {}]
        """Of each side the rows as texts, each with the row, its number, its partners and its time."""

    def remembers(self, side: int) -> bool:
        return self.how in (("left", "full", "semi", "anti"), ("right", "full"))[side]

    def alive(self, side: int, now_ms: int) -> Iterator[list[Any]]:
        ttl_ms = self.ttls_ms[side]
        for text, entry in list(self.rows[side].items()):
            if ttl_ms is not None and entry[3] + ttl_ms <= now_ms:
                del self.rows[side][text]
            else:
                yield entry

    def shown(self, one: Row, other: Row, kind: str) -> Row:
        both = {name: one[name] if one[name] is not None else other[name] for name in COLUMNS.names}
        names = ("k", "a") if self.how in ("semi", "anti") else tuple(NAMES)
        found = {
            name: next((both[each] for each in NAMES[name] if both[each] is not None), None) for name in names
        }
        return {**found, "row_kind": kind}

    def step(self, change: Row, now_ms: int) -> list[Row]:
        side, comes = change[SIDE], change["row_kind"] in ("+I", "+U")
        row = {name: change[name] for name in COLUMNS.names}
        others = [
            entry
            for entry in self.alive(1 - side, now_ms)
            if row["#key 0"] is not None and all(entry[0][key] == row[key] for key in ("#key 0", "#key 1"))
        ]
        list(self.alive(side, now_ms))
        alone = self.how in ("semi", "anti")
        out = []
        first, second = ("+I", "-D") if comes else ("-D", "+I")
        if not alone:
            if others:
                out += [self.shown(row, entry[0], first) for entry in others for _ in range(entry[1])]
            elif self.remembers(side):
                out.append(self.shown(row, NOTHING, first))
        elif side == 0:
            known = self.rows[0].get(str(row))
            # Flink looks at the partners of now when a row goes, so it leaves some. Here it goes as it came.
            has_partner = bool(others) if comes or known is None else known[2] > 0
            if has_partner == (self.how == "semi"):
                out.append(self.shown(row, NOTHING, first))
        if self.remembers(1 - side):
            for entry in others:
                if entry[2] == (0 if comes else 1):
                    kind = first if self.how == "semi" else second
                    out += [self.shown(entry[0], NOTHING, kind)] * entry[1]
                entry[2], entry[3] = entry[2] + (1 if comes else -1), now_ms
        if row["#key 0"] is not None:
            self.keep(side, row, sum(entry[1] for entry in others), now_ms, comes=comes)
        return out

    def keep(self, side: int, row: Row, partners: int, now_ms: int, *, comes: bool) -> None:
        entry = self.rows[side].get(str(row))
        if entry is None and comes:
            self.rows[side][str(row)] = [row, 1, partners, now_ms]
        elif entry is not None:
            entry[1], entry[3] = entry[1] + (1 if comes else -1), now_ms
            entry[2] = partners if comes else entry[2]
            if not entry[1]:
                del self.rows[side][str(row)]


def net(rows: list[Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        content = {name: value for name, value in row.items() if name != "row_kind"}
        found[str(content)] += 1 if row["row_kind"] in ("+I", "+U") else -1
    return Counter({text: count for text, count in found.items() if count})


@pytest.mark.parametrize("ttls_ms", [(TTL, TTL), (TTL, None), (None, 4)])
@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 30))
def test_a_join_forgets_as_flink_does(
    how: How, ttls_ms: tuple[int | None, int | None], seed: int, length: int
) -> None:
    """Rows come back only after all are gone, so that no row goes that only one side has forgotten."""
    chance = random.Random(seed)
    tested, flink = joined(how, ttls_ms), FlinksJoin(how, ttls_ms)
    now_ms = 1
    for change in changelog(chance, length, make):
        now_ms += chance.randint(0, 4)
        if change["row_kind"] in ("-U", "-D") and not _is_known(flink, change, now_ms):
            continue
        out = tested.step([change], now_ms)
        assert net(out) == net(flink.step(change, now_ms)), (change, now_ms)
        assert {row["row_kind"] for row in out} <= {"+I", "-D"}


def _is_known(flink: FlinksJoin, change: Row, now_ms: int) -> bool:
    row = {name: change[name] for name in COLUMNS.names}
    return row["#key 0"] is None or any(entry[0] == row for entry in flink.alive(change[SIDE], now_ms))


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=examples(10))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
def test_a_join_that_forgets_nothing_is_the_join_of_the_tables(how: How, seed: int, length: int) -> None:
    chance = random.Random(seed)
    tested = joined(how, (1_000, 1_000))
    table: list[Row] = []
    result: list[Row] = []
    for now_ms, batch in enumerate(in_batches(chance, changelog(chance, length, make), 4)):
        apply(table, batch)
        result = as_changelog(
            [*({**row, "row_kind": "+I"} for row in result), *tested.step(batch, 1 + now_ms)]
        )["rows"]
        assert Counter(map(str, result)) == Counter(map(str, reference(how, table)))


def one(kind: str, side: int, value: Any, key: int = 1) -> Row:
    row: dict[str, Any] = {**NOTHING, "#side": side, "#key 0": key, "#key 1": "x", "row_kind": kind}
    return (
        {**row, "#left k": key, "#left a": value}
        if side == 0
        else {**row, "#right k": key, "#right b": value}
    )


def shown(rows: list[Row]) -> list[str]:
    return [f"{row['row_kind']} {row['a']} {row['b']}" for row in rows]


def test_a_row_that_was_forgotten_and_goes_takes_its_pairs_with_it() -> None:
    tested = joined("inner", (None, TTL))
    tested.step([one("+I", 0, "p"), one("+I", 1, 0.5)], 1)
    assert shown(tested.step([one("-U", 1, 0.5), one("+U", 1, 1.5)], 1 + TTL)) == ["-D p 0.5", "+I p 1.5"]
    assert tested.step([one("-D", 1, 7.5, key=2)], 2 + TTL) == []


def test_an_outer_join_knows_which_pairs_it_gave_also_of_rows_that_were_forgotten() -> None:
    tested = joined("left", (None, TTL))
    tested.step([one("+I", 0, "p"), one("+I", 1, 0.5)], 1)
    late = 1 + TTL
    assert shown(tested.step([one("+I", 0, "q")], late)) == ["+I q None"]
    assert sorted(shown(tested.step([one("-D", 1, 0.5)], late))) == ["+I p None", "-D p 0.5"]
    tested.step([one("+I", 1, 2.5)], late)
    assert shown(tested.step([one("-D", 0, "p")], late + TTL)) == ["-D p None"], "as Flink says"


def test_a_row_that_was_touched_is_not_forgotten_and_gives_its_pairs_again() -> None:
    tested = joined("inner")
    tested.step([one("+I", 0, "p"), one("+I", 1, 0.5)], 1)
    again = tested.step([one("-U", 1, 0.5), one("+U", 1, 0.5)], 1 + TTL - 1)
    assert shown(again) == ["-D p 0.5", "+I p 0.5"]
    assert shown(tested.step([one("+I", 0, "q")], 2 * TTL - 1)) == ["+I q 0.5"]
    assert tested.step([one("+I", 0, "r")], 2 * TTL + 1) == []


GROUPED = pa.schema([("g", pa.int64()), ("x", pa.int64())])
GROUPED_WITH_KIND = GROUPED.append(pa.field("row_kind", pa.string()))
OF_KEYS = Lifetime(TTL, remembers_deleted=False, of_keys=True)
CALLS = {"n": "count(*)", "s": "sum(x)", "most": "max(x)", "d": "count(distinct x)"}


def aggregate() -> Running:
    calls = tuple(parse_calls(CALLS))
    return Running(Aggregate(GROUPED, ("g",), calls, forgets=True), GROUPED_WITH_KIND, OF_KEYS)


def top(rank: str | None = None) -> Running:
    operator = TopN(GROUPED, ("g",), (("x", True),), 2, rank, forgets=True)
    return Running(operator, GROUPED_WITH_KIND, OF_KEYS)


def rows(*given: tuple[str, int, int | None]) -> list[Row]:
    return [{"row_kind": kind, "g": g, "x": x} for kind, g, x in given]


class Groups:
    """Groups that are forgotten as a whole, one change at a time. It gives the values of each group."""

    def __init__(self) -> None:
        self.values: dict[int, list[int | None]] = {}
        self.times: dict[int, int] = {}

    def step(self, change: Row, now_ms: int) -> tuple[list[int | None] | None, list[int | None] | None]:
        group, value = change["g"], change["x"]
        if self.times.get(group, 0) + TTL <= now_ms:
            self.values.pop(group, None)
        before = list(self.values[group]) if group in self.values else None
        if change["row_kind"] in ("+I", "+U"):
            self.values.setdefault(group, []).append(value)
        elif before is None:
            return None, None
        else:
            self.values[group].remove(value)
        self.times[group] = now_ms
        if not self.values[group]:
            del self.values[group]
        return before, self.values.get(group)


def make_grouped(chance: random.Random) -> Row:
    return {"g": chance.randint(1, 2), "x": chance.choice([None, 1, 2, 3])}


def in_time(seed: int, length: int, groups: Groups) -> Iterator[tuple[Row, int, Any, Any]]:
    """Yield changes with their times. A row goes only if its group was not forgotten since it came."""
    chance, now_ms = random.Random(seed), 1
    for change in changelog(chance, length, make_grouped):
        now_ms += chance.randint(0, 4)
        is_known = groups.times.get(change["g"], 0) + TTL > now_ms
        there = groups.values.get(change["g"], []) if is_known else []
        if change["row_kind"] in ("-U", "-D") and there and change["x"] not in there:
            continue
        yield change, now_ms, *groups.step(change, now_ms)


def compact(tested: Running, now_ms: int) -> None:
    """Merge all runs, as a task does from time to time: what is over has to stay away, and nothing else."""
    snapshot = tested.snapshot
    pieces = merged(
        snapshot.schema,
        snapshot.runs,
        snapshot.lifetime,
        has_parts=True,
        is_oldest_among_them=True,
        now_ms=now_ms,
    )
    table = pa.Table.from_batches(list(pieces), snapshot.schema)
    snapshot.runs = [run_in_memory(snapshot.schema, table)]


def aggregated(values: list[int | None]) -> Row:
    valid = [each for each in values if each is not None]
    return {
        "n": len(values),
        "s": sum(valid) if valid else None,
        "most": max(valid, default=None),
        "d": len(set(valid)),
    }


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
def test_a_group_is_forgotten_as_a_whole(seed: int, length: int) -> None:
    tested, chance = aggregate(), random.Random(seed)
    for change, now_ms, before, after in in_time(seed, length, Groups()):
        kinds = {(False, True): ["+I"], (True, True): ["-U", "+U"], (True, False): ["-D"], (False, False): []}
        wanted = kinds[before is not None, after is not None]
        out = tested.step([change], now_ms)
        assert [row["row_kind"] for row in out] == wanted, (change, now_ms)
        for row, values in zip(out, [each for each in (before, after) if each is not None], strict=True):
            assert {name: row[name] for name in CALLS} == aggregated(values)
        if chance.random() < 0.3:
            compact(tested, now_ms)


@pytest.mark.parametrize("rank", [None, "rank"])
@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
def test_the_top_of_a_group_is_forgotten_as_a_whole(rank: str | None, seed: int, length: int) -> None:
    tested, chance = top(rank), random.Random(seed)
    for change, now_ms, before, after in in_time(seed, length, Groups()):
        wanted: Counter[str] = Counter()
        for values, sign in ((before, -1), (after, 1)):
            ordered = sorted(values or [], key=lambda each: -1 if each is None else each, reverse=True)
            for index, value in enumerate(ordered[:2]):
                row = {"g": change["g"], "x": value, **({} if rank is None else {"rank": index + 1})}
                wanted[str(row)] += sign
        out = tested.step([change], now_ms)
        assert net(out) == Counter({text: count for text, count in wanted.items() if count}), (change, now_ms)
        if chance.random() < 0.3:
            compact(tested, now_ms)


def test_rows_of_a_forgotten_group_that_go_leave_no_number_below_0() -> None:
    tested = aggregate()
    tested.step(rows(("+I", 1, 5), ("+I", 1, 7)), 1)
    late = 1 + TTL
    assert tested.step(rows(("-D", 1, 5)), late) == []
    out = tested.step(rows(("-U", 1, 7), ("+U", 1, 8), ("+I", 1, 9), ("-D", 1, 9)), late)
    assert out == [{"g": 1, "n": 1, "s": 8, "most": 8, "d": 1, "row_kind": "+I"}]
    assert [row["row_kind"] for row in tested.step(rows(("-D", 1, 5)), late)] == ["-D"], "as Flink says"
    assert tested.step(rows(("+I", 1, 2)), late)[0] == {
        "g": 1,
        "n": 1,
        "s": 2,
        "most": 2,
        "d": 1,
        "row_kind": "+I",
    }


def test_a_group_of_nulls_is_counted_down_to_nothing() -> None:
    tested = aggregate()
    tested.step(rows(("+I", 1, None), ("+I", 1, None)), 1)
    [_, row] = tested.step(rows(("-D", 1, 5)), 2)
    assert row == {"g": 1, "n": 1, "s": None, "most": None, "d": 0, "row_kind": "+U"}


def test_a_group_that_was_touched_gives_equal_rows_so_that_later_operators_keep_it() -> None:
    tested = aggregate()
    tested.step(rows(("+I", 1, 5)), 1)
    out = tested.step(rows(("-U", 1, 5), ("+U", 1, 5)), TTL)
    assert [row["row_kind"] for row in out] == ["-U", "+U"]
    assert [row["row_kind"] for row in tested.step(rows(("+I", 1, 5)), 2 * TTL - 1)] == ["-U", "+U"]


def test_a_row_of_a_top_that_is_not_known_goes_without_a_trace() -> None:
    tested = top()
    tested.step(rows(("+I", 1, 5)), 1)
    assert tested.step(rows(("-D", 1, 6), ("+I", 1, 4)), 2) == rows_of_top(("+I", 1, 4))
    assert tested.step(rows(("-D", 1, 5)), 2 + TTL) == []
    assert tested.step(rows(("+I", 1, 3)), 2 + TTL) == rows_of_top(("+I", 1, 3))


def rows_of_top(*given: tuple[str, int, int]) -> list[Row]:
    return [{"g": g, "x": x, "row_kind": kind} for kind, g, x in given]


def test_an_equal_row_may_be_emitted_again() -> None:
    columns = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("at", pa.int64())])

    def kinds(*, emit_equal: bool) -> list[str]:
        tested = Running(Normalize(columns, ("k",), ("at",), emit_equal=emit_equal), columns)
        tested.step([{"k": 1, "x": 5, "at": 1}])
        out = tested.step([{"k": 1, "x": 5, "at": 2}, {"k": 1, "x": 6, "at": 3}])
        as_changelog([{"k": 1, "x": 5, "at": 1, "row_kind": "+I"}, *out])
        return [row["row_kind"] for row in out]

    assert kinds(emit_equal=False) == ["-U", "+U"]
    assert kinds(emit_equal=True) == ["-U", "+U", "-U", "+U"]
