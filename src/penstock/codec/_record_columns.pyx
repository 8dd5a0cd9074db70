"""Views into the Arrow columns of rows that are to become Kafka records.

Runs on executors. Invariant: a RecordColumns owns the arrays that its pointers point into; types were checked
once, by `arrow_input`, so that a row costs no Python.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

import pyarrow as pa

from penstock.codec.arrow_input import binary_input, header_input, timestamp_input

cdef type Int32Array = pa.Int32Array


cdef size_t address_of(buffer):
    return 0 if buffer is None else buffer.address


cdef Bits _bits(array):
    cdef Bits bits
    bits.bits = <const uint8_t*>address_of(array.buffers()[0] if array.null_count else None)
    bits.offset = array.offset
    return bits


cdef Binary view_of(array):
    """Point into a binary or string array of either width (None = absent). The caller keeps the array."""
    cdef Binary column
    memset(&column, 0, sizeof(column))
    if array is None:
        return column
    _, offsets, data = array.buffers()
    if pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type):
        column.large_offsets = <const int64_t*>address_of(offsets)
    else:
        column.offsets = <const int32_t*>address_of(offsets)
    column.validity = _bits(array)
    column.data = <const uint8_t*>address_of(data)
    column.offset = array.offset
    return column


cdef const int32_t* int32_values(array) except? NULL:
    """Point to the values of an int32 array without nulls. The caller keeps the array."""
    if not isinstance(array, Int32Array) or array.null_count:
        raise ValueError(f"expected int32 without nulls, got {array.type} with {array.null_count} nulls")
    return <const int32_t*>address_of(array.buffers()[1]) + <int64_t>array.offset


@cython.final
cdef class RecordColumns:
    def __init__(self, records):
        self.row_count = records.num_rows
        key, value = binary_input(records, "key"), binary_input(records, "value")
        timestamps, headers = timestamp_input(records), header_input(records)
        self.key = view_of(key)
        self.value = view_of(value)
        self.timestamps = NULL
        if timestamps is not None:
            self.timestamps = <const int64_t*>address_of(timestamps.buffers()[1]) + <int64_t>timestamps.offset
            self.timestamp_validity = _bits(timestamps)
        self.has_headers = headers is not None
        self.arrays = (key, value, timestamps, self._set_headers(headers))

    cdef tuple _set_headers(self, headers):
        if headers is None:
            return ()
        self.headers_validity = _bits(headers)
        self.headers_offset = headers.offset
        self.header_offsets = self.large_header_offsets = NULL
        offsets = headers.buffers()[1]
        if pa.types.is_large_list(headers.type):
            self.large_header_offsets = <const int64_t*>address_of(offsets)
        else:
            self.header_offsets = <const int32_t*>address_of(offsets)
        # `values` ignores the struct's slice and `field` applies it: rows of the struct count from its own start.
        structs = headers.values
        keys = structs.field(structs.type.get_field_index("key"))
        values = structs.field(structs.type.get_field_index("value"))
        self.header_validity = _bits(structs)
        self.header_key = view_of(keys)
        self.header_value = view_of(values)
        return headers, structs, keys, values

    cdef int64_t timestamp_ms(self, int64_t row, int64_t default_ms) noexcept nogil:
        cdef int64_t us
        if self.timestamps == NULL or not is_valid(&self.timestamp_validity, row):
            return default_ms
        us = self.timestamps[row]
        # Rounds down, also before 1970; cdivision alone would round towards it.
        return us // 1000 if us >= 0 else -((999 - us) // 1000)

    cdef void header_range(self, int64_t row, int64_t* first, int64_t* last) noexcept nogil:
        """Set the range of headers that belong to a row: `[first, last)`."""
        cdef int64_t i = self.headers_offset + row
        first[0] = last[0] = 0
        if not self.has_headers or not is_valid(&self.headers_validity, row):
            return
        if self.header_offsets != NULL:
            first[0] = self.header_offsets[i]
            last[0] = self.header_offsets[i + 1]
        else:
            first[0] = self.large_header_offsets[i]
            last[0] = self.large_header_offsets[i + 1]
