"""The order of the rows that `join` and `top_n` keep: by key, then by side, then by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.operators.counted import _order
from penstock.state.columns import Hashes

WORD = st.one_of(st.integers(0, 2), st.integers(2**63 - 1, 2**63 + 1), st.just(2**64 - 1))
ROWS = st.lists(st.tuples(WORD, WORD, st.integers(0, 1), WORD, WORD), max_size=40)


@given(ROWS)
def test_rows_are_in_the_order_of_key_then_side_then_row(rows: list[tuple[int, int, int, int, int]]) -> None:
    """Few different words, so that rows have equal halves, and equal rows stay in their order."""
    columns = np.array(rows, np.uint64).reshape(-1, 5).T
    keys, parts = Hashes(columns[0], columns[1]), Hashes(columns[3], columns[4])
    found = _order(keys, parts, [columns[2].astype(np.int8)])
    assert found.tolist() == sorted(range(len(rows)), key=lambda index: rows[index])
