"""The hashes of keys: known values, equal for equal keys, different for keys that look alike."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SchemaError
from penstock.state._hash import hash_bytes
from penstock.state.columns import check_columns, equal_columns, hash_columns


@pytest.mark.parametrize(
    ("text", "high", "low"),
    [
        (b"", 0, 0),
        (b"hello", 0xCBD8A7B341BD9B02, 0x5B1E906A48AE1D19),
        (b"The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9, 0x695DA1A38987B6E7),
    ],
)
def test_murmur3_has_its_published_values(text: bytes, high: int, low: int) -> None:
    assert hash_bytes(text) == (high, low)


def hashes(columns: dict[str, pa.Array]) -> list[tuple[int, int]]:
    found = hash_columns(pa.table(columns), list(columns))
    return list(zip(found.high.tolist(), found.low.tolist(), strict=True))


def test_the_bytes_under_the_hash_never_change() -> None:
    """State files hold these hashes (decision 0008)."""
    plain = b"\x01" + (7).to_bytes(8, "little") + b"\x01" + (2).to_bytes(8, "little") + b"ab" + b"\x00"
    columns = {"i": pa.array([7]), "s": pa.array(["ab"]), "n": pa.array([None], pa.date32())}
    assert hashes(columns) == [hash_bytes(plain)]


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text(max_size=40)),
        st.one_of(st.none(), st.binary(max_size=3)),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=20,
)
TYPES = [pa.string(), pa.binary(), pa.int32(), pa.bool_()]


@given(rows=ROWS, start=st.integers(0, 5))
def test_hashes_are_equal_if_and_only_if_the_rows_are(rows: list[Any], start: int) -> None:
    columns = {str(n): pa.array([row[n] for row in rows], kind) for n, kind in enumerate(TYPES)}
    table = pa.table(columns).slice(start)
    found = hash_columns(table, table.column_names)
    pairs = list(zip(found.high.tolist(), found.low.tolist(), strict=True))
    assert len(set(pairs)) == len(set(rows[start:]))
    assert pairs == hashes(columns)[start:]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["a", None]), pa.array(["a", None], pa.large_string())),
        (pa.array(["a", None]), pa.array(["a", None]).dictionary_encode()),
        (pa.array(["a", None]), pa.array(["a", None], pa.string_view())),
        (pa.array([0.0, float("nan")]), pa.array([-0.0, -float("nan")])),
    ],
)
def test_equal_values_of_different_forms_have_equal_hashes(one: pa.Array, other: pa.Array) -> None:
    assert hashes({"a": one}) == hashes({"a": other})


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1.50"),
        datetime(2024, 1, 1, tzinfo=UTC),
        1.5,
        b"\0",
        False,
        date(2024, 1, 1),
    ],
)
def test_every_kind_of_key(value: Any) -> None:
    found = hashes({"a": pa.array([value, None, value])})
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    ("schema", "keys", "message"),
    [
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), ["a"], "stands twice"),
        (pa.schema([("#a", pa.int8())]), ["#a"], "begins with '#'"),
        (pa.schema([("a", pa.int8())]), ["b"], "There is no column 'b'"),
        (pa.schema([("a", pa.list_(pa.int8()))]), ["a"], "cannot be a key"),
    ],
)
def test_columns_that_cannot_be_kept(schema: pa.Schema, keys: list[str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        check_columns(schema, keys)


def test_equality_of_nested_values() -> None:
    nan = float("nan")
    left = pa.table({"a": [{"x": [nan, None]}, {"x": [1.0]}, None, {"x": None}]})
    right = pa.table({"a": [{"x": [nan, None]}, {"x": [2.0]}, None, {"x": []}]})
    assert equal_columns(left, right, ["a"]).tolist() == [True, False, True, False]
