"""The sketch of the keys that each task has written."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import RowError
from penstock.spark._key_sketch import KeySketch, check_disjoint
from tests.examples import examples


def sketch(keys: Iterable[int], keys_max: int = 1_000, topic: str | None = None) -> KeySketch:
    made = KeySketch(keys_max)
    column = pa.array([str(key).encode() for key in keys], pa.binary())
    columns = {"key": column, "value": column}
    if topic is not None:
        columns["topic"] = pa.array([topic] * len(column), pa.string())
    whole = pa.RecordBatch.from_pydict(columns)
    batches = [whole.slice(start, 3) for start in range(0, max(1, whole.num_rows), 3)]
    assert list(made.over(batches)) == batches
    found: KeySketch = pickle.loads(pickle.dumps(made))  # noqa: S301 - ours
    return found


def test_a_key_of_two_tasks_is_an_error() -> None:
    check_disjoint([sketch([1, 1, 2]), sketch([3, 4, 3]), sketch([])], is_written=True)
    with pytest.raises(
        RowError, match=r"Rows of 2 keys .*in the topic.*penstock\.changelog\.in_order"
    ) as found:
        check_disjoint([sketch([1, 2, 5]), sketch([3, 4]), sketch([5, 1, 5]), sketch([5])], is_written=True)
    assert found.value.facts["key_count"] == 2
    with pytest.raises(RowError, match="Nothing was written"):
        check_disjoint([sketch([1]), sketch([1])], is_written=False)


def test_the_same_key_in_two_topics_is_not_the_same_row() -> None:
    check_disjoint([sketch([1], topic="a"), sketch([1], topic="b")], is_written=True)


@settings(max_examples=examples(50))
@given(st.lists(st.integers(0, 60), min_size=12, max_size=80), st.integers(1, 9))
def test_large_tasks_compare_the_same_keys(keys: list[int], keys_max: int) -> None:
    """Two tasks with the same keys are always found, also if each keeps only a few of them."""
    one, two = sketch(keys, keys_max), sketch(reversed(keys), keys_max)
    assert len(one.hashes) <= keys_max
    with pytest.raises(RowError):
        check_disjoint([one, two], is_written=True)
    check_disjoint([one, sketch([key + 100 for key in keys], keys_max)], is_written=True)
