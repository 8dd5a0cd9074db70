"""The state of operators in which rows wait: a copy with other partitions goes on as the state would.

Each operator runs in several partitions with its state in files, as tasks do, and is copied in the middle.
The same operator over all rows in one partition says what each batch must give.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.base import Operator
from penstock.errors import StateError
from penstock.state import store, tools
from penstock.state.columns import Integers, hash_columns
from penstock.state.identity import Identity
from penstock.state.repartition import repartition
from penstock.state.snapshot import Lifetime, SnapshotReader
from penstock.state.store import StateStore
from tests.examples import examples
from tests.unit.changelog import test_over, test_sessions, test_temporal_join
from tests.unit.changelog.running import Row, Running
from tests.unit.state.memory_files import MemoryFiles
from tests.unit.state.rows import QUERY, digest_of, task_of

KEYS = "abcdefgh"


def partition_of(keys: pa.Table, count: int) -> Integers:
    numbers: Integers = (hash_columns(keys, keys.column_names).low % count).astype("int64")
    return numbers


class Tasks:
    """An operator whose state is in files, in several partitions."""

    def __init__(self, operator: Operator, columns: pa.Schema, partition_count: int) -> None:
        self.operator, self.columns, self.partition_count = operator, columns, partition_count
        self.files = MemoryFiles()
        self.batch_id = 0

    def step(self, rows: list[Row], clocks: list[Row], run_id: str) -> list[Row]:
        operator, out = self.operator, []
        identity = Identity(
            QUERY, operator.name, 1, operator.arguments, self.partition_count, operator.kept_columns
        )
        mine = StateStore(self.files, identity, Lifetime(remembers_deleted=False), has_parts=True)
        batch = pa.Table.from_pylist(rows, self.columns)
        numbers = partition_of(batch.select(list(operator.keys)), self.partition_count)
        for partition in range(self.partition_count):
            begun = mine.begin(task_of(run_id, self.batch_id, partition))
            part = [row for row, number in zip(rows, numbers, strict=True) if number == partition] + clocks
            if part:
                loaded = mine.load(begun, partition)
                reading = SnapshotReader(loaded.snapshot, 0)
                step = operator.step(pa.Table.from_pylist(part, self.columns), reading.find, 0)
                mine.save(begun, loaded, reading.to_keep(step.kept), digest_of({len(part): None}), 0)
                out += step.out.to_pylist()
            mine.finish(begun, [partition] if part else [])
        self.batch_id += 1
        return out

    def copy(self, partition_count: int) -> None:
        target = MemoryFiles()
        repartition(self.files, target, self.batch_id - 1, partition_count, partition_of)
        assert list(tools.verify(target)) == []
        self.files, self.partition_count = target, partition_count
        store._OPEN.clear()


def order_or_version(chance: random.Random, k: str, at: int, number: int) -> Row:
    if chance.random() < 0.5:
        return test_temporal_join.order(k, at)
    return test_temporal_join.version(k, at, number)


ENDS = {"temporal join": [test_temporal_join.order("a", 1_000), test_temporal_join.version("a", 1_001, 0)]}
Make = Callable[[random.Random, str, int, int], Row]
OPERATORS: dict[str, tuple[Callable[[], Running], Make, Callable[[list[Row]], list[Row]]]] = {
    "sessions": (
        test_sessions.running,
        lambda _, k, at, number: test_sessions.row(k, at, number),
        test_sessions.clock,
    ),
    "over rows": (
        lambda: test_over.running("rows", 2, test_over.CALLS),
        lambda chance, k, at, number: test_over.row(k, at, number, chance),
        test_over.clock,
    ),
    "over all": (
        lambda: test_over.running("range", None, test_over.CALLS),
        lambda chance, k, at, number: test_over.row(k, at, number, chance),
        test_over.clock,
    ),
    "temporal join": (test_temporal_join.running, order_or_version, test_temporal_join.clocks),
}


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=examples(10))
@given(seed=st.integers(0, 10_000), old=st.integers(1, 4), new=st.integers(1, 4), cut=st.integers(1, 4))
def test_a_copy_goes_on_as_the_state_would(name: str, seed: int, old: int, new: int, cut: int) -> None:
    running, make, clocks_of = OPERATORS[name]
    chance, whole = random.Random(seed), running()
    tasks = Tasks(whole.operator, whole.columns, old)
    used: set[tuple[str, str]] = set()
    for batch in range(6):
        if batch == cut:
            tasks.copy(new)
        rows = []
        for number in range(chance.randint(0, 8)):
            row = make(chance, chance.choice(KEYS), max(0, batch * 3 + chance.randint(-5, 5)), number)
            version = (str(row.get("#key 0")), str(row.get("#right since")))
            if row["#side"] == 0 or version not in used:  # two versions at one time are an error
                used.add(version)
                rows.append(row)
        clocks = clocks_of(rows)
        found = tasks.step(rows, clocks, "a" if batch < cut else "run-1")
        expected = whole.step([*rows, *clocks])
        assert Counter(map(str, found)) == Counter(map(str, expected))
    # A later time lets all rows out that still wait.
    last = ENDS.get(name) or [make(chance, "a", 1_000, 0)]
    found = tasks.step(last, clocks_of(last), "run-1")
    assert Counter(map(str, found)) == Counter(map(str, whole.step([*last, *clocks_of(last)])))


def test_clocks_that_differ_are_refused() -> None:
    running, make, clocks_of = OPERATORS["sessions"]
    tasks = Tasks(running().operator, running().columns, 2)
    rows = [make(random.Random(1), key, 5, 0) for key in KEYS]
    tasks.step(rows, clocks_of(rows), "a")
    other = Tasks(running().operator, running().columns, 2)
    later = [make(random.Random(1), key, 9, 0) for key in KEYS]
    other.step(later, clocks_of(later), "a")
    for path in [path for path in tasks.files.contents if path.startswith("1/")]:
        del tasks.files.contents[path]
    tasks.files.contents |= {k: v for k, v in other.files.contents.items() if k.startswith("1/")}
    with pytest.raises(StateError, match=r"Partitions 0 and 1 .* have seen different times"):
        tasks.copy(3)
