"""Encodes rows of Arrow batches into record batches (magic 2), as Java's producer writes them.

Runs on executors. Invariants: a row is written as it is or refused with its topic partition, never shortened or
skipped; a batch never passes `batch_size_bytes` unless it is one record; the loops hold no GIL and make no
Python object per record.

`RecordColumns` looks at the Arrow types once. `RecordBatchBuilder` counts the bytes of a record before it
writes it, so that its buffer always has room. A batch that is not compressed takes the
buffer and is not copied, unless it fills less than half of the buffer.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AsString
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from penstock.codec._batch cimport (
    BATCH_CRC_FROM,
    BATCH_HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    BatchFields,
    write_batch_crc,
    write_batch_header,
)
from penstock.codec._memory cimport Block
from penstock.codec._record_columns cimport RecordColumns, get_bytes, int32_values, is_valid
from penstock.codec.compression import CODEC_IDS, compressor
from penstock.errors import RecordTooLargeError, RowError

cdef extern from "wire.h":
    int varint_size(int64_t value) noexcept nogil
    uint8_t* store_varint(uint8_t* p, int64_t value) noexcept nogil
    uint8_t* write_sized_bytes(uint8_t* p, const uint8_t* data, int32_t size) noexcept nogil

cdef extern from "crc32c.h":
    void penstock_crc32c_init() noexcept nogil
    uint32_t penstock_crc32c(const uint8_t* data, size_t size) noexcept nogil

penstock_crc32c_init()

cdef enum:
    NO_TIMESTAMP_MS = -1
    LEAST_CAPACITY = 4096
    MOST_FORESIGHT = 1 << 20

EMPTY_HEADER = bytes(BATCH_HEADER_BYTES)

cdef enum Outcome:
    APPENDED
    NO_ROOM
    BATCH_FULL
    TOO_LARGE
    BAD_ROW
    BAD_TIMESTAMP
    NULL_HEADER


@cython.final
cdef class RecordBatchBuilder:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly int32_t record_count
    cdef object compress
    cdef int16_t attributes
    cdef int64_t batch_size_bytes
    cdef int64_t max_record_bytes
    # The open batch: room for its header, then the records. `size` counts both.
    cdef Block block
    cdef uint8_t* data
    cdef int64_t size
    cdef int64_t capacity
    cdef int64_t base_timestamp_ms
    cdef readonly int64_t max_timestamp_ms
    # The size of the current record, if it was refused.
    cdef int64_t refused_size

    def __cinit__(self):
        self.data = NULL
        self.capacity = 0
        self.size = BATCH_HEADER_BYTES
        self.record_count = 0

    def __init__(
        self,
        str topic,
        int partition,
        *,
        str compression_type="none",
        compression_level=None,
        int64_t batch_size_bytes=INT32_MAX,
        int64_t max_record_bytes=INT32_MAX,
        bint is_transactional=False,
    ):
        if not (0 < batch_size_bytes <= INT32_MAX and 0 < max_record_bytes <= INT32_MAX):
            raise ValueError(
                f"batch_size_bytes {batch_size_bytes} and max_record_bytes {max_record_bytes} must be in [1, 2 GiB)"
            )
        self.topic = topic
        self.partition = partition
        self.compress = None if compression_type == "none" else compressor(compression_type, compression_level)
        self.attributes = CODEC_IDS[compression_type] | (TRANSACTIONAL_FLAG if is_transactional else 0)
        self.batch_size_bytes = batch_size_bytes
        self.max_record_bytes = max_record_bytes

    @property
    def size_bytes(self):
        return self.size if self.record_count else 0

    def append(self, RecordColumns columns not None, rows, int64_t first=0, *, int64_t default_timestamp_ms):
        cdef int64_t row_count = len(rows)
        cdef const int32_t* indices = int32_values(rows) if row_count else NULL
        cdef Outcome outcome = APPENDED
        cdef int64_t i = first
        if first < 0:
            raise ValueError(f"first is {first}")
        while i < row_count:
            with nogil:
                while i < row_count:
                    outcome = self._append_row(columns, indices[i], default_timestamp_ms)
                    if outcome != APPENDED:
                        break
                    i += 1
            if outcome != NO_ROOM:
                break
            self._grow(row_count - i)
        if outcome > BATCH_FULL:
            self._raise(outcome, indices[i], columns)
        return i

    def build(self, *, int64_t producer_id=-1, int16_t producer_epoch=-1, int32_t base_sequence=-1):
        return bytes(
            self.hand_over(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
        )

    def hand_over(self, *, int64_t producer_id=-1, int16_t producer_epoch=-1, int32_t base_sequence=-1):
        if self.record_count == 0:
            raise ValueError(f"the open batch of {self.topic}-{self.partition} holds no record")
        if self.attributes & TRANSACTIONAL_FLAG and producer_id < 0:
            raise ValueError(f"a transactional batch of {self.topic}-{self.partition} needs a producer id")
        cdef object batch
        cdef uint8_t* p
        if self.compress is not None:
            batch = self._with_compressed_records()
            p = <uint8_t*>PyBytes_AsString(batch)
        else:
            if self.capacity > 2 * self.size:  # while it waits, `buffer.memory` counts its size only
                self._move(self.size)
            batch = memoryview(self.block)[:self.size]
            p = self.data
        self._write_header(p, len(batch), producer_id, producer_epoch, base_sequence)
        if self.compress is None:
            self.block = None  # it belongs to the batch now
            self.data = NULL
            self.capacity = 0
        self.size = BATCH_HEADER_BYTES
        self.record_count = 0
        return batch

    # Building

    cdef bytes _with_compressed_records(self):
        records = PyMemoryView_FromMemory(
            <char*>self.data + BATCH_HEADER_BYTES, self.size - BATCH_HEADER_BYTES, PyBUF_READ
        )
        return b"".join((EMPTY_HEADER, self.compress(records)))

    cdef int _write_header(
        self, uint8_t* p, int64_t size, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
    ) except -1:
        cdef BatchFields batch
        batch.base_offset = 0
        batch.size = size
        batch.leader_epoch = -1
        batch.attributes = self.attributes
        batch.last_offset_delta = self.record_count - 1
        batch.base_timestamp_ms = self.base_timestamp_ms
        batch.max_timestamp_ms = self.max_timestamp_ms
        batch.producer_id = producer_id
        batch.producer_epoch = producer_epoch
        batch.base_sequence = base_sequence
        batch.record_count = self.record_count
        write_batch_header(p, &batch)
        with nogil:
            write_batch_crc(p, penstock_crc32c(p + BATCH_CRC_FROM, size - BATCH_CRC_FROM))
        return 0

    # Appending

    cdef Outcome _append_row(self, RecordColumns columns, int32_t row, int64_t default_timestamp_ms) noexcept nogil:
        """Append one row. After any result but APPENDED nothing was written."""
        cdef const uint8_t* key = NULL
        cdef const uint8_t* value = NULL
        cdef int64_t key_size
        cdef int64_t value_size
        cdef int64_t timestamp_ms
        cdef int64_t headers_size = 0
        cdef int64_t body_size
        cdef Outcome outcome
        if not 0 <= row < columns.row_count:
            return BAD_ROW
        timestamp_ms = columns.timestamp_ms(row, default_timestamp_ms)
        if timestamp_ms < NO_TIMESTAMP_MS:
            return BAD_TIMESTAMP
        if self.record_count == 0:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        key_size = get_bytes(&columns.key, row, &key)
        value_size = get_bytes(&columns.value, row, &value)
        if not self._measure_headers(columns, row, &headers_size):
            return NULL_HEADER
        body_size = (
            1
            + varint_size(timestamp_ms - self.base_timestamp_ms)
            + varint_size(self.record_count)
            + varint_size(key_size) + max(key_size, 0)
            + varint_size(value_size) + max(value_size, 0)
            + headers_size
        )
        outcome = self._make_room(varint_size(body_size) + body_size)
        if outcome != APPENDED:
            return outcome
        cdef uint8_t* p = store_varint(self.data + self.size, body_size)
        p[0] = 0
        p = store_varint(p + 1, timestamp_ms - self.base_timestamp_ms)
        p = store_varint(p, self.record_count)
        p = write_sized_bytes(p, key, <int32_t>key_size)
        p = write_sized_bytes(p, value, <int32_t>value_size)
        p = self._write_headers(p, columns, row)
        self.size = p - self.data
        self.record_count += 1
        self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp_ms)
        return APPENDED

    cdef Outcome _make_room(self, int64_t record_size) noexcept nogil:
        """Decide whether a record may be appended, and whether there is room for it."""
        cdef int64_t needed = self.size + record_size
        self.refused_size = BATCH_HEADER_BYTES + record_size
        if BATCH_HEADER_BYTES + record_size > self.max_record_bytes:
            # In a batch of its own its deltas are 0, which is its smallest size.
            if self.record_count > 0:
                return BATCH_FULL
            return TOO_LARGE
        if self.record_count > 0 and (needed > self.batch_size_bytes or self.record_count == INT32_MAX):
            return BATCH_FULL
        return APPENDED if needed <= self.capacity else NO_ROOM

    cdef int _grow(self, int64_t rows_left) except -1:
        """Make room for the record that was refused, and for others like it."""
        cdef int64_t record_size = self.refused_size - BATCH_HEADER_BYTES
        cdef int64_t foreseen = self.size + min(rows_left * record_size, MOST_FORESIGHT)
        cdef int64_t grown = min(max(2 * self.capacity, foreseen), self.batch_size_bytes)
        return self._move(max(self.size + record_size, grown, LEAST_CAPACITY))

    cdef int _move(self, int64_t capacity) except -1:
        """Move the open batch into memory of `capacity` bytes."""
        cdef Block block = Block(capacity)
        if self.record_count > 0:
            memcpy(block.data, self.data, self.size)
        self.block = block
        self.data = block.data
        self.capacity = block.size
        return 0

    cdef bint _measure_headers(self, RecordColumns columns, int32_t row, int64_t* size) noexcept nogil:
        """Count the bytes of a row's headers; return False if a header or its name is null."""
        cdef int64_t first
        cdef int64_t last
        cdef int64_t key_size
        cdef int64_t value_size
        cdef const uint8_t* data = NULL
        columns.header_range(row, &first, &last)
        size[0] = varint_size(last - first)
        while first < last:
            key_size = get_bytes(&columns.header_key, first, &data)
            if key_size < 0 or not is_valid(&columns.header_validity, first):
                return False
            value_size = get_bytes(&columns.header_value, first, &data)
            size[0] += varint_size(key_size) + key_size + varint_size(value_size) + max(value_size, 0)
            first += 1
        return True

    cdef uint8_t* _write_headers(self, uint8_t* p, RecordColumns columns, int32_t row) noexcept nogil:
        cdef int64_t first
        cdef int64_t last
        cdef int64_t size
        cdef const uint8_t* data = NULL
        columns.header_range(row, &first, &last)
        p = store_varint(p, last - first)
        while first < last:
            size = get_bytes(&columns.header_key, first, &data)
            p = write_sized_bytes(p, data, <int32_t>size)
            size = get_bytes(&columns.header_value, first, &data)
            p = write_sized_bytes(p, data, <int32_t>size)
            first += 1
        return p

    cdef int _raise(self, Outcome outcome, int32_t row, RecordColumns columns) except -1:
        where = f"row {row} of its Arrow batch, for {self.topic}-{self.partition},"
        facts = {"topic": self.topic, "partition": self.partition, "row": row}
        if outcome == TOO_LARGE:
            raise RecordTooLargeError(
                f"A record is too large: {where} takes {self.refused_size} bytes before compression, but "
                f"{self.max_record_bytes} are allowed. It was not written, and its task fails. Make the value "
                "smaller, or raise the producer property max.request.size and the topic's max.message.bytes.",
                size_bytes=self.refused_size, limit_bytes=self.max_record_bytes, **facts,
            )
        if outcome == BAD_TIMESTAMP:
            raise RowError(
                f"A row cannot become a Kafka record: {where} has a timestamp before 1970, which Kafka does not "
                "allow. It was not written, and its task fails. Correct the column timestamp, or leave it out.",
                **facts,
            )
        if outcome == NULL_HEADER:
            raise RowError(
                f"A row cannot become a Kafka record: {where} has a header that is null, or whose key is null. "
                "It was not written, and its task fails. Only the value of a header may be null.", **facts,
            )
        raise ValueError(f"row {row} is not in [0, {columns.row_count})")
