"""Random rows for the contract suite of the formats: any schema that a format can hold, and rows of it."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Draw = Callable[..., Any]

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8
) | st.sampled_from(["id", 'quo"te', "back\\slash", "sp ace", "émoji😀"])
IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,7}", fullmatch=True)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)

DAYS_MAX = 2_900_000
"""Dates of about 8,000 years on either side of 1970."""

INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

decimals = st.tuples(st.integers(1, 38), st.integers(0, 38)).map(
    lambda pair: pa.decimal128(max(pair), min(pair))
)
NUMBER_TYPES = st.sampled_from([*INTEGERS, pa.float32(), pa.float64(), pa.bool_()])
TIME_TYPES = st.sampled_from(
    [pa.date32(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    + [pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC")]
)
TEXT_TYPES = st.sampled_from([pa.string(), pa.binary()])
SCALAR_TYPES = NUMBER_TYPES | TEXT_TYPES | TIME_TYPES | decimals


def nested_types(scalars: Any, names: Any, *, has_maps: bool = True) -> Any:
    """Types that nest lists, structs and maps over `scalars`."""

    def wider(inner: Any) -> Any:
        fields = st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda f: f[0])
        found = inner.map(pa.list_) | fields.map(pa.struct)
        return found | inner.map(lambda kind: pa.map_(pa.string(), kind)) if has_maps else found

    return st.recursive(scalars, wider, max_leaves=4)


def values_of(kind: pa.DataType) -> Any:
    """Values of a type, or None."""
    return st.none() | _values(kind)


def _values(kind: pa.DataType) -> Any:
    if pa.types.is_nested(kind):
        return _nested(kind)
    if pa.types.is_temporal(kind):
        return _times(kind)
    if pa.types.is_decimal(kind):
        return _decimals(kind)
    return _plain(kind)


def _plain(kind: pa.DataType) -> Any:
    if kind in INTEGERS:
        bits = INTEGERS[kind]
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=32 if kind == pa.float32() else 64, allow_nan=False)
    if pa.types.is_boolean(kind):
        return st.booleans()
    return TEXTS if pa.types.is_string(kind) else st.binary(max_size=20)


def _decimals(kind: pa.DataType) -> Any:
    limit = 10**kind.precision - 1
    context = decimal.Context(prec=76)
    return st.integers(-limit, limit).map(lambda n: decimal.Decimal(n).scaleb(-kind.scale, context))


def _times(kind: pa.DataType) -> Any:
    """Times as the integers that Arrow stores; see `column`."""
    if kind == pa.date32():
        return st.integers(-DAYS_MAX, DAYS_MAX)
    per_second = UNITS[kind.unit]
    if pa.types.is_time(kind):
        return st.integers(0, 86_400 * per_second - 1)
    limit = min(DAYS_MAX * 86_400 * per_second, 2**63 - 1)
    return st.integers(-limit, limit)


def _nested(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return st.lists(values_of(kind.value_type), max_size=3)
    if pa.types.is_map(kind):
        return st.dictionaries(TEXTS, values_of(kind.item_type), max_size=3).map(lambda d: list(d.items()))
    fields = [kind.field(i) for i in range(kind.num_fields)]
    return st.fixed_dictionaries({field.name: values_of(field.type) for field in fields})


def present_values_of(kind: pa.DataType) -> Any:
    """Make values that Protobuf can distinguish: arrays and maps are not empty and hold no nulls. Or None."""
    return st.none() | _present(kind)


YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799


def _present(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return st.lists(_present(kind.value_type), min_size=1, max_size=3)
    if pa.types.is_map(kind):
        found = st.dictionaries(TEXTS, _present(kind.item_type), min_size=1, max_size=3)
        return found.map(lambda d: sorted(d.items()))
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return st.fixed_dictionaries({field.name: present_values_of(field.type) for field in fields})
    if pa.types.is_timestamp(kind):
        per_second = UNITS[kind.unit]
        least, most = max(YEAR_1 * per_second, -(2**63)), min(YEAR_9999 * per_second, 2**63 - 1)
        return st.integers(least, most)
    return _values(kind)


def stored(kind: pa.DataType) -> pa.DataType:
    """The same type with times as the integers that Arrow stores."""
    if pa.types.is_list(kind):
        return pa.list_(stored(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), stored(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(i).name, stored(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an array. Times come as integers, because Python's own types have a smaller range."""
    return _retyped(pa.array(values, stored(kind)), kind)


def _retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    buffers = array.buffers()
    if pa.types.is_list(kind):
        children = [_retyped(array.values, kind.value_type)]
    elif pa.types.is_map(kind):
        items = _retyped(array.items, kind.item_type)
        entries = pa.struct([kind.key_field, kind.item_field])
        children = [pa.Array.from_buffers(entries, len(items), [None], children=[array.keys, items])]
    elif pa.types.is_struct(kind):
        children = [_retyped(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
    else:
        return array.view(kind)
    count = 1 if pa.types.is_struct(kind) else 2
    return pa.Array.from_buffers(kind, len(array), buffers[:count], children=children)


@st.composite
def batches(
    draw: Draw, types: Any, names: Any = NAMES, row_count_max: int = 5, values: Any = values_of
) -> pa.RecordBatch:
    """Rows of a random schema."""
    fields = draw(st.lists(st.tuples(names, types), min_size=1, max_size=5, unique_by=lambda f: f[0]))
    row_count = draw(st.integers(0, row_count_max))
    arrays = [
        column(draw(st.lists(values(kind), min_size=row_count, max_size=row_count)), kind)
        for _, kind in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
