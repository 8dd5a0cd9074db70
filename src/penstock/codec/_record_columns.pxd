# Views into Arrow memory that rows are encoded from. See _record_columns.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef struct Bits:
    # A validity bitmap; `bits` NULL means all valid.
    const uint8_t* bits
    int64_t offset


cdef struct Binary:
    # Binary or string values; both offsets NULL means the column is absent.
    Bits validity
    const int32_t* offsets
    const int64_t* large_offsets
    const uint8_t* data
    int64_t offset


cdef class RecordColumns:
    cdef readonly int64_t row_count
    # The arrays own the memory that the rest points into.
    cdef tuple arrays
    cdef Binary key
    cdef Binary value
    cdef const int64_t* timestamps
    cdef Bits timestamp_validity
    cdef bint has_headers
    cdef Bits headers_validity
    cdef const int32_t* header_offsets
    cdef const int64_t* large_header_offsets
    cdef int64_t headers_offset
    cdef Bits header_validity
    cdef Binary header_key
    cdef Binary header_value

    cdef tuple _set_headers(self, headers)
    cdef int64_t timestamp_ms(self, int64_t row, int64_t default_ms) noexcept nogil
    cdef void header_range(self, int64_t row, int64_t* first, int64_t* last) noexcept nogil


cdef size_t address_of(buffer)
cdef Binary view_of(array)
cdef const int32_t* int32_values(array) except? NULL


cdef inline bint is_valid(Bits* validity, int64_t row) noexcept nogil:
    cdef int64_t i = validity.offset + row
    return validity.bits == NULL or (validity.bits[i >> 3] >> (i & 7)) & 1


cdef inline int64_t get_bytes(Binary* column, int64_t row, const uint8_t** data) noexcept nogil:
    """Return the size of a value, and point to it; -1 for null."""
    cdef int64_t i = column.offset + row
    cdef int64_t start
    if column.offsets != NULL:
        if not is_valid(&column.validity, row):
            return -1
        start = column.offsets[i]
        data[0] = column.data + start
        return column.offsets[i + 1] - start
    if column.large_offsets == NULL or not is_valid(&column.validity, row):
        return -1
    start = column.large_offsets[i]
    data[0] = column.data + start
    return column.large_offsets[i + 1] - start
