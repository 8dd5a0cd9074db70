"""The columns that the state adds to the rows it keeps, and the 128-bit hashes of keys.

Runs on executors; the driver uses `check_columns`. Invariant: rows of a run are sorted by key, then part;
equal keys have equal hashes, and `equal_columns` tells different keys with equal hashes apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.errors import SchemaError
from penstock.state._hash import hash_rows
from penstock.state._order import order_into

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEY_HIGH, KEY_LOW = "#key_high", "#key_low"
PART_HIGH, PART_LOW = "#part_high", "#part_low"
DELETED = "#deleted"
TOUCHED_MS = "#touched_ms"
ADDED = pa.schema(
    [
        pa.field(KEY_HIGH, pa.uint64(), nullable=False),
        pa.field(KEY_LOW, pa.uint64(), nullable=False),
        pa.field(PART_HIGH, pa.uint64(), nullable=False),
        pa.field(PART_LOW, pa.uint64(), nullable=False),
        pa.field(DELETED, pa.bool_(), nullable=False),
        pa.field(TOUCHED_MS, pa.int64(), nullable=False),
    ]
)
"""The columns before those of the operator. A part tells several rows of one key apart; else it is 0.

`#touched_ms` is the time of the batch that wrote the row, for the time to live; 0 if unknown."""

FIXED_BYTES = 16
"""What a value takes at most whose type says how long it is. A text or bytes take their length beside it."""


@dataclass(frozen=True)
class Hashes:
    """The hashes of some rows, as two halves of 64 bits."""

    high: Words
    low: Words

    def __len__(self) -> int:
        return len(self.high)

    def take(self, indices: Integers | Mask) -> Hashes:
        return Hashes(self.high[indices], self.low[indices])

    @staticmethod
    def joined(*parts: Hashes) -> Hashes:
        """Return the hashes of all parts, one part after the other."""
        return Hashes(
            np.concatenate([part.high for part in parts]), np.concatenate([part.low for part in parts])
        )

    def order(self) -> Integers:
        """Return the indices of the hashes in ascending order. Equal hashes stay in their order."""
        order = order_of(self.high)
        high, low = self.high[order], self.low[order]
        if np.any((high[1:] == high[:-1]) & (low[1:] < low[:-1])):  # rare: two keys share a half
            return np.lexsort((self.low, self.high))
        return order

    def ascends(self) -> bool:
        """Return whether the hashes ascend, each once."""
        higher = self.high[1:] > self.high[:-1]
        return bool(np.all(higher | ((self.high[1:] == self.high[:-1]) & (self.low[1:] > self.low[:-1]))))

    def starts(self) -> Mask:
        """Return for each hash whether it differs from the one before it."""
        new = np.ones(len(self), bool)
        new[1:] = (self.high[1:] != self.high[:-1]) | (self.low[1:] != self.low[:-1])
        return new

    def among(self, known: Hashes) -> Mask:
        """Return for each hash whether it is one of `known`."""
        if not len(self):
            return np.zeros(0, bool)
        both = Hashes.joined(known, self)
        order = both.order()
        starts = both.take(order).starts()
        of_hash = np.maximum.reduceat(order < len(known), np.flatnonzero(starts))
        found = np.empty(len(order), bool)
        found[order] = of_hash[np.cumsum(starts) - 1]
        return found[len(known) :]


def order_with_parts(keys: Hashes, parts: Hashes) -> Integers:
    """Return the indices of rows in the order of key and part. Equal ones stay in their order."""
    by_part = parts.order()
    return by_part[keys.take(by_part).order()]


def order_of(numbers: Words) -> Integers:
    """Return the indices of the numbers in ascending order. Equal numbers stay in their order."""
    indices = np.empty(len(numbers), np.int64)
    order_into(np.ascontiguousarray(numbers), indices)
    return indices


def state_schema(columns: pa.Schema) -> pa.Schema:
    """Return the schema of a run whose operator keeps `columns`."""
    return pa.schema([*ADDED, *columns])


def state_rows(
    columns: pa.Table, keys: Hashes, deleted: Mask, now_ms: int, parts: Hashes | None = None
) -> pa.Table:
    """Return rows in the schema of the state, sorted."""
    is_sorted = keys.ascends() if parts is None else _ascend(keys, parts)
    parts = no_parts(len(keys)) if parts is None else parts
    added = {
        KEY_HIGH: keys.high,
        KEY_LOW: keys.low,
        PART_HIGH: parts.high,
        PART_LOW: parts.low,
        DELETED: deleted,
        TOUCHED_MS: np.full(len(keys), now_ms, np.int64),
    }
    schema = state_schema(columns.schema)
    table = pa.Table.from_arrays([*map(pa.array, added.values()), *columns.columns], schema=schema)
    if is_sorted:
        return table
    return table.take(pa.array(order_with_parts(keys, parts)))


def _ascend(keys: Hashes, parts: Hashes) -> bool:
    """Return whether rows are in the order of key and part."""
    ascends = np.ones(max(len(keys) - 1, 0), bool)
    for each in (parts.low, parts.high, keys.low, keys.high):
        ascends = (each[1:] > each[:-1]) | ((each[1:] == each[:-1]) & ascends)
    return bool(ascends.all())


def check_columns(columns: pa.Schema, keys: Sequence[str]) -> None:
    """Raise SchemaError if these columns cannot be kept, or cannot be found by `keys`."""
    names = columns.names
    for name in sorted(set(names)):
        if names.count(name) > 1:
            raise SchemaError(f"The column {name!r} stands twice. Rename one of them.", column=name)
        if name.startswith("#"):
            raise SchemaError(
                f"The column {name!r} begins with '#', as columns of the state do. Rename it.", column=name
            )
    for name in keys:
        if name not in names:
            raise SchemaError(
                f"There is no column {name!r}. The columns are {', '.join(names)}.", column=name
            )
        if not is_hashable(columns.field(name).type):
            raise SchemaError(
                f"The column {name!r} of type {columns.field(name).type} cannot be a key: a key is a number, "
                "a text, bytes, a boolean, a date or a time. Use its fields as keys.",
                column=name,
            )


def is_hashable(kind: pa.DataType) -> bool:
    """Return whether a column of this type can be a key."""
    if kinds.is_dictionary(kind):
        return is_hashable(kind.value_type)
    return not (kinds.is_nested(kind) or kinds.is_null(kind) or kinds.is_union(kind))


def hash_columns(table: pa.Table, names: Sequence[str]) -> Hashes:
    """Return the hashes of the rows of `table`, of these columns in this order."""
    high, low = np.empty(table.num_rows, np.uint64), np.empty(table.num_rows, np.uint64)
    hash_rows([_plain(one_array(table.column(name))) for name in names], high, low)
    return Hashes(high, low)


def hash_values(table: pa.Table, *, maps_have_order: bool = True) -> Hashes:
    """Return the hashes of whole rows, also of their nested values. Equal rows have equal hashes.

    Args:
        table: the rows.
        maps_have_order: maps with equal entries in another order are not equal. A state may hold such hashes.
    """
    columns = (one_array(table.column(name)) for name in table.column_names)
    found = [each for column in columns for each in _flat(column, maps_have_order)]
    flat = pa.Table.from_arrays(found, names=[str(number) for number in range(len(found))])
    return hash_columns(flat, flat.column_names)


def _flat(array: pa.Array, maps_have_order: bool) -> Iterator[pa.Array]:
    """Yield columns that a hash can read and that differ if the values of a nested column differ."""
    kind = array.type
    if is_hashable(kind):
        yield array
        return
    yield array.is_valid()
    if kinds.is_null(kind):
        return
    if kinds.is_struct(kind):
        for each in array.flatten():
            yield from _flat(each, maps_have_order)
        return
    if kinds.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        array = array.cast(pa.list_(pair))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    indices = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    elements = pa.Table.from_arrays([array.flatten(), pa.array(indices)], ["element", "index"])
    if kinds.is_map(kind) and not maps_have_order:
        elements = elements.select(["element"])
    hashes = hash_values(elements, maps_have_order=maps_have_order)
    yield pa.array(lengths)
    for half in (hashes.high, hashes.low):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(half, dtype=np.uint64)])
        yield pa.array((sums[starts + lengths] - sums[starts]).view(np.int64))


def no_parts(count: int) -> Hashes:
    """Return the parts of `count` rows that are the only ones of their keys."""
    zeros = np.zeros(count, np.uint64)
    return Hashes(zeros, zeros)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def words(table: pa.Table, name: str) -> Words:
    values: Words = one_array(table.column(name)).to_numpy(zero_copy_only=False)
    return values


def keys_of(table: pa.Table) -> Hashes:
    """Return the hashes of keys in rows of the state."""
    return Hashes(words(table, KEY_HIGH), words(table, KEY_LOW))


def parts_of(table: pa.Table) -> Hashes:
    """Return the hashes of parts in rows of the state."""
    return Hashes(words(table, PART_HIGH), words(table, PART_LOW))


def sizes_of(rows: pa.RecordBatch) -> Integers:
    """Return about how many bytes each row takes. None of the columns is nested."""
    sizes = np.full(rows.num_rows, FIXED_BYTES * rows.num_columns, np.int64)
    for column in rows.columns:
        if has_lengths(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return sizes


def has_lengths(kind: pa.DataType) -> bool:
    """Return whether values of a type have different lengths: texts and bytes."""
    tests = (kinds.is_string, kinds.is_binary, kinds.is_large_string, kinds.is_large_binary)
    return any(each(kind) for each in tests)


def mask_of(array: pa.Array | pa.ChunkedArray) -> Mask:
    """Return a boolean column as numpy; null is false."""
    values: Mask = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return values


def sorted_rows(rows: pa.Table) -> pa.Table:
    """Return rows of the state in the order of key and part."""
    return rows.take(pa.array(order_with_parts(keys_of(rows), parts_of(rows))))


def equal_columns(left: pa.Table, right: pa.Table, names: Sequence[str]) -> Mask:
    """Return for each row whether these columns are equal. Null equals null, and NaN equals NaN."""
    equal = np.ones(left.num_rows, bool)
    for name in names:
        equal &= _equal(one_array(left.column(name)), one_array(right.column(name)))
    return equal


def equal_to_before(rows: pa.Table, names: Sequence[str]) -> Mask:
    """Return for each row whether these columns equal those of the row before it. The first row is False."""
    equal = np.zeros(rows.num_rows, bool)
    equal[1:] = equal_columns(rows.slice(1), rows.slice(0, max(rows.num_rows - 1, 0)), names)
    return equal


def _equal(left: pa.Array, right: pa.Array) -> Mask:
    if kinds.is_null(left.type):
        return np.ones(len(left), bool)
    if kinds.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter((_same(a, b) for a, b in pairs), bool, len(left))
    equal = mask_of(pc.equal(left, right))
    if left.null_count and right.null_count:
        equal |= mask_of(pc.and_(pc.is_null(left), pc.is_null(right)))
    if kinds.is_floating(left.type):
        equal |= mask_of(pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return equal


def _same(left: object, right: object) -> bool:
    """Compare nested values. NaN equals NaN, as in a column of its own."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right)  # noqa: PLR0124 - only NaN differs from itself
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(value, right[name]) for name, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right


def _plain(array: pa.Array) -> pa.Array:
    """Return the array in a type that the compiled hash reads, with equal bytes for equal values."""
    kind = array.type
    if kinds.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if kinds.is_string(kind):
        return array.cast(pa.binary())
    if kinds.is_large_string(kind) or kinds.is_string_view(kind) or kinds.is_binary_view(kind):
        return array.cast(pa.large_binary())
    if kinds.is_boolean(kind):
        return array.cast(pa.uint8())
    if kinds.is_floating(kind):
        return _plain_floats(array)
    return array


def _plain_floats(array: pa.Array) -> pa.Array:
    """Return the same numbers with one zero and one NaN."""
    numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers, array.type, mask=mask_of(array.is_null()))
