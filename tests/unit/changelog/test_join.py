"""`join` against nested loops over the two tables."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.join import HOWS, How, Join
from penstock.errors import RowError
from tests.examples import examples
from tests.unit.changelog.histories import apply, changelog, in_batches
from tests.unit.changelog.running import Row, Running, as_changelog

COLUMNS = pa.schema(
    [
        ("#side", pa.int8()),
        ("#key 0", pa.int64()),
        ("#key 1", pa.string()),
        ("#left k", pa.int64()),
        ("#left a", pa.string()),
        ("#right k", pa.int64()),
        ("#right b", pa.float64()),
    ]
)
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
NAMES = {"k": ("#left k", "#right k"), "a": ("#left a",), "b": ("#right b",)}


def running(how: How) -> Running:
    names = ("k", "a") if how in ("semi", "anti") else tuple(NAMES)
    return Running(Join(COLUMNS, how, tuple((name, NAMES[name]) for name in names)), WITH_KIND)


def make(chance: random.Random) -> Row:
    side, key, text = chance.randint(0, 1), chance.choice([None, 1, 2]), chance.choice(["x", "y"])
    row = {"#side": side, "#key 0": key, "#key 1": text, **dict.fromkeys(COLUMNS.names[3:])}
    if side:
        return {**row, "#right k": key, "#right b": chance.choice([None, 0.5, float("inf")])}
    return {**row, "#left k": key, "#left a": chance.choice(["p", "q"])}


def reference(how: str, table: list[Row]) -> list[Row]:
    def is_pair(one: Row, other: Row) -> bool:
        keys = ("#key 0", "#key 1")
        return all(one[key] is not None and one[key] == other[key] for key in keys)

    left = [row for row in table if row["#side"] == 0]
    right = [row for row in table if row["#side"] == 1]
    rows = [(one, other) for one in left for other in right if is_pair(one, other)]
    alone = [one for one in left if not any(is_pair(one, other) for other in right)]
    if how == "semi":
        return [{"k": one["#left k"], "a": one["#left a"]} for one in left if one not in alone]
    if how == "anti":
        return [{"k": one["#left k"], "a": one["#left a"]} for one in alone]
    nothing = dict.fromkeys(COLUMNS.names)
    if how in ("left", "full"):
        rows += [(one, nothing) for one in alone]
    if how in ("right", "full"):
        others = [other for other in right if not any(is_pair(one, other) for one in left)]
        rows += [(nothing, other) for other in others]
    return [
        {
            "k": other["#right k"] if one is nothing else one["#left k"],
            "a": one["#left a"],
            "b": other["#right b"],
        }
        for one, other in rows
    ]


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=examples(10))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
def test_it_is_the_join_of_the_tables(how: How, seed: int, length: int) -> None:
    chance = random.Random(seed)
    tested = running(how)
    table: list[Row] = []
    result: list[Row] = []
    for batch in in_batches(chance, changelog(chance, length, make), 4):
        apply(table, batch)
        out = tested.step(batch)
        result = as_changelog([*({**row, "row_kind": "+I"} for row in result), *out])["rows"]
        assert Counter(map(str, result)) == Counter(map(str, reference(how, table)))


def left(kind: str, key: int | None, a: str) -> Row:
    row: dict[str, Any] = {"#side": 0, "#key 0": key, "#key 1": "x", "#left k": key, "#left a": a}
    return {**dict.fromkeys(COLUMNS.names), **row, "row_kind": kind}


def test_a_row_that_is_not_there_cannot_go() -> None:
    with pytest.raises(RowError, match="takes away a row that is not there"):
        running("left").step([left("-D", 1, "p")])


def test_rows_with_a_null_key_have_no_partner_and_are_not_kept() -> None:
    tested = running("left")
    assert [row["row_kind"] for row in tested.step([left("+I", None, "p")])] == ["+I"]
    assert sum(run.row_count for run in tested.snapshot.runs) == 0
    assert [row["row_kind"] for row in tested.step([left("-D", None, "p")])] == ["-D"]


def test_other_columns_to_join_on_are_other_arguments() -> None:
    """The state of `on={"a": "x"}` holds other keys than that of `on={"b": "x"}`."""
    arguments = {Join(COLUMNS, "inner", (), ((name, "x"),)).arguments for name in ("a", "b")}
    assert len(arguments) == 2
