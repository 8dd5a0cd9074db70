"""Hashes of rows: 128 bits of some columns of each row, and the 32 bits of Spark's `hash`.

Runs on executors. Invariant: two rows have the same bytes under the 128 bits if and only if their columns are
equal, because each value carries a mark for null and each text its length; state files hold the hashes, so
neither these bytes nor the hash ever change. The loop holds no GIL and makes no Python object per row.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

import pyarrow as pa

cdef extern from "murmur3.h":
    void murmur3_128(const uint8_t* p, int64_t size, uint64_t* high, uint64_t* low) noexcept nogil

cdef extern from "murmur3_32.h":
    uint32_t murmur3_32_int(uint32_t value, uint32_t seed) noexcept nogil
    uint32_t murmur3_32_long(uint64_t value, uint32_t seed) noexcept nogil
    uint32_t murmur3_32_bytes(const uint8_t* data, int64_t size, uint32_t seed) noexcept nogil

cdef struct Column:
    const uint8_t* validity
    const uint8_t* data
    const int32_t* offsets
    const int64_t* large_offsets
    int64_t offset
    int64_t width


def hash_bytes(bytes data not None):
    """Return the two halves of the hash of `data`."""
    cdef uint64_t high = 0
    cdef uint64_t low = 0
    murmur3_128(<const uint8_t*>data, len(data), &high, &low)
    return high, low


def hash_rows(list arrays not None, uint64_t[::1] high not None, uint64_t[::1] low not None):
    """Hash the rows of `arrays` into `high` and `low`.

    The arrays are binary (either width of offsets), or have a fixed width of whole bytes.
    """
    cdef int64_t row_count = high.shape[0]
    cdef int count = len(arrays)
    cdef Column* columns = NULL
    cdef uint8_t* buffer = NULL
    cdef bint is_out_of_memory = False
    if low.shape[0] != row_count or any(len(array) != row_count for array in arrays):
        raise ValueError("the columns differ in length")
    columns = <Column*>malloc(max(1, count) * sizeof(Column))
    if columns == NULL:
        raise MemoryError
    try:
        for index, array in enumerate(arrays):
            columns[index] = _column(array)
        if row_count:
            with nogil:
                is_out_of_memory = _hash(columns, count, row_count, &high[0], &low[0]) < 0
    finally:
        free(columns)
    if is_out_of_memory:
        raise MemoryError


def mix_as_spark(array not None, uint32_t[::1] hashes not None):
    """Mix a column into the hashes of rows, as Spark's `hash` does with its next argument. Null mixes nothing.

    The array is binary (either width of offsets), or has a fixed width of 1, 2, 4 or 8 bytes. Spark hashes
    the first three as an INT.
    """
    cdef Column column
    cdef int64_t row_count = hashes.shape[0]
    if len(array) != row_count:
        raise ValueError("the column and the hashes differ in length")
    column = _column(array)
    if column.width not in (0, 1, 2, 4, 8):
        raise TypeError(f"cannot hash {array.type} as Spark does")
    if row_count:
        with nogil:
            _mix_as_spark(&column, row_count, &hashes[0])


cdef void _mix_as_spark(Column* column, int64_t rows, uint32_t* hashes) noexcept nogil:
    cdef const uint8_t* data
    cdef int64_t row, cell, start
    cdef uint64_t word
    cdef uint32_t half
    cdef int16_t quarter
    for row in range(rows):
        cell = row + column.offset
        if column.validity != NULL and not (column.validity[cell >> 3] >> (cell & 7)) & 1:
            continue
        data = column.data + cell * column.width
        if column.offsets != NULL:
            start = column.offsets[cell]
            hashes[row] = murmur3_32_bytes(data + start, column.offsets[cell + 1] - start, hashes[row])
        elif column.large_offsets != NULL:
            start = column.large_offsets[cell]
            hashes[row] = murmur3_32_bytes(data + start, column.large_offsets[cell + 1] - start, hashes[row])
        elif column.width == 8:
            memcpy(&word, data, 8)
            hashes[row] = murmur3_32_long(word, hashes[row])
        elif column.width == 4:
            memcpy(&half, data, 4)
            hashes[row] = murmur3_32_int(half, hashes[row])
        elif column.width == 2:
            memcpy(&quarter, data, 2)
            hashes[row] = murmur3_32_int(<uint32_t><int32_t>quarter, hashes[row])
        else:
            hashes[row] = murmur3_32_int(<uint32_t><int32_t>(<int8_t>data[0]), hashes[row])


cdef size_t _address(buffer):
    return 0 if buffer is None else buffer.address


cdef Column _column(array):
    cdef Column column
    kind = array.type
    buffers = array.buffers()
    column.validity = <const uint8_t*>_address(buffers[0] if array.null_count else None)
    column.data = <const uint8_t*>_address(buffers[len(buffers) - 1])
    column.offsets = NULL
    column.large_offsets = NULL
    column.offset = array.offset
    column.width = 0
    if kind == pa.binary():
        column.offsets = <const int32_t*>_address(buffers[1])
    elif kind == pa.large_binary():
        column.large_offsets = <const int64_t*>_address(buffers[1])
    elif len(buffers) == 2 and kind.bit_width % 8 == 0:
        column.width = kind.bit_width // 8
    else:
        raise TypeError(f"cannot hash {kind}")
    return column


cdef int _hash(Column* columns, int count, int64_t rows, uint64_t* high, uint64_t* low) noexcept nogil:
    cdef int64_t capacity = 256
    cdef uint8_t* buffer = <uint8_t*>malloc(capacity)
    cdef uint8_t* larger
    cdef Column* column
    cdef const uint8_t* data
    cdef int64_t row, cell, size, used
    cdef int index
    if buffer == NULL:
        return -1
    for row in range(rows):
        used = 0
        for index in range(count):
            column = &columns[index]
            cell = row + column.offset
            size = -1
            data = NULL
            if column.validity == NULL or (column.validity[cell >> 3] >> (cell & 7)) & 1:
                if column.offsets != NULL:
                    size = column.offsets[cell + 1] - column.offsets[cell]
                    data = column.data + column.offsets[cell]
                elif column.large_offsets != NULL:
                    size = column.large_offsets[cell + 1] - column.large_offsets[cell]
                    data = column.data + column.large_offsets[cell]
                else:
                    size = column.width
                    data = column.data + cell * size
            if used + 16 + size > capacity:
                capacity = 2 * (used + 16 + size)
                larger = <uint8_t*>realloc(buffer, capacity)
                if larger == NULL:
                    free(buffer)
                    return -1
                buffer = larger
            buffer[used] = size >= 0
            used += 1
            if size >= 0:
                if column.width == 0:
                    memcpy(buffer + used, &size, 8)
                    used += 8
                if size > 0:
                    memcpy(buffer + used, data, size)
                    used += size
        murmur3_128(buffer, used, &high[row], &low[row])
    free(buffer)
    return 0
