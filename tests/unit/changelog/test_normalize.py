"""`normalize` against a reference in plain Python."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.operators.normalize import Normalize
from penstock.errors import RowError
from penstock.state.snapshot import Lifetime
from tests.unit.changelog.reference import Reference
from tests.unit.changelog.running import Row, Running

COLUMNS = pa.schema(
    [
        ("k", pa.string()),
        ("j", pa.int32()),
        ("v", pa.float64()),
        ("s", pa.list_(pa.int64())),
        ("at", pa.int64()),
    ]
)
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))


def operator(**arguments: Any) -> Normalize:
    return Normalize(COLUMNS, ("k", "j"), ("at",), **arguments)


def running(**arguments: Any) -> Running:
    return Running(operator(**arguments), WITH_KIND)


def row(k: str | None, at: int, v: float | None = 1.0, kind: str = "+U", j: int = 0, s: Any = None) -> Row:
    return {"k": k, "j": j, "v": v, "s": s, "at": at, "row_kind": kind}


CHANGES = st.tuples(
    st.sampled_from(["a", "b", "", None]),
    st.integers(0, 1),
    st.sampled_from([None, 1.0, 2.0, float("nan")]),
    st.sampled_from([None, [], [1], [None]]),
    st.sampled_from(["+I", "+U", "-D", None, "a", "b"]),
)
"""The last one is the kind; else the old key of an update, which is often another one."""
HISTORIES = st.lists(CHANGES, max_size=40)


def records_of(at: int, k: str | None, j: int, v: float | None, s: Any, kind: str | None) -> list[Row]:
    """The rows of one record. A delete holds the key only, as a tombstone."""
    if kind == "-D":
        return [row(k, at, None, kind, j)]
    if kind in ("+I", "+U"):
        return [row(k, at, v, kind, j, s)]
    return [row(kind, at, 7.0, "-U", j), row(k, at, v, "+U", j, s)]


def by_key(rows: list[Row]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in rows:
        found.setdefault(str((each["k"], each["j"])), []).append(str(each))
    return found


@pytest.mark.parametrize("collapse", [False, True])
@given(history=HISTORIES, seed=st.integers(0, 1000), batch_count=st.integers(1, 6))
def test_it_is_the_reference(collapse: bool, history: list[Any], seed: int, batch_count: int) -> None:
    """Rows are late, doubled and shuffled. Each batch gives the reference's rows, each key in order."""
    chance = random.Random(seed)
    records = [records_of(at, *change) for at, change in enumerate(history)]
    records += chance.sample(records, len(records) // 3)
    batches: list[list[Row]] = [[] for _ in range(batch_count)]
    for index, each in enumerate(records):
        late = (
            chance.randint(0, batch_count - 1)
            if chance.random() < 0.2
            else index * batch_count // len(records)
        )
        batches[late] += each
    reference, tested = Reference(), running(collapse=collapse)
    for batch in batches:
        chance.shuffle(batch)
        expected = reference.step(batch, collapse=collapse)
        assert by_key(tested.step(batch)) == by_key(expected)


def kinds(rows: list[Row]) -> list[tuple[str, int]]:
    return [(each["row_kind"], each["at"]) for each in rows]


def test_what_vanishes() -> None:
    tested = running()
    assert kinds(tested.step([row("a", 5)])) == [("+I", 5)]
    assert tested.step([row("a", 6)]) == [], "an equal row"
    assert tested.step([row("a", 6)]) == [], "a replay"
    assert tested.step([row("a", 4, 2.0)]) == [], "back in time"
    assert tested.step([row("b", 1, kind="-D")]) == [], "a delete of an unknown key"
    assert tested.step([row("b", 0)]) == [], "a row from before the delete"
    both = [row("a", 7, 9.0, kind="-U"), row("a", 7)]
    assert tested.step(both) == [], "the old row of an update to an equal row"


def test_an_update_that_changes_the_key_deletes_the_old_key() -> None:
    """Maxwell, Canal and GoldenGate send -U with the old key and +U with the new one."""
    tested = running()
    tested.step([row("a", 1)])
    out = tested.step([row("a", 2, kind="-U"), row("b", 2), row("a", 2, kind="-U"), row("b", 2)])
    assert sorted((each["row_kind"], each["k"]) for each in out) == [("+I", "b"), ("-D", "a")]
    assert tested.step([row("a", 2, kind="-U"), row("b", 2), row("a", 1)]) == [], "a replay"


def test_the_old_row_of_an_operator_before_has_the_sort_key_of_the_row_that_was_kept() -> None:
    tested = running()
    tested.step([row("a", 1)])
    out = tested.step([row("a", 1, kind="-U"), row("a", 5, 2.0)])
    assert kinds(out) == [("-U", 1), ("+U", 5)]


def test_nan_is_a_sort_key_like_others() -> None:
    nan = float("nan")
    columns = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.float64())])
    tested = Running(Normalize(columns, ("k",), ("at",)), columns)
    assert len(tested.step([{"k": "a", "v": 1, "at": nan}, {"k": "a", "v": 1, "at": -nan}])) == 1
    with pytest.raises(RowError, match="Two different rows of a key have the same sort key"):
        tested.step([{"k": "a", "v": 2, "at": nan}])
    assert tested.step([{"k": "a", "v": 3, "at": float("inf")}]) == [], "NaN comes last"


