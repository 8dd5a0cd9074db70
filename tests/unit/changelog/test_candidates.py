"""The rows of a batch that may be among the first: before them come fewer rows of their key."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given

from penstock.changelog.operators.candidates import candidates

ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["a", "b"]),
        st.none() | st.integers(-2, 2),
        st.none() | st.sampled_from(["x", "y", "z"]),
    ),
    max_size=12,
)
ORDER = st.lists(st.sampled_from(["number", "text"]), max_size=2, unique=True)


def is_before(one: tuple[object, ...], other: tuple[object, ...], order_by: list[tuple[str, bool]]) -> bool:
    """Return whether a row is before another one. Null is the lowest value."""
    for name, down in order_by:
        index = 1 if name == "number" else 2
        first, second = ((each[index] is not None, each[index]) for each in (one, other))
        if first != second:
            is_less = second[0] if first[0] != second[0] else first[1] < second[1]  # type: ignore[operator]
            return bool(is_less) is not down
    return False


@given(ROWS, ORDER, st.lists(st.booleans(), min_size=2, max_size=2), st.integers(1, 3))
def test_a_row_is_left_out_if_enough_rows_of_its_key_are_before_it(
    rows: list[tuple[str | None, int | None, str | None]], names: list[str], downs: list[bool], count: int
) -> None:
    order_by = list(zip(names, downs, strict=False))
    kinds = {"key": pa.string(), "number": pa.int64(), "text": pa.string()}
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds.values(), strict=True)]
    found = candidates(pa.table(arrays, list(kinds)), ["key"], order_by, count)
    expected = [
        index
        for index, row in enumerate(rows)
        if sum(other[0] == row[0] and is_before(other, row, order_by) for other in rows) < count
    ]
    assert found.tolist() == expected
