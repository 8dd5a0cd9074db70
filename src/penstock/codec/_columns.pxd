# Growing Arrow columns: what _decode.pyx writes records into. See _columns.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from penstock.codec._memory cimport Block


cdef class GrowingBuffer:
    cdef Block block
    cdef uint8_t* data
    cdef int64_t capacity
    cdef int fill

    cdef int reserve(self, int64_t capacity) except -1
    cdef int _move(self, int64_t size, int64_t capacity) except -1
    cdef object take(self, int64_t size)


cdef class FixedColumn:
    """int32 or int64 values; nulls by `clear_bit`."""

    cdef GrowingBuffer values
    cdef GrowingBuffer validity
    cdef int64_t width
    cdef int64_t null_count

    cdef int reserve(self, int64_t rows) except -1
    cdef object take(self, object arrow_type, int64_t rows)


cdef class BinaryColumn:
    """int32 offsets, bytes, validity."""

    cdef GrowingBuffer offsets
    cdef GrowingBuffer bytes
    cdef GrowingBuffer validity
    cdef int64_t byte_count
    cdef int64_t null_count
    cdef int64_t usual_bytes

    cdef int reserve(self, int64_t rows, int64_t byte_count) except -1
    cdef int64_t likely_bytes(self, int64_t rows, int64_t byte_count) noexcept
    cdef list take_buffers(self, int64_t rows)
    cdef object take(self, object arrow_type, int64_t rows)


cdef class HeadersColumn:
    """list<struct<key: string, value: binary>>; a record without headers is a null list."""

    cdef GrowingBuffer offsets
    cdef GrowingBuffer validity
    cdef BinaryColumn keys
    cdef BinaryColumn values
    cdef int64_t element_count
    cdef int64_t null_count

    cdef int reserve(self, int64_t rows, int64_t elements, int64_t byte_count) except -1
    cdef object take(self, object arrow_type, int64_t rows)
    cdef bint _are_keys_utf8(self)


cdef inline void clear_bit(uint8_t* bits, int64_t index) noexcept nogil:
    bits[index >> 3] &= <uint8_t>~(1 << (index & 7))


cdef inline bint has_room(BinaryColumn column, int64_t size) noexcept nogil:
    return size <= column.bytes.capacity - column.byte_count


cdef inline void append_bytes(BinaryColumn column, int64_t row, const uint8_t* data, int32_t size) noexcept nogil:
    """Append a value (null if `size` is -1). Room must have been reserved."""
    if size > 0:
        memcpy(column.bytes.data + column.byte_count, data, size)
        column.byte_count += size
    elif size < 0:
        clear_bit(column.validity.data, row)
        column.null_count += 1
    (<int32_t*>column.offsets.data)[row + 1] = <int32_t>column.byte_count
