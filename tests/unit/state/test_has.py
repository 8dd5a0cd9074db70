"""`Snapshot.has` says which keys have rows, without a look at the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state import merge, run
from penstock.state.columns import Hashes, state_rows, state_schema
from penstock.state.merge import run_in_memory
from penstock.state.snapshot import Lifetime, Snapshot
from tests.examples import examples

COLUMNS = pa.schema([("x", pa.int64())])
HASHES = st.tuples(st.integers(0, 5), st.integers(0, 5))


def hashes_of(pairs: list[tuple[int, int]]) -> Hashes:
    high, low = (np.array([pair[half] for pair in pairs], np.uint64) for half in (0, 1))
    return Hashes(high, low)


@settings(max_examples=examples(100))
@given(
    st.lists(st.lists(HASHES, max_size=40), max_size=4),
    st.lists(HASHES, unique=True, max_size=20).map(sorted),
)
def test_keys_that_share_half_of_their_hash_are_told_apart(
    runs: list[list[tuple[int, int]]], asked: list[tuple[int, int]]
) -> None:
    schema = state_schema(COLUMNS)
    with pytest.MonkeyPatch.context() as patch:
        for module in (run, merge):
            patch.setattr(module, "ROWS_PER_PIECE", 4)
        made = []
        for pairs in filter(len, runs):
            rows = pa.table({"x": pa.array(range(len(pairs)), pa.int64())})
            parts = Hashes(np.arange(len(pairs), dtype=np.uint64), np.zeros(len(pairs), np.uint64))
            kept = state_rows(rows, hashes_of(pairs), np.zeros(len(pairs), bool), 0, parts)
            made.append(run_in_memory(schema, kept))
        snapshot = Snapshot(schema, made, Lifetime(), has_parts=True)
        there = {pair for pairs in runs for pair in pairs}
        assert snapshot.has(hashes_of(asked)).tolist() == [pair in there for pair in asked]
