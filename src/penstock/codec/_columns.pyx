"""Growing Arrow columns that records are decoded into.

Runs on executors. Invariant: memory (of _memory.pyx) is handed over to Arrow, not copied, when a RecordBatch is
made; the inline appenders (in _columns.pxd) need no GIL and write only into room that `reserve` made. Validity bits
are preset to 1, so that only nulls cost anything.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

import pyarrow as pa

cdef extern from "wire.h":
    bint is_utf8(const uint8_t* data, int64_t size) noexcept nogil

cdef int64_t MIN_CAPACITY = 1024


cdef class GrowingBuffer:
    """Memory of an Arrow buffer that can grow; new bytes are preset to `fill` unless that is negative."""

    def __cinit__(self, int fill=-1):
        self.block = None
        self.data = NULL
        self.capacity = 0
        self.fill = fill

    cdef int reserve(self, int64_t capacity) except -1:
        if capacity <= self.capacity and self.block is not None:
            return 0
        cdef int64_t filled = self.capacity
        self._move(filled, max(capacity, 2 * filled, MIN_CAPACITY))
        if self.fill >= 0:
            memset(self.data + filled, self.fill, self.capacity - filled)
        return 0

    cdef int _move(self, int64_t size, int64_t capacity) except -1:
        """Move the first `size` bytes into memory of `capacity` bytes."""
        cdef Block block = Block(capacity)
        if size > 0:
            memcpy(block.data, self.data, size)
        self.block = block
        self.data = block.data
        self.capacity = capacity
        return 0

    cdef object take(self, int64_t size):
        """Hand the first `size` bytes over and start empty. Gives memory back if much of it is unused."""
        self.reserve(size)
        if self.capacity > 2 * size:
            self._move(size, size)
        buffer = pa.foreign_buffer(<size_t>self.data, size, self.block)
        self.block = None
        self.data = NULL
        self.capacity = 0
        return buffer


cdef class FixedColumn:
    def __cinit__(self, int64_t width):
        self.values = GrowingBuffer()
        self.validity = GrowingBuffer(0xFF)
        self.width = width
        self.null_count = 0

    cdef int reserve(self, int64_t rows) except -1:
        self.values.reserve(rows * self.width)
        self.validity.reserve((rows + 7) >> 3)
        return 0

    cdef object take(self, object arrow_type, int64_t rows):
        validity = self.validity.take((rows + 7) >> 3)
        values = self.values.take(rows * self.width)
        buffers = [validity if self.null_count else None, values]
        array = pa.Array.from_buffers(arrow_type, rows, buffers, self.null_count)
        self.null_count = 0
        return array


cdef class BinaryColumn:
    def __cinit__(self):
        self.offsets = GrowingBuffer()
        self.bytes = GrowingBuffer()
        self.validity = GrowingBuffer(0xFF)
        self.byte_count = 0
        self.null_count = 0
        self.usual_bytes = -1  # bytes of a row in the last RecordBatch, rounded up; -1: there was none

    cdef int reserve(self, int64_t rows, int64_t byte_count) except -1:
        self.offsets.reserve((rows + 1) * 4)
        (<int32_t*>self.offsets.data)[0] = 0
        self.validity.reserve((rows + 7) >> 3)
        self.bytes.reserve(byte_count)
        return 0

    cdef int64_t likely_bytes(self, int64_t rows, int64_t byte_count) noexcept:
        """Return the bytes to reserve for rows of `byte_count` bytes in all columns; less if earlier rows took less."""
        if self.usual_bytes < 0:
            return byte_count
        cdef int64_t usual = rows * (self.usual_bytes + self.usual_bytes // 8 + 1)
        return usual if 2 * usual < byte_count else byte_count

    cdef list take_buffers(self, int64_t rows):
        if self.offsets.block is None:
            self.reserve(0, 0)
        validity = self.validity.take((rows + 7) >> 3)
        offsets = self.offsets.take((rows + 1) * 4)
        values = self.bytes.take(self.byte_count)
        if rows > 0:
            self.usual_bytes = (self.byte_count + rows - 1) // rows
        self.byte_count = 0
        return [validity if self.null_count else None, offsets, values]

    cdef object take(self, object arrow_type, int64_t rows):
        array = pa.Array.from_buffers(arrow_type, rows, self.take_buffers(rows), self.null_count)
        self.null_count = 0
        return array


cdef class HeadersColumn:
    def __cinit__(self):
        self.offsets = GrowingBuffer()
        self.validity = GrowingBuffer(0xFF)
        self.keys = BinaryColumn()
        self.values = BinaryColumn()
        self.element_count = 0
        self.null_count = 0

    cdef int reserve(self, int64_t rows, int64_t elements, int64_t byte_count) except -1:
        self.offsets.reserve((rows + 1) * 4)
        (<int32_t*>self.offsets.data)[0] = 0
        self.validity.reserve((rows + 7) >> 3)
        self.keys.reserve(self.element_count + elements, self.keys.byte_count + byte_count)
        self.values.reserve(self.element_count + elements, self.values.byte_count + byte_count)
        return 0

    cdef object take(self, object arrow_type, int64_t rows):
        cdef int64_t elements = self.element_count
        struct_type = arrow_type.value_type
        key_type = struct_type.field(0).type
        are_keys_fit = key_type == pa.binary() or self._are_keys_utf8()
        keys = self.keys.take(key_type if are_keys_fit else pa.binary(), elements)
        if not are_keys_fit:
            # Java's client decodes them in the same way.
            keys = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], key_type)
        values = self.values.take(struct_type.field(1).type, elements)
        structs = pa.Array.from_buffers(struct_type, elements, [None], 0, 0, [keys, values])
        validity = self.validity.take((rows + 7) >> 3)
        offsets = self.offsets.take((rows + 1) * 4)
        buffers = [validity if self.null_count else None, offsets]
        array = pa.Array.from_buffers(arrow_type, rows, buffers, self.null_count, 0, [structs])
        self.element_count = 0
        self.null_count = 0
        return array

    cdef bint _are_keys_utf8(self):
        cdef int64_t i
        cdef int32_t* offsets = <int32_t*>self.keys.offsets.data
        with nogil:
            for i in range(self.element_count):
                if not is_utf8(self.keys.bytes.data + offsets[i], offsets[i + 1] - offsets[i]):
                    return False
        return True
