"""Keys of type FLOAT and DOUBLE: -0.0 is 0.0, and every NaN is the same key, as in Spark."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.collapse import NetChange
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import Join
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.temporal_join import TemporalJoin
from penstock.changelog.operators.top_n import TopN
from penstock.state.columns import hash_columns
from tests.examples import examples
from tests.unit.changelog.histories import changelog, in_batches
from tests.unit.changelog.running import Row, Running

NAN, OTHER_NAN = float("nan"), struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
SAME: dict[int | None, list[float | None]] = {
    0: [0.0, -0.0],
    1: [NAN, OTHER_NAN, -NAN],
    2: [float("inf")],
    3: [1.5],
    None: [None],
}
"""The values of a key that are equal, by a number that stands for them."""
TIME = pa.timestamp("us")

Make = Callable[[random.Random], Row]
Case = tuple[list[tuple[str, Any]], Callable[[pa.Schema], Operator], Make]


def key(chance: random.Random) -> int | None:
    return chance.choice(list(SAME))


def two_columns(chance: random.Random) -> Row:
    return {"k": key(chance), "v": chance.randint(0, 3)}


def side(chance: random.Random) -> Row:
    k, number = key(chance), chance.randint(0, 1)
    mine = (
        {"#left k": k, "#left a": "a"} if number == 0 else {"#right k": k, "#right b": chance.randint(0, 1)}
    )
    return {
        "#side": number,
        "#key 0": k,
        **dict.fromkeys(("#left k", "#left a", "#right k", "#right b")),
        **mine,
    }


def timed(chance: random.Random) -> Row:
    k, number, at = key(chance), chance.randint(0, 1), chance.randrange(10**12)
    mine = {"#left k": k, "#left at": at} if number == 0 else {"#right rate": at, "#right since": at}
    names = ("#left k", "#left at", "#right rate", "#right since", "#clock")
    return {"#side": number, "#key 0": k, **dict.fromkeys(names), **mine}


TWO = [("k", None), ("v", pa.int64())]
SIDES = [
    ("#side", pa.int8()),
    ("#key 0", None),
    ("#left k", None),
    ("#left a", pa.string()),
    ("#right k", None),
    ("#right b", pa.int64()),
]
TIMED = [
    ("#side", pa.int8()),
    ("#key 0", None),
    ("#left k", None),
    ("#left at", TIME),
    ("#right rate", pa.int64()),
    ("#right since", TIME),
    ("#clock", pa.int64()),
]
JOINED = (("k", ("#left k", "#right k")), ("a", ("#left a",)), ("b", ("#right b",)))
PRICED = (("k", ("#left k",)), ("at", ("#left at",)), ("rate", ("#right rate",)))
CALLS = tuple(parse_calls({"n": "count(*)", "most": "max(v)", "total": "sum(v)"}))
CASES: dict[str, Case] = {
    "aggregate": (TWO, lambda columns: Aggregate(columns, ("k",), CALLS), two_columns),
    "collapsed": (TWO, lambda columns: NetChange(Aggregate(columns, ("k",), CALLS), ("k",)), two_columns),
    "top_n": (TWO, lambda columns: TopN(columns, ("k",), (("v", True),), 2), two_columns),
    "join": (SIDES, lambda columns: Join(columns, "full", JOINED), side),
    "semi": (SIDES, lambda columns: Join(columns, "semi", JOINED[:2]), side),
}
INSERTED: dict[str, Case] = {
    "normalize": ([*TWO, ("at", pa.int64())], lambda each: Normalize(each, ("k",), ("at",)), two_columns),
    "deduplicate": ([*TWO, ("at", pa.int64())], lambda each: Deduplicate(each, ("k",), ("at",)), two_columns),
    "temporal_join": (
        TIMED,
        lambda each: TemporalJoin(each, ("#left at", "#right since"), PRICED, "left", 0, is_bounded=True),
        timed,
    ),
}


def schema_of(columns: list[tuple[str, Any]], kind: pa.DataType) -> pa.Schema:
    return pa.schema([(name, kind if found is None else found) for name, found in columns])


def canonical(row: Row) -> str:
    """Return a row of the output with a number for its key."""
    numbers = {str(each): number for number, values in SAME.items() for each in values}
    return str({name: numbers[str(value)] if name == "k" else value for name, value in row.items()})


def spelled(chance: random.Random, row: Row, keys: set[str]) -> Row:
    """Return a row with any of the equal values for each key."""
    return {name: chance.choice(SAME[value]) if name in keys else value for name, value in row.items()}


def check(case: Case, kind: pa.DataType, batches: list[list[Row]], chance: random.Random) -> None:
    columns, operator_of, _ = case
    keys = {name for name, found in columns if found is None}
    plain, tested = (
        Running(operator_of(schema), schema.append(pa.field("row_kind", pa.string())))
        for schema in (schema_of(columns, pa.int64()), schema_of(columns, kind))
    )
    for batch in batches:
        expected = Counter(map(str, plain.step(batch)))
        out = tested.step([spelled(chance, row, keys) for row in batch])
        assert Counter(canonical(row) for row in out) == expected


@pytest.mark.parametrize("name", [*CASES, *INSERTED])
@settings(max_examples=examples(12))
@given(
    seed=st.integers(0, 10_000), length=st.integers(1, 30), kind=st.sampled_from([pa.float32(), pa.float64()])
)
def test_equal_keys_are_one_key(name: str, seed: int, length: int, kind: pa.DataType) -> None:
    chance = random.Random(seed)
    if name in CASES:
        case = CASES[name]
        rows = changelog(chance, length, case[2])
    else:
        case = INSERTED[name]
        rows = [{**case[2](chance), "row_kind": "+I"} for _ in range(length)]
        rows = [{**row, "at": at} if "at" in dict(case[0]) else row for at, row in enumerate(rows)]
    check(case, kind, in_batches(chance, rows, 1 if name == "temporal_join" else 4), chance)


def test_null_is_not_a_nan() -> None:
    hashes = hash_columns(pa.table({"k": pa.array([None, NAN, OTHER_NAN, 0.0, -0.0])}), ["k"])
    assert len({*hashes.high.tolist()}) == 3
