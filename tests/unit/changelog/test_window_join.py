"""Rows of windows that are over are joined without a state, in parts too, as nested loops join them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators import window_join
from penstock.changelog.operators.join import How, Names
from penstock.changelog.operators.window_join import WindowJoin
from penstock.errors import RowError
from tests.examples import examples

COLUMNS = pa.schema(
    [
        ("#side", pa.int8()),
        ("#key 0", pa.string()),
        ("#key 1", pa.int64()),
        ("#left a", pa.string()),
        ("#right b", pa.float64()),
    ]
)
NAMES: Names = (("a", ("#left a",)), ("b", ("#right b",)))
HOWS: tuple[How, ...] = ("inner", "left", "right", "full")
KEYS = (st.sampled_from(["x", "y", None]), st.sampled_from([0, 1, None]))
Row = tuple[Any, Any, Any]


def table(left: list[Row], right: list[Row]) -> pa.Table:
    rows = [
        {"#side": side, "#key 0": one, "#key 1": other, name: value}
        for side, name, rows in ((0, "#left a", left), (1, "#right b", right))
        for one, other, value in rows
    ]
    return pa.Table.from_pylist(rows, COLUMNS)


def wanted(how: How, left: list[Row], right: list[Row]) -> list[tuple[Any, Any]]:
    def fits(one: Row, other: Row) -> bool:
        return None not in one[:2] and one[:2] == other[:2]

    found = [(one[2], other[2]) for one in left for other in right if fits(one, other)]
    if how in ("left", "full"):
        found += [(one[2], None) for one in left if not any(fits(one, other) for other in right)]
    if how in ("right", "full"):
        found += [(None, other[2]) for other in right if not any(fits(one, other) for one in left)]
    return found


def joined(how: How, rows: pa.Table, size: int) -> list[tuple[Any, Any]]:
    found = list(WindowJoin(COLUMNS, how, NAMES).run(rows.to_batches(max_chunksize=size)))
    for each in found:
        each.validate(full=True)
        assert each.num_rows <= window_join._MOST_PAIRS
    return [(row["a"], row["b"]) for each in found for row in each.to_pylist()]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("most_bytes", "most_pairs"), [(1 << 30, 50_000), (100, 2), (300, 1)])
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), size=st.integers(1, 4))
def test_pairs_are_those_of_nested_loops(
    how: How, most_bytes: int, most_pairs: int, data: st.DataObject, size: int
) -> None:
    texts, numbers = st.none() | st.sampled_from(["", "longer"]), st.none() | st.floats()
    left, right = (data.draw(st.lists(st.tuples(*KEYS, values))) for values in (texts, numbers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_join, "_MOST_BYTES", most_bytes)
        patch.setattr(window_join, "_MOST_PAIRS", most_pairs)
        found = joined(how, table(left, right), size)
    assert sorted(map(str, found)) == sorted(map(str, wanted(how, left, right)))


@pytest.mark.parametrize("how", HOWS)
def test_a_task_without_rows_gives_none(how: How) -> None:
    assert list(WindowJoin(COLUMNS, how, NAMES).run([])) == []
    assert joined(how, table([], []), 1) == []


def test_a_join_without_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="has to show a column"):
        WindowJoin(COLUMNS, "inner", ())


def test_a_column_of_one_key_that_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_: object) -> None:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr(WindowJoin, "_joined", overflow)
    with pytest.raises(RowError, match="more than 2 GB in one column"):
        joined("inner", table([("x", 0, "")], []), 1)


def test_another_error_of_arrow_is_not_called_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise pa.ArrowInvalid("another")

    monkeypatch.setattr(WindowJoin, "_joined", wrong)
    with pytest.raises(pa.ArrowInvalid, match="another"):
        joined("inner", table([("x", 0, "")], []), 1)
