"""Two keys with one hash are an error in every operator: no row of one key is taken for a row of the other.

No keys are known that have the same 128 bits of MurmurHash3, so the tests give all keys one hash.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.changelog import operators
from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import Join
from penstock.changelog.operators.join_with_ttl import JoinWithTtl
from penstock.changelog.operators.keep_values import KeepValues
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.top_n import TopN
from penstock.errors import StateError
from penstock.state import columns as state_columns
from penstock.state.columns import Hashes
from tests.unit.changelog import test_join, test_over, test_sessions, test_temporal_join
from tests.unit.changelog.running import Row, Running

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))


@pytest.fixture(autouse=True)
def one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    real = state_columns.hash_columns

    def same(rows: pa.Table, names: object) -> Hashes:
        found = real(rows, names)  # type: ignore[arg-type]  # as given
        found.high[:], found.low[:] = 7, 9
        return found

    patched = 0
    for one in pkgutil.walk_packages(operators.__path__, operators.__name__ + "."):
        module = importlib.import_module(one.name)
        if getattr(module, "hash_columns", None) is real:
            monkeypatch.setattr(module, "hash_columns", same)
            patched += 1
    assert patched, "the operators hash keys in another way now"


def row(k: str, v: int) -> Row:
    return {"k": k, "v": v, "at": v, "row_kind": "+I"}


def sides() -> tuple[Row, Row]:
    left = {**dict.fromkeys(test_join.COLUMNS.names), "#side": 0, "row_kind": "+I"}
    right = {**left, "#side": 1, "#key 0": 2, "#key 1": "x", "#right k": 2, "#right b": 0.5}
    return left | {"#key 0": 1, "#key 1": "x", "#left k": 1, "#left a": "p"}, right


def joined(kind: type[Join]) -> Running:
    names = tuple(test_join.NAMES.items())
    return Running(kind(test_join.COLUMNS, "inner", names), test_join.WITH_KIND)


def aggregate(**calls: str) -> Running:
    return Running(Aggregate(COLUMNS, ("k",), tuple(parse_calls(calls))), WITH_KIND)


KEYED: dict[str, Callable[[], Running]] = {
    "normalize": lambda: Running(Normalize(COLUMNS, ("k",), ("at",)), WITH_KIND),
    "deduplicate": lambda: Running(Deduplicate(COLUMNS, ("k",), ("at",), "last"), WITH_KIND),
    "top_n": lambda: Running(TopN(COLUMNS, ("k",), (("at", False),), 1), WITH_KIND),
    "top_n of inserts": lambda: Running(
        TopN(COLUMNS, ("k",), (("at", False),), 1, only_inserts=True), COLUMNS
    ),
    "keep_values": lambda: Running(KeepValues(COLUMNS, ("k",), ("at",)), WITH_KIND),
    "sums": lambda: aggregate(n="count(*)", s="sum(v)"),
    "values": lambda: aggregate(least="min(v)", all="listagg(k)"),
}
TWO_ROWS: dict[str, tuple[Callable[[], Running], tuple[Row, Row]]] = {
    **{name: (make, (row("a", 1), row("b", 2))) for name, make in KEYED.items()},
    "join": (lambda: joined(Join), sides()),
    "join with ttl": (lambda: joined(JoinWithTtl), sides()),
    "temporal join": (
        test_temporal_join.running,
        (test_temporal_join.version("a", 1, 5), test_temporal_join.order("b", 3)),
    ),
    "sessions": (test_sessions.running, (test_sessions.row("a", 1), test_sessions.row("b", 2))),
    "over": (
        lambda: test_over.running("rows", None, {"n": "count(*)"}),
        (test_over.row("a", 1, 1, random.Random(1)), test_over.row("b", 2, 2, random.Random(2))),
    ),
}
CLOCKS = {
    "temporal join": (test_temporal_join.clocks, [test_temporal_join.order("c", 30)]),
    "sessions": (test_sessions.clock, [test_sessions.row("c", 30)]),
    "over": (test_over.clock, [test_over.row("c", 30, 3, random.Random(3))]),
}
"""What makes the operators that wait for a clock give their rows: a later row."""


@pytest.mark.parametrize("is_one_batch", [True, False])
@pytest.mark.parametrize("name", TWO_ROWS)
def test_two_keys_with_one_hash_are_an_error(name: str, is_one_batch: bool) -> None:
    make, (one, other) = TWO_ROWS[name]
    clock_of, later = CLOCKS.get(name, (lambda rows: [], []))
    batches = [[one, other, *later]] if is_one_batch else [[one], [other, *later]]
    running = make()

    def run() -> None:
        for batch in [*batches, later]:
            running.step([*batch, *clock_of(batch)])

    with pytest.raises(StateError, match="the same hash of 128 bits"):
        run()
