"""A merge has the newest row of each key and part, in order, and holds few rows at a time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state import merge, run
from penstock.state.columns import Hashes, state_rows
from penstock.state.run import Run
from penstock.state.snapshot import Lifetime, newest
from tests.examples import examples

_ROWS_PER_PIECE = 8
_Place = tuple[int, int, int, int]


@settings(max_examples=examples(100))
@given(
    seed=st.integers(0, 100_000), run_count=st.integers(1, 4), lows=st.integers(1, 3), has_parts=st.booleans()
)
def test_a_merge_divides_keys_with_many_rows(seed: int, run_count: int, lows: int, has_parts: bool) -> None:
    """Few keys have nearly all rows, and two keys may share a half of their hashes."""
    chance = random.Random(seed)
    expected: dict[_Place, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        for module in (run, merge):
            patch.setattr(module, "ROWS_PER_PIECE", _ROWS_PER_PIECE)
        runs = []
        for number in range(run_count):
            rows = {_place(chance, lows, has_parts): number for _ in range(chance.randint(1, 80))}
            expected |= rows
            runs.append(_run_of(rows))
        sizes = _sizes_of_merges(patch)
        lifetime = Lifetime(remembers_deleted=False)
        found = _merged(runs, lifetime, has_parts)
        assert found == [(*place, expected[place]) for place in sorted(expected)]
        if has_parts:
            assert max(sizes) <= 1.25 * _ROWS_PER_PIECE
            ends_together = Lifetime(ttl_ms=1_000, remembers_deleted=False, of_keys=True)
            assert _merged(runs, ends_together, has_parts) == found


def _place(chance: random.Random, lows: int, has_parts: bool) -> _Place:
    high = chance.choice([5, 5, 5, 2**63, 2**64 - 1, chance.getrandbits(64)])
    parts = (chance.choice([0, 2**40, chance.getrandbits(64)]), chance.randint(0, 9))
    return (high, chance.randint(1, lows), *(parts if has_parts else (0, 0)))


def _run_of(rows: dict[_Place, int]) -> Run:
    places = np.array(sorted(rows), np.uint64).reshape(-1, 4)
    values = pa.table({"value": pa.array([rows[each] for each in sorted(rows)], pa.int64())})
    keys, parts = Hashes(places[:, 0], places[:, 1]), Hashes(places[:, 2], places[:, 3])
    kept = state_rows(values, keys, np.zeros(len(places), bool), 1, parts)
    return merge.run_in_memory(kept.schema, kept)


def _sizes_of_merges(patch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of rows of each table that a merge holds."""
    sizes: list[int] = []

    def counted(rows: pa.Table, *, has_parts: bool) -> pa.Table:
        sizes.append(rows.num_rows)
        return newest(rows, has_parts=has_parts)

    patch.setattr(merge, "newest", counted)
    return sizes


def _merged(runs: list[Run], lifetime: Lifetime, has_parts: bool) -> list[tuple[Any, ...]]:
    schema = runs[0].pieces[0].schema
    pieces = merge.merged(schema, runs, lifetime, has_parts=has_parts, is_oldest_among_them=True, now_ms=1)
    table = pa.Table.from_batches(list(pieces), schema)
    names = ("#key_high", "#key_low", "#part_high", "#part_low", "value")
    return [*zip(*(table.column(name).to_pylist() for name in names), strict=True)]
