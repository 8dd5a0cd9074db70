# The columns of KafkaRecords while they are filled. See _rows.pyx.
from libc.stdint cimport int32_t, int64_t

from penstock.codec._columns cimport BinaryColumn, FixedColumn, HeadersColumn
from penstock.codec._record cimport Record

cdef enum Appended:
    APPENDED
    COLUMNS_FULL
    NEEDS_ROOM


cdef class KafkaRows:
    cdef str topic
    cdef int partition
    cdef int64_t max_rows
    cdef int64_t max_bytes
    cdef object schema
    # Slices of these are the columns that are the same in every row.
    cdef object topics
    cdef object partitions
    cdef BinaryColumn key
    cdef BinaryColumn value
    cdef HeadersColumn headers
    cdef FixedColumn offset
    cdef FixedColumn timestamp
    cdef FixedColumn timestamp_type
    cdef FixedColumn leader_epoch
    # Which of them were asked for.
    cdef bint has_key, has_value, has_headers, has_offset, has_timestamp, has_timestamp_type, has_leader_epoch
    # How many rows there are, for how many there is room, how many bytes of keys, values and headers.
    cdef int64_t row_count
    cdef int64_t row_capacity
    cdef int64_t taken_rows
    cdef int64_t byte_count

    cdef int reserve_like(self, int64_t rows, int64_t byte_count, int64_t expected_rows) except -1
    cdef int make_room(self, Record* record) except -1
    cdef Appended append(self, Record* record, int32_t timestamp_type, int32_t leader_epoch) noexcept nogil
    cdef object take(self)
    cdef int _reserve(self, int64_t rows, int64_t byte_count) except -1
    cdef bint _has_room(self, Record* record) noexcept nogil
    cdef void _append_numbers(
        self, int64_t row, Record* record, int32_t timestamp_type, int32_t leader_epoch
    ) noexcept nogil
    cdef void _append_headers(self, int64_t row, Record* record) noexcept nogil
    cdef object _without_columns(self)
    cdef object _take_column(self, field)
    cdef object _constant(self, str name, arrow_type)
