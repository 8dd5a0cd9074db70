"""Arrow arrays in memory of exactly their size.

Arrow rounds each buffer up to 64 bytes, so a sanitizer does not see a read behind an array's end. Runs in
the processes that fuzz. Invariant: a buffer is a block of malloc without a byte more than Arrow's format
asks for.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

_C = ctypes.CDLL(None)
_C.malloc.restype = ctypes.c_void_p
_C.malloc.argtypes = [ctypes.c_size_t]
_C.free.argtypes = [ctypes.c_void_p]


class _Block:
    def __init__(self, content: bytes) -> None:
        self.address = _C.malloc(len(content))
        if not self.address:
            raise MemoryError
        ctypes.memmove(self.address, content, len(content))

    def __del__(self) -> None:
        _C.free(self.address)


def exact_buffer(content: bytes) -> pa.Buffer:
    """Return the bytes in a block of their own."""
    block = _Block(content)
    return pa.foreign_buffer(block.address, len(content), base=block)


def exact_values(values: Sequence[bytes | None]) -> pa.Array:
    """Return a binary array. Its first value is in the buffers, and left out by the array's offset."""
    given = [b"before", *values]
    ends, end = [0], 0
    for one in given:
        end += len(one or b"")
        ends.append(end)
    bits = sum(1 << at for at, one in enumerate(given) if one is not None)
    buffers = [
        exact_buffer(bits.to_bytes((len(given) + 7) // 8, "little")),
        exact_buffer(struct.pack(f"={len(ends)}i", *ends)),
        exact_buffer(b"".join(one or b"" for one in given)),
    ]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers, offset=1)


def exact_batch(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy of rows whose arrays have no offset."""
    return pa.RecordBatch.from_arrays([exact_array(one) for one in rows.columns], schema=rows.schema)


def exact_array(array: pa.Array) -> pa.Array:
    """Return a copy of an array without an offset."""
    kind, length = array.type, len(array)
    if pa.types.is_null(kind):
        return array
    sizes, children = [(length + 7) // 8], []
    buffers = array.buffers()
    if pa.types.is_struct(kind):
        children = [array.field(i) for i in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        entries = [exact_array(array.keys), exact_array(array.items)]
        fields = pa.struct([kind.key_field, kind.item_field])
        children = [pa.Array.from_buffers(fields, len(entries[0]), [None], 0, children=entries)]
        sizes.append(4 * (length + 1))
    elif pa.types.is_list(kind):
        children = [array.values]
        sizes.append(4 * (length + 1))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        last = struct.unpack_from("=i", buffers[1], 4 * length)[0] if length else 0
        sizes += [4 * (length + 1), last]
    else:
        sizes.append((length * kind.bit_width + 7) // 8)
    copied = [
        None if buffer is None else exact_buffer(buffer.to_pybytes()[:size])
        for buffer, size in zip(buffers, sizes, strict=False)
    ]
    if not pa.types.is_map(kind):
        children = [exact_array(one) for one in children]
    return pa.Array.from_buffers(kind, length, copied, children=children or None)


def plain(array: pa.Array) -> list[object]:
    """Return an array's values, with times as numbers, because Python's end with the year 9999."""
    kind = array.type
    if pa.types.is_temporal(kind):
        numbers: list[object] = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return numbers
    if pa.types.is_struct(kind):
        made: list[object] = [list(one) for one in zip(*map(plain, array.flatten()), strict=True)]
        made = made or [[] for _ in range(len(array))]
    elif pa.types.is_map(kind):
        entries = list(zip(plain(array.keys), plain(array.items), strict=True))
        made = _divided(entries, array.offsets.to_pylist())
    elif pa.types.is_list(kind):
        made = _divided(plain(array.values), array.offsets.to_pylist())
    else:
        values: list[object] = array.to_pylist()
        return values
    valid = array.is_valid().to_pylist()
    return [one if is_there else None for one, is_there in zip(made, valid, strict=True)]


def _divided(values: Sequence[object], offsets: list[int]) -> list[object]:
    return [values[start:end] for start, end in pairwise(offsets)]
