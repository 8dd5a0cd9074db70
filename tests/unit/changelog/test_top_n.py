"""`top_n` against a sorted list, and `deduplicate` against min and max."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.top_n import TopN
from penstock.errors import RowError
from tests.examples import examples
from tests.unit.changelog.histories import apply, changelog, in_batches
from tests.unit.changelog.running import Row, Running, as_changelog

COLUMNS = pa.schema([("g", pa.string()), ("v", pa.int64()), ("s", pa.string())])
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
SEEDS = st.integers(0, 10_000)


def make(chance: random.Random) -> Row:
    return {
        "g": chance.choice(["a", "b", None]),
        "v": chance.choice([None, *range(6)]),
        "s": chance.choice("xyz"),
    }


def number(value: int | None) -> int:
    """Return a number for which null is the lowest value."""
    return -1 if value is None else value


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(map(str, rows))


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("rank", [None, "rank"])
@settings(max_examples=examples(15))
@given(seed=SEEDS, count=st.integers(1, 4), skipped=st.integers(0, 2), length=st.integers(1, 60))
def test_the_top_is_that_of_a_sorted_list(
    is_descending: bool, rank: str | None, seed: int, count: int, skipped: int, length: int
) -> None:
    chance, count = random.Random(seed), count + skipped
    order_by = (("v", is_descending), ("s", False))
    tested = Running(TopN(COLUMNS, ("g",), order_by, count, rank, skipped=skipped), WITH_KIND)
    table: list[Row] = []
    top: list[Row] = []
    for batch in in_batches(chance, changelog(chance, length, make), 4):
        apply(table, batch)
        out = tested.step(batch)
        top = as_changelog([*({**row, "row_kind": "+I"} for row in top), *out])["rows"]
        expected: list[Row] = []
        for group in ("a", "b", None):
            rows = [row for row in table if row["g"] == group]
            rows.sort(key=lambda row: (number(row["v"]) * (-1 if is_descending else 1), row["s"]))
            ranks = ({} if rank is None else {rank: position} for position in range(1, count + 1))
            first = [{**row, **ranked} for row, ranked in zip(rows, ranks, strict=False)]
            expected += first[skipped:]
        assert counted(top) == counted(expected)


@pytest.mark.parametrize("rank", [None, "rank"])
@settings(max_examples=examples(15))
@given(seed=SEEDS, count=st.integers(1, 4), skipped=st.integers(0, 2), length=st.integers(1, 60))
def test_of_inserts_only_the_top_is_kept_and_the_changes_are_the_same(
    rank: str | None, seed: int, count: int, skipped: int, length: int
) -> None:
    chance, count = random.Random(seed), count + skipped
    order_by = (("v", True), ("s", False))
    all_rows = Running(TopN(COLUMNS, ("g",), order_by, count, rank, skipped=skipped), WITH_KIND)
    whole_top = Running(TopN(COLUMNS, ("g",), order_by, count, rank), WITH_KIND)
    only_top = Running(
        TopN(COLUMNS, ("g",), order_by, count, rank, only_inserts=True, skipped=skipped), COLUMNS
    )
    top: list[Row] = []
    for batch in in_batches(chance, [make(chance) for _ in range(length)], 5):
        inserts = [{**row, "row_kind": "+I"} for row in batch]
        assert only_top.step(batch) == all_rows.step(inserts)
        out = whole_top.step(inserts)
        top = as_changelog([*({**row, "row_kind": "+I"} for row in top), *out])["rows"]
        kept = [row for row in only_top.kept() for _ in range(row["#count"])]
        assert counted(_own(kept)) == counted(_own(top))


def _own(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in COLUMNS.names} for row in rows]


def test_a_state_of_inserts_does_not_serve_changes() -> None:
    plain, inserts = (
        TopN(COLUMNS, ("g",), (("v", True),), 2, None, only_inserts=each) for each in (False, True)
    )
    assert plain.arguments != inserts.arguments


def test_a_rank_that_another_row_takes_is_an_update() -> None:
    tested = Running(TopN(COLUMNS, ("g",), (("v", True),), 2, "n"), WITH_KIND)
    rows = [{"g": "a", "v": value, "s": "x"} for value in (5, 7, 7)]
    assert [
        (row["row_kind"], row["v"], row["n"]) for row in tested.step([{**rows[0], "row_kind": "+I"}])
    ] == [("+I", 5, 1)]
    out = tested.step([{**row, "row_kind": "+I"} for row in rows[1:]])
    assert [(row["row_kind"], row["v"], row["n"]) for row in out] == [
        ("-U", 5, 1),
        ("+U", 7, 1),
        ("+I", 7, 2),
    ]
    assert tested.step([{**rows[0], "row_kind": "+I"}]) == []
    out = tested.step([{**row, "row_kind": "-D"} for row in (rows[0], rows[0], rows[1])])
    assert [(row["row_kind"], row["v"], row["n"]) for row in out] == [("-D", 7, 2)]
    operators = [TopN(COLUMNS, ("g",), (("v", True),), 2, rank) for rank in (None, "n")]
    assert operators[0].arguments != operators[1].arguments


def test_a_row_that_moves_within_the_ranks_that_are_not_skipped_changes_only_its_rank() -> None:
    found = {}
    for rank in (None, "n"):
        tested = Running(TopN(COLUMNS, ("g",), (("v", True),), 3, rank, skipped=1), WITH_KIND)
        tested.step([{"g": "a", "v": value, "s": "x", "row_kind": "+I"} for value in (9, 8, 7, 6)])
        out = tested.step([{"g": "a", "v": 9, "s": "x", "row_kind": "-D"}])
        found[rank] = [(row["row_kind"], row["v"], row.get("n")) for row in out]
    assert found == {
        None: [("-D", 8, None), ("+I", 6, None)],
        "n": [("-U", 8, 2), ("+U", 7, 2), ("-U", 7, 3), ("+U", 6, 3)],
    }


def test_a_state_serves_the_ranks_that_it_was_made_for() -> None:
    second, first = (TopN(COLUMNS, ("g",), (("v", True),), 2, skipped=skipped) for skipped in (1, 0))
    assert second.arguments != first.arguments


def test_nothing_comes_out_below_the_top() -> None:
    tested = Running(TopN(COLUMNS, ("g",), (("v", True),), 1), WITH_KIND)
    assert len(tested.step([{"g": "a", "v": 9, "s": "x", "row_kind": "+I"}])) == 1
    assert tested.step([{"g": "a", "v": 8, "s": "x", "row_kind": "+I"}]) == []
    out = tested.step([{"g": "a", "v": 9, "s": "x", "row_kind": "-D"}])
    assert [(row["row_kind"], row["v"]) for row in out] == [("-D", 9), ("+I", 8)]


def test_a_row_that_is_not_there_cannot_go() -> None:
    tested = Running(TopN(COLUMNS, ("g",), (("v", True),), 1), WITH_KIND)
    with pytest.raises(
        RowError, match=r"takes away a row that is not there: 1 rows, in a group with {'g': 'a'}"
    ):
        tested.step([{"g": "a", "v": 9, "s": "x", "row_kind": "-D"}])


@pytest.mark.parametrize("keep", ["first", "last"])
@given(seed=SEEDS, length=st.integers(1, 40))
def test_one_row_of_each_key_stays(keep: Any, seed: int, length: int) -> None:
    chance = random.Random(seed)
    rows = [make(chance) for _ in range(length)]
    tested = Running(Deduplicate(COLUMNS, ("g",), ("v", "s"), keep), COLUMNS)
    out: list[Row] = []
    for batch in in_batches(chance, rows, 3):
        out += tested.step(batch)
    best = min if keep == "first" else max
    expected = [
        best((row for row in rows if row["g"] == group), key=lambda row: (number(row["v"]), row["s"]))
        for group in {row["g"] for row in rows}
    ]
    assert counted(as_changelog(out)["rows"]) == counted(expected)


def test_the_row_of_an_earlier_batch_stays() -> None:
    for keep in ("first", "last"):
        tested = Running(Deduplicate(COLUMNS, ("g",), ("v",), keep), COLUMNS)
        assert [row["s"] for row in tested.step([{"g": "a", "v": 1, "s": "x"}])] == ["x"]
        assert tested.step([{"g": "a", "v": 1, "s": "y"}]) == []


def test_the_order_within_a_batch_does_not_count() -> None:
    rows = [{"g": "a", "v": 1, "s": text} for text in "xyz"]
    found = {
        Running(Deduplicate(COLUMNS, ("g",), ("v",)), COLUMNS).step(order)[0]["s"]
        for order in (rows, rows[::-1])
    }
    assert len(found) == 1


def test_deduplicate_takes_inserts_only() -> None:
    tested = Running(Deduplicate(COLUMNS, ("g",), ("v",)), WITH_KIND)
    assert len(tested.step([{"g": "a", "v": 9, "s": "x", "row_kind": "+I"}])) == 1
    with pytest.raises(RowError, match="takes append-only rows"):
        tested.step([{"g": "a", "v": 9, "s": "x", "row_kind": "+U"}])