def test_an_old_row_is_the_row_that_was_emitted_and_not_an_equal_one_after_it() -> None:
    tested = running()
    tested.step([row("a", 1), row("a", 2)])
    tested.step([row("a", 3)])
    assert kinds(tested.step([row("a", 4, 2.0)])) == [("-U", 1), ("+U", 4)]
    assert kinds(tested.step([row("a", 5, 2.0), row("a", 6, kind="-D")])) == [("-D", 4)]


def test_without_row_kinds_every_row_is_an_upsert() -> None:
    tested = Running(operator(), COLUMNS)
    rows = [{name: value for name, value in row("a", at).items() if name != "row_kind"} for at in (1, 1)]
    assert kinds(tested.step(rows)) == [("+I", 1)]


@given(
    sort_keys=st.sets(st.tuples(st.sampled_from(["bin.9", "bin.10"]), st.integers(8, 11), st.integers(0, 2))),
    seed=st.integers(0, 1000),
)
def test_the_first_column_that_differs_says_which_row_is_newer(
    sort_keys: set[tuple[str, int, int]], seed: int
) -> None:
    """As in the log of MySQL: file, position, row. Texts are compared as texts."""
    columns = pa.schema(
        [
            ("k", pa.int64()),
            ("file", pa.string()),
            ("pos", pa.int64()),
            ("row", pa.int64()),
            ("v", pa.int64()),
        ]
    )
    target = Running(
        Normalize(columns, ("k",), ("file", "pos", "row")), columns.append(pa.field("row_kind", pa.string()))
    )
    chance = random.Random(seed)
    rows = [
        {"k": chance.randint(0, 2), "file": file, "pos": pos, "row": line, "v": v, "row_kind": "+U"}
        for v, (file, pos, line) in enumerate(sorted(sort_keys))
    ]
    sent = chance.sample(rows, len(rows))
    cut = chance.randint(0, len(sent))
    out = target.step(sent[:cut]) + target.step(sent[cut // 2 :])
    newest = {each["k"]: each["v"] for each in rows}
    assert {each["k"]: each["v"] for each in out} == newest


@pytest.mark.parametrize("other", [row("a", 1, 2.0), row("a", 1, kind="-D")])
def test_two_different_rows_with_one_sort_key_are_an_error(other: Row) -> None:
    with pytest.raises(RowError, match=r"same sort key \(order_by\): {'at': 1}"):
        running().step([row("a", 1), other])
    tested = running()
    tested.step([row("a", 1)])
    with pytest.raises(RowError, match=r"same sort key \(order_by\)"):
        tested.step([other])


def test_a_sort_key_that_is_null_is_an_error() -> None:
    with pytest.raises(RowError, match=r"'at'.* is null in 1 rows"):
        running().step([{**row("a", 1), "at": None}])


def test_a_kind_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(RowError, match="got 'U'"):
        running().step([row("a", 1, kind="U")])


def test_deleted_keys_are_forgotten_after_their_time() -> None:
    tested = Running(operator(), WITH_KIND, Lifetime(deleted_ttl_ms=100))
    tested.step([row("a", 5), row("a", 6, kind="-D"), row("b", 5)], now_ms=1000)
    assert tested.step([row("a", 1)], now_ms=1099) == []
    assert kinds(tested.step([row("a", 1), row("b", 1)], now_ms=1100)) == [("+I", 1)]


def test_keys_are_forgotten_after_their_time_unless_a_row_comes() -> None:
    tested = Running(operator(), WITH_KIND, Lifetime(ttl_ms=100))
    tested.step([row("a", 1), row("b", 1)], now_ms=1000)
    assert tested.step([row("a", 2)], now_ms=1099) == []
    assert kinds(tested.step([row("a", 3, 2.0), row("b", 3, 2.0)], now_ms=1100)) in (
        [("-U", 1), ("+U", 3), ("+I", 3)],
        [("+I", 3), ("-U", 1), ("+U", 3)],
    )


def test_an_update_that_changes_the_key_with_the_sort_key_of_its_old_row_is_an_error() -> None:
    """An operator before gives such rows. The old key would stay, because its -U says nothing."""
    away = [row("a", 1, kind="-U"), row("b", 2)]
    tested = running()
    tested.step([row("a", 1, kind="+I")])
    with pytest.raises(RowError, match=r"no \+U of its key came with it: {'k': 'a', 'j': 0}"):
        tested.step(away)
    with pytest.raises(RowError, match="no \\+U of its key came"):
        running().step([row("a", 1, kind="+I"), *away])
    with pytest.raises(RowError, match="no \\+U of its key came"):
        running().step([row("a", 0, kind="+I"), row("a", 0, kind="-U"), row("a", 1, 2.0), *away])


def test_updates_of_an_operator_before_and_their_replays_are_no_error() -> None:
    one = [row("a", 1, kind="+I"), row("a", 1, kind="-U"), row("a", 2, 2.0)]
    two = [row("a", 2, 2.0, kind="-U"), row("a", 3, 3.0)]
    tested = running()
    assert kinds(tested.step([*one, *two]))[-1] == ("+U", 3)
    assert tested.step([*one, *two]) == []
    tested.step([*two, row("a", 3, 3.0, kind="-U"), row("a", 4, 4.0)])
    assert tested.step([row("a", 9, kind="-D"), row("a", 9, kind="-U")])[0]["row_kind"] == "-D"
    assert tested.step([row("a", 9, kind="-U")]) == [], "the row that was kept is deleted"


def test_rows_of_a_key_come_from_one_source() -> None:
    """Offsets of two topic partitions cannot be compared, so a newer row might vanish."""
    columns = pa.schema([("k", pa.string()), ("p", pa.int32()), ("v", pa.int64()), ("at", pa.int64())])
    tested = Running(
        Normalize(columns, ("k",), ("at",), source="p"), columns.append(WITH_KIND.field("row_kind"))
    )

    def rows(*given: tuple[str, int, int, int, str]) -> list[Row]:
        return [dict(zip(("k", "p", "v", "at", "row_kind"), each, strict=True)) for each in given]

    tested.step(rows(("a", 0, 1, 7, "+U"), ("b", 1, 1, 3, "+U"), ("b", 1, 0, 4, "-D")))
    assert tested.step(rows(("a", 0, 1, 8, "+U"))) == []
    for moved in (("a", 1, 2, 2, "+U"), ("b", 0, 2, 9, "+U"), ("a", 1, 0, 2, "-D")):
        with pytest.raises(RowError, match="Rows of one key have 0 and 1 in the column p"):
            tested.step(rows(moved))
    with pytest.raises(RowError, match="Rows of one key have 0 and 1 in the column p"):
        tested.step(rows(("c", 0, 1, 1, "+U"), ("c", 1, 1, 2, "+U")))
