"""The columns of KafkaRecords while records are written into them.

Runs on executors, inside of the decoder. Invariant: `append` needs no GIL, writes a whole row or nothing, and
never more than was reserved; only columns that were asked for take memory or time.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

import pyarrow as pa

from penstock.codec._columns cimport (
    BinaryColumn,
    FixedColumn,
    HeadersColumn,
    append_bytes,
    clear_bit,
    has_room,
)
from penstock.codec._record cimport Record, read_sized_bytes
from penstock.codec.schema import KAFKA_RECORDS, RAW_HEADERS_TYPE

cdef int64_t MICROSECONDS = 1000
# A range may hold far fewer records than offsets: sizing the columns is worth this many of what came first.
cdef int64_t FORESIGHT = 16
cdef int64_t MIN_ROWS = 64


@cython.final
cdef class KafkaRows:
    def __init__(self, str topic, int partition, set names, int64_t max_rows, int64_t max_bytes, bint raw_headers):
        self.topic = topic
        self.partition = partition
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.schema = pa.schema([
            field.with_type(RAW_HEADERS_TYPE) if raw_headers and field.name == "headers" else field
            for field in KAFKA_RECORDS
            if field.name in names
        ])
        self.topics = self.partitions = None
        self.row_count = self.row_capacity = self.byte_count = 0
        self.taken_rows = 0  # the last time
        self.has_key = "key" in names
        self.has_value = "value" in names
        self.has_headers = "headers" in names
        self.has_offset = "offset" in names
        self.has_timestamp = "timestamp" in names
        self.has_timestamp_type = "timestamp_type" in names
        self.has_leader_epoch = "leader_epoch" in names
        self.key = BinaryColumn()
        self.value = BinaryColumn()
        self.headers = HeadersColumn()
        self.offset = FixedColumn(8)
        self.timestamp = FixedColumn(8)
        self.timestamp_type = FixedColumn(4)
        self.leader_epoch = FixedColumn(4)

    # Room

    cdef int reserve_like(self, int64_t rows, int64_t byte_count, int64_t expected_rows) except -1:
        """Make room for `rows` more rows of `byte_count` bytes, and for similar rows that may follow."""
        cdef int64_t needed = min(self.max_rows, self.row_count + rows)
        if needed <= self.row_capacity:
            return 0
        if self.row_count > 0:
            return self._reserve(min(self.max_rows, max(needed, 2 * self.row_capacity)), 0)
        needed = max(needed, min(expected_rows, self.max_rows, max(FORESIGHT * rows, self.taken_rows)))
        return self._reserve(needed, min(needed * (byte_count // rows + 1), self.max_bytes))

    cdef int make_room(self, Record* record) except -1:
        """Make room for a record that `append` refused because there was no room."""
        if self.row_count >= self.row_capacity:
            self._reserve(min(self.max_rows, max(MIN_ROWS, self.row_count + 1, 2 * self.row_capacity)), 0)
        if self.has_key and record.key_size > 0:
            self.key.reserve(self.row_capacity, self.key.byte_count + record.key_size)
        if self.has_value and record.value_size > 0:
            self.value.reserve(self.row_capacity, self.value.byte_count + record.value_size)
        if self.has_headers:
            self.headers.reserve(self.row_capacity, record.header_count, record.end - record.headers)
        return 0

    cdef int _reserve(self, int64_t rows, int64_t byte_count) except -1:
        """Make room for `rows` rows and about `byte_count` bytes in every requested column."""
        if self.has_key:
            self.key.reserve(rows, self.key.likely_bytes(rows, byte_count))
        if self.has_value:
            self.value.reserve(rows, self.value.likely_bytes(rows, byte_count))
        if self.has_headers:
            self.headers.reserve(rows, 0, 0)
        if self.has_offset:
            self.offset.reserve(rows)
        if self.has_timestamp:
            self.timestamp.reserve(rows)
        if self.has_timestamp_type:
            self.timestamp_type.reserve(rows)
        if self.has_leader_epoch:
            self.leader_epoch.reserve(rows)
        self.row_capacity = rows
        return 0

    # Rows

    cdef Appended append(self, Record* record, int32_t timestamp_type, int32_t leader_epoch) noexcept nogil:
        """Write a row. After any result but APPENDED nothing was written."""
        cdef int64_t row = self.row_count
        cdef int64_t size = 0
        if self.has_key and record.key_size > 0:
            size += record.key_size
        if self.has_value and record.value_size > 0:
            size += record.value_size
        if self.has_headers:
            size += record.end - record.headers
        if row >= self.max_rows or (row > 0 and size > self.max_bytes - self.byte_count):
            return COLUMNS_FULL
        if row >= self.row_capacity or not self._has_room(record):
            return NEEDS_ROOM
        if self.has_key:
            append_bytes(self.key, row, record.key, record.key_size)
        if self.has_value:
            append_bytes(self.value, row, record.value, record.value_size)
        if self.has_headers:
            self._append_headers(row, record)
        self._append_numbers(row, record, timestamp_type, leader_epoch)
        self.byte_count += size
        self.row_count = row + 1
        return APPENDED

    cdef bint _has_room(self, Record* record) noexcept nogil:
        if self.has_key and not has_room(self.key, record.key_size):
            return False
        if self.has_value and not has_room(self.value, record.value_size):
            return False
        if not self.has_headers or record.header_count == 0:
            return True
        cdef int64_t size = record.end - record.headers
        cdef int64_t elements = self.headers.element_count + record.header_count
        return (
            has_room(self.headers.keys, size)
            and has_room(self.headers.values, size)
            and (elements + 1) * 4 <= self.headers.keys.offsets.capacity
            and (elements + 1) * 4 <= self.headers.values.offsets.capacity
            and elements <= self.headers.values.validity.capacity * 8
            and elements <= self.headers.keys.validity.capacity * 8
        )

    cdef void _append_numbers(
        self, int64_t row, Record* record, int32_t timestamp_type, int32_t leader_epoch
    ) noexcept nogil:
        if self.has_offset:
            (<int64_t*>self.offset.values.data)[row] = record.offset
        if self.has_timestamp:
            (<int64_t*>self.timestamp.values.data)[row] = record.timestamp_ms * MICROSECONDS
        if self.has_timestamp_type:
            (<int32_t*>self.timestamp_type.values.data)[row] = timestamp_type
        if self.has_leader_epoch:
            (<int32_t*>self.leader_epoch.values.data)[row] = leader_epoch
            if leader_epoch < 0:
                clear_bit(self.leader_epoch.validity.data, row)
                self.leader_epoch.null_count += 1

    cdef void _append_headers(self, int64_t row, Record* record) noexcept nogil:
        """Write the headers of a row, which `read_record` has found well-formed."""
        cdef const uint8_t* p = record.headers
        cdef const uint8_t* data = NULL
        cdef int32_t size = 0
        cdef int32_t left = record.header_count
        if left == 0:
            clear_bit(self.headers.validity.data, row)
            self.headers.null_count += 1
        while left > 0:
            p = read_sized_bytes(p, record.end, &data, &size)
            append_bytes(self.headers.keys, self.headers.element_count, data, size)
            p = read_sized_bytes(p, record.end, &data, &size)
            append_bytes(self.headers.values, self.headers.element_count, data, size)
            self.headers.element_count += 1
            left -= 1
        (<int32_t*>self.headers.offsets.data)[row + 1] = <int32_t>self.headers.element_count

    # Handing over

    cdef object take(self):
        """Return the appended rows as a RecordBatch of the requested columns."""
        arrays = [self._take_column(field) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema) if arrays else self._without_columns()
        self.taken_rows = self.row_count
        self.row_count = self.row_capacity = self.byte_count = 0
        return batch

    cdef object _without_columns(self):
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), self.row_count, [None]))

    cdef object _take_column(self, field):
        cdef int64_t rows = self.row_count
        name = field.name
        if name == "topic" or name == "partition":
            return self._constant(name, field.type)
        if name == "key":
            return self.key.take(field.type, rows)
        if name == "value":
            return self.value.take(field.type, rows)
        if name == "headers":
            return self.headers.take(field.type, rows)
        cdef FixedColumn column = {
            "offset": self.offset,
            "timestamp": self.timestamp,
            "timestamp_type": self.timestamp_type,
            "leader_epoch": self.leader_epoch,
        }[name]
        return column.take(field.type, rows)

    cdef object _constant(self, str name, arrow_type):
        """Return a slice of a column that is the same in every row; the column is rebuilt only when too short."""
        constants = self.topics if name == "topic" else self.partitions
        if constants is None or len(constants) < self.row_count:
            value = self.topic if name == "topic" else self.partition
            length = min(self.max_rows, 1 << max(self.row_count - 1, 0).bit_length())
            constants = pa.repeat(pa.scalar(value, arrow_type), length)
            if name == "topic":
                self.topics = constants
            else:
                self.partitions = constants
        return constants.slice(0, self.row_count)
