"""`collapse`: the table is the same at each batch, and nothing comes and goes within a batch."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.collapse import NetChange, net_of_keys, net_of_rows
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import HOWS, Join
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.top_n import TopN
from penstock.changelog.row_kinds import ROW_KIND
from penstock.state.columns import hash_values
from tests.examples import examples
from tests.unit.changelog.histories import changelog, in_batches
from tests.unit.changelog.running import Row, Running
from tests.unit.changelog.test_join import COLUMNS as SIDES
from tests.unit.changelog.test_join import NAMES as SIDE_NAMES
from tests.unit.changelog.test_join import left
from tests.unit.changelog.test_join import make as make_side

NAN = float("nan")
COLUMNS = pa.schema(
    [("k", pa.float64()), ("v", pa.string()), ("s", pa.list_(pa.int64())), (ROW_KIND, pa.string())]
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from([0.0, -0.0, NAN, 1.0, None]),
        st.sampled_from(["a", "b", None, "gone"]),
        st.sampled_from([None, [], [1]]),
    ),
    max_size=12,
)
BATCHES = st.lists(CHANGES, min_size=1, max_size=4)

Hash = tuple[int, int]
Table = Counter[Hash]


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, COLUMNS)


def hashes(rows: pa.Table) -> list[Hash]:
    """Return what tells rows apart: -0.0 equals 0.0, and NaN equals NaN."""
    found = hash_values(rows.drop_columns([ROW_KIND]))
    return list(zip(found.high.tolist(), found.low.tolist(), strict=True))


def applied(table: Table, rows: pa.Table) -> Table:
    """Apply a changelog in its order: a row that goes must be there."""
    found = Counter(table)
    for key, kind in zip(hashes(rows), rows.column(ROW_KIND).to_pylist(), strict=True):
        found[key] += 1 if kind in ("+I", "+U") else -1
        assert found[key] >= 0, "a row goes that is not there"
    return +found


def key_of(k: float | None) -> str:
    return "none" if k is None else "nan" if math.isnan(k) else str(k + 0.0)


def upserts(table: dict[str, Row], changes: list[Any]) -> list[Row]:
    """Return a correct changelog, row after row, of changes of keys."""
    out: list[Row] = []
    for k, v, s in changes:
        old = table.pop(key_of(k), None)
        if v != "gone":
            table[key_of(k)] = {"k": k, "v": v, "s": s}
        new = table.get(key_of(k))
        kinds = ("-U", "+U") if old and new else ("-D", "+I")
        out += [{**row, ROW_KIND: kind} for row, kind in zip((old, new), kinds, strict=True) if row]
    return out


@settings(max_examples=examples(60))
@given(BATCHES)
def test_the_table_is_the_same_at_each_batch(batches: list[list[Any]]) -> None:
    state: dict[str, Row] = {}
    whole, by_key, by_row = Counter[Hash](), Counter[Hash](), Counter[Hash]()
    for changes in batches:
        before = {key: hashes(table_of([{**row, ROW_KIND: "+I"}]))[0] for key, row in state.items()}
        rows = table_of(upserts(state, changes))
        after = {key: hashes(table_of([{**row, ROW_KIND: "+I"}]))[0] for key, row in state.items()}
        of_keys, of_rows = net_of_keys(rows, ["k"]), net_of_rows(rows)
        whole, by_key, by_row = applied(whole, rows), applied(by_key, of_keys), applied(by_row, of_rows)
        assert whole == by_key == by_row
        assert of_keys.schema == of_rows.schema == rows.schema
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        kinds = Counter(of_keys.column(ROW_KIND).to_pylist())
        assert kinds["-U"] == kinds["+U"] == len(changed & before.keys() & after.keys())
        assert (kinds["-D"], kinds["+I"]) == (len(changed - after.keys()), len(changed - before.keys()))
        net = Counter(after.values())
        net.subtract(before.values())
        assert of_rows.num_rows == sum(map(abs, net.values())), "no more than the difference"


def test_the_kinds_are_those_of_the_difference() -> None:
    def row(k: float, v: str, kind: str) -> Row:
        return {"k": k, "v": v, "s": None, ROW_KIND: kind}

    rows = table_of(
        [
            *(row(1.0, "a", "+I"), row(1.0, "a", "-D")),
            *(row(2.0, "a", "-U"), row(2.0, "b", "+U"), row(2.0, "b", "-U"), row(2.0, "a", "+U")),
            *(row(3.0, "a", "+I"), row(3.0, "a", "-U"), row(3.0, "b", "+U")),
            *(row(4.0, "a", "-D"), row(4.0, "b", "+I"), row(4.0, "b", "-U"), row(4.0, "c", "+U")),
            *(row(0.0, "a", "-U"), row(-0.0, "b", "+U"), row(-0.0, "b", "-D")),
        ]
    )
    found = [(each["k"], each["v"], each[ROW_KIND]) for each in net_of_keys(rows, ["k"]).to_pylist()]
    assert found == [(0.0, "a", "-D"), (4.0, "a", "-U"), (4.0, "c", "+U"), (3.0, "b", "+I")]


GROUPS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])
CALLS = tuple(parse_calls({"n": "count(*)", "total": "sum(v)", "most": "max(v)"}))


def make(chance: random.Random) -> Row:
    return {"k": chance.choice(["a", "b", None]), "v": chance.randint(0, 2), "at": chance.randint(0, 9)}


OPERATORS: list[tuple[pa.Schema, Operator, Any, tuple[str, ...] | None]] = [
    (GROUPS, Aggregate(GROUPS, ("k",), CALLS), make, ("k",)),
    (GROUPS, TopN(GROUPS, ("k",), (("v", True),), 2), make, None),
    *(
        (SIDES, Join(SIDES, how, tuple((each, SIDE_NAMES[each]) for each in out)), make_side, None)  # type: ignore[arg-type]
        for how in HOWS
        for out in [("k", "a") if how in ("semi", "anti") else ("k",)]
    ),
]


@pytest.mark.parametrize("number", range(len(OPERATORS)))
@settings(max_examples=examples(6))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
def test_each_operator_gives_the_same_table(number: int, seed: int, length: int) -> None:
    columns, operator, make_row, unique = OPERATORS[number]
    with_kind = columns.append(pa.field(ROW_KIND, pa.string()))
    both = [Running(each, with_kind) for each in (operator, NetChange(operator, unique))]
    tables = [Counter[Hash](), Counter[Hash]()]
    chance = random.Random(seed)
    for batch in in_batches(chance, changelog(chance, length, make_row), 4):
        outs = [pa.Table.from_pylist(each.step(batch), operator.out_columns) for each in both]
        tables = [applied(table, out) for table, out in zip(tables, outs, strict=True)]
        assert tables[0] == tables[1]
        assert outs[1].num_rows <= outs[0].num_rows
        if unique is None:
            kinds_of_row: dict[Hash, set[str]] = {}
            for key, kind in zip(hashes(outs[1]), outs[1].column(ROW_KIND).to_pylist(), strict=True):
                kinds_of_row.setdefault(key, set()).add(kind)
            assert all(len(kinds) == 1 for kinds in kinds_of_row.values()), "a row comes and goes"


def test_a_row_that_finds_a_partner_without_columns_of_it_does_not_change() -> None:
    join = Join(SIDES, "full", (("k", ("#left k", "#right k")),))
    with_kind = SIDES.append(pa.field(ROW_KIND, pa.string()))
    partner = {**dict.fromkeys(SIDES.names), "#side": 1, "#key 0": 1, "#key 1": "x", "#right k": 1}
    for operator, kinds in ((join, ["-D", "+I"]), (NetChange(join), [])):
        tested = Running(operator, with_kind)
        tested.step([left("+I", 1, "p")])
        assert [row[ROW_KIND] for row in tested.step([{**partner, ROW_KIND: "+I"}])] == kinds


def test_nothing_else_of_an_operator_changes() -> None:
    operator = Deduplicate(GROUPS, ("k",), ("at",))
    tested = NetChange(operator, ("k",))
    for one in (operator, Normalize(GROUPS, ("k",), ("at",)), TopN(GROUPS, ("k",), (("v", True),), 2)):
        for name in ("name", "version", "keys", "arguments", "has_parts", "remembers_deleted"):
            assert getattr(NetChange(one), name) == getattr(one, name)
        assert NetChange(one).kept_columns.equals(one.kept_columns)
    out = Running(tested, GROUPS).step([{"k": "a", "v": 1, "at": 2}, {"k": "a", "v": 2, "at": 1}])
    assert [(row["v"], row[ROW_KIND]) for row in out] == [(2, "+I")]
