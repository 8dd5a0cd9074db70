"""Decodes record batches (magic 2) into KafkaRecords.

Runs on executors, once a split. Invariants: every length and offset from the wire is checked before it is used;
each record in `[starting_offset, stopping_offset)` is yielded once and in order, whatever batches overlap;
`next_offset` never passes a record that was not put into a column. The loops hold no GIL and make no Python
object per record.

How it goes: `decode` walks the batches of a response. A batch's header says whether it counts at all
(`_Batch`, `aborted.py`); then its records are decompressed and `_decode_records` runs through them until the
batch ends or the columns are full, in which case a RecordBatch is yielded and it goes on where it stopped.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

import pyarrow as pa

from penstock.codec._columns cimport (
    BinaryColumn,
    FixedColumn,
    HeadersColumn,
    append_bytes,
    clear_bit,
    has_room,
)
from penstock.codec.aborted import AbortedTransactions, is_abort_marker
from penstock.codec.compression import Decompressor
from penstock.codec.compression_bounds import BadCompressionError
from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import CodecError, CorruptBatchError

cdef extern from "wire.h":
    int16_t load_int16(const uint8_t* p) noexcept nogil
    int32_t load_int32(const uint8_t* p) noexcept nogil
    uint32_t load_uint32(const uint8_t* p) noexcept nogil
    int64_t load_int64(const uint8_t* p) noexcept nogil
    const uint8_t* read_varint(const uint8_t* p, const uint8_t* end, int32_t* value) noexcept nogil
    const uint8_t* read_varlong(const uint8_t* p, const uint8_t* end, int64_t* value) noexcept nogil
    const uint8_t* read_sized_bytes(
        const uint8_t* p, const uint8_t* end, const uint8_t** data, int32_t* size
    ) noexcept nogil

cdef extern from "crc32c.h":
    void penstock_crc32c_init() noexcept nogil
    uint32_t penstock_crc32c(const uint8_t* data, size_t size) noexcept nogil
    uint32_t penstock_crc32c_tables(const uint8_t* data, size_t size) noexcept nogil

penstock_crc32c_init()

# Both formats begin alike: offset int64, length int32, then 4 bytes (v2: leader epoch, old: CRC), magic int8.
cdef enum:
    LOG_OVERHEAD = 12
    MAGIC_AT = 16
    MIN_LENGTH = 14
    HEADER_BYTES = 61
    CRC_FROM = 21
    MIN_RECORD_BYTES = 7
    COMPRESSION_MASK = 0x07
    LOG_APPEND_TIME_FLAG = 0x08
    TRANSACTIONAL_FLAG = 0x10
    CONTROL_FLAG = 0x20
    # The most rows for which the repeated topic name cannot pass Arrow's 2 GiB.
    ROWS_LIMIT = 8_000_000

cdef int64_t MICROSECONDS = 1000
cdef int64_t MAX_TIMESTAMP_MS = INT64_MAX // 1000
cdef int64_t INT32_LIMIT = 0x7FFFFFFF

# What a run through records ends with.
cdef enum Outcome:
    BATCH_DONE
    COLUMNS_FULL
    NEEDS_ROOM
    BAD_RECORD
    BAD_OFFSET
    BAD_TIMESTAMP


cdef struct Record:
    int64_t offset
    int64_t timestamp_ms
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers
    const uint8_t* end
    int32_t key_size
    int32_t value_size
    int32_t header_count


cdef struct Batch:
    int64_t base_offset
    int64_t size
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int64_t producer_id
    int32_t leader_epoch
    int32_t last_offset_delta
    int32_t record_count
    int32_t timestamp_type
    int16_t attributes
    int8_t magic


cdef class ByteView:
    """Holds on to the memory of a bytes-like object."""

    cdef object source
    cdef Py_buffer view
    cdef bint is_held
    cdef const uint8_t* data
    cdef int64_t size

    def __cinit__(self, source):
        self.is_held = False
        # A memoryview of plain bytes, of which cramjam reads slices without a copy.
        self.source = memoryview(source)
        if self.source.format != "B":
            self.source = self.source.cast("B")
        PyObject_GetBuffer(self.source, &self.view, PyBUF_SIMPLE)
        self.is_held = True
        self.data = <const uint8_t*>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


cdef inline const uint8_t* skip_headers(const uint8_t* p, const uint8_t* end, int32_t count) noexcept nogil:
    """Return the end of `count` headers, or NULL where they are not well-formed."""
    cdef const uint8_t* data = NULL
    cdef int32_t size = 0
    while count > 0:
        p = read_sized_bytes(p, end, &data, &size)
        if p == NULL or size < 0:
            return NULL
        p = read_sized_bytes(p, end, &data, &size)
        if p == NULL:
            return NULL
        count -= 1
    return p


cdef inline const uint8_t* read_record(
    const uint8_t* p, const uint8_t* end, int64_t* timestamp_delta, int32_t* offset_delta, Record* record
) noexcept nogil:
    """Read the record at `p`, and return its end, or NULL where it is not well-formed."""
    cdef int32_t size = 0
    p = read_varint(p, end, &size)
    if p == NULL or size < 1 or size > end - p:
        return NULL
    end = p + size
    # One byte of attributes, all unused.
    p = read_varlong(p + 1, end, timestamp_delta)
    if p == NULL:
        return NULL
    p = read_varint(p, end, offset_delta)
    if p == NULL:
        return NULL
    p = read_sized_bytes(p, end, &record.key, &record.key_size)
    if p == NULL:
        return NULL
    p = read_sized_bytes(p, end, &record.value, &record.value_size)
    if p == NULL:
        return NULL
    p = read_varint(p, end, &record.header_count)
    if p == NULL or record.header_count < 0 or record.header_count > (end - p) >> 1:
        return NULL
    record.headers = p
    record.end = end
    if record.header_count:
        p = skip_headers(p, end, record.header_count)
    return end if p == end else NULL


@cython.final
cdef class RecordBatchDecoder:
    cdef readonly str topic
    cdef readonly int partition
    cdef int64_t position
    cdef int64_t stopping_offset
    cdef bint read_committed
    cdef bint check_crcs
    cdef int64_t max_rows
    cdef int64_t max_bytes
    cdef object schema
    cdef object topics
    cdef object partitions
    cdef object decompressor
    # The columns that were asked for; None for the others.
    cdef BinaryColumn key
    cdef BinaryColumn value
    cdef HeadersColumn headers
    cdef FixedColumn offset
    cdef FixedColumn timestamp
    cdef FixedColumn timestamp_type
    cdef FixedColumn leader_epoch
    cdef bint has_key, has_value, has_headers, has_offset, has_timestamp, has_timestamp_type, has_leader_epoch
    # Rows in the columns: how many, for how many there is room, how many bytes of keys, values, headers.
    cdef int64_t row_count
    cdef int64_t row_capacity
    cdef int64_t byte_count
    # The batch being read.
    cdef Batch batch
    cdef ByteView records
    cdef const uint8_t* cursor
    cdef const uint8_t* records_end
    cdef int32_t records_left
    cdef int32_t previous_offset_delta
    cdef bint is_cut

    def __init__(
        self,
        str topic,
        int partition,
        *,
        int64_t starting_offset,
        int64_t stopping_offset,
        columns=KAFKA_RECORDS.names,
        bint read_committed=False,
        bint check_crcs=True,
        int64_t max_rows=32_768,
        int64_t max_bytes=8 << 20,
        int64_t max_decompressed_bytes=1 << 30,
    ):
        if not (0 < max_rows <= ROWS_LIMIT and 0 < max_bytes <= INT32_LIMIT and max_decompressed_bytes > 0):
            raise ValueError(
                f"max_rows {max_rows} must be in [1, {ROWS_LIMIT}], max_bytes {max_bytes} in [1, 2 GiB), "
                f"max_decompressed_bytes {max_decompressed_bytes} positive"
            )
        unknown = set(columns) - set(KAFKA_RECORDS.names)
        if unknown:
            raise ValueError(f"{sorted(unknown)} are no columns of KafkaRecords")
        self.topic = topic
        self.partition = partition
        self.position = starting_offset
        self.stopping_offset = stopping_offset
        self.read_committed = read_committed
        self.check_crcs = check_crcs
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.schema = pa.schema([field for field in KAFKA_RECORDS if field.name in columns])
        self.topics = self.partitions = None
        self.decompressor = Decompressor(max_decompressed_bytes)
        self._make_columns(set(columns))
        self.row_count = self.row_capacity = self.byte_count = 0

    @property
    def next_offset(self):
        return self.position

    @property
    def is_finished(self):
        return self.position >= self.stopping_offset

    def decode(self, data, aborted=()):
        transactions = AbortedTransactions(aborted or ()) if self.read_committed else None
        view = ByteView(data)
        cdef ByteView bytes_view = view
        cdef int64_t start = 0
        while self.position < self.stopping_offset and self._read_header(
            bytes_view.data + start, bytes_view.size - start
        ):
            if self.batch.magic < 2:
                for row in self._legacy_rows(bytes_view, start):
                    while not self._append_legacy(row):
                        yield self._take()
            elif self._open_batch(bytes_view, start, transactions):
                while not self._decode_open_batch():
                    yield self._take()
            self._close_batch()
            start += self.batch.size
            if self.row_count >= self.max_rows:
                yield self._take()

    def flush(self):
        return self._take() if self.row_count else None

    # Columns

    cdef _make_columns(self, set names):
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

    cdef int _reserve_rows(self, int64_t rows, int64_t byte_count) except -1:
        """Make room for `rows` rows, and about `byte_count` bytes, in every column that was asked for."""
        if self.has_key:
            self.key.reserve(rows, byte_count)
        if self.has_value:
            self.value.reserve(rows, byte_count)
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

    cdef int _reserve_for_batch(self) except -1:
        """Size the columns from the batch: as if all of the range, up to the limits, were like it."""
        cdef int64_t rows = min(self.max_rows, self.stopping_offset - self.position)
        cdef int64_t needed = min(self.max_rows, self.row_count + self.records_left)
        cdef int64_t record_bytes
        if needed <= self.row_capacity:
            return 0
        if self.row_count > 0:
            return self._reserve_rows(min(self.max_rows, max(needed, 2 * self.row_capacity)), 0)
        record_bytes = (self.records_end - self.cursor) // self.records_left + 1
        # A split may hold fewer records than offsets: up to 16 times this batch's, it is worth the memory.
        rows = max(needed, min(rows, 16 * <int64_t>self.records_left))
        return self._reserve_rows(rows, min(rows * record_bytes, self.max_bytes))

    cdef int _reserve_for_record(self) except -1:
        """Make room for the record at the cursor, which the columns could not take."""
        cdef Record record
        cdef int64_t timestamp_delta = 0
        cdef int32_t offset_delta = 0
        if self.row_count >= self.row_capacity:
            self._reserve_rows(min(self.max_rows, max(self.row_count + 1, 2 * self.row_capacity)), 0)
        if read_record(self.cursor, self.records_end, &timestamp_delta, &offset_delta, &record) != NULL:
            self._reserve_bytes(&record)
        return 0

    cdef int _reserve_bytes(self, Record* record) except -1:
        if self.has_key and record.key_size > 0:
            self.key.reserve(self.row_capacity, self.key.byte_count + record.key_size)
        if self.has_value and record.value_size > 0:
            self.value.reserve(self.row_capacity, self.value.byte_count + record.value_size)
        if self.has_headers:
            self.headers.reserve(self.row_capacity, record.header_count, record.end - record.headers)
        return 0

    cdef _take(self):
        """Turn the rows so far into a RecordBatch of the asked columns."""
        arrays = [self._take_column(field) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema) if arrays else self._empty_batch()
        self.row_count = self.row_capacity = self.byte_count = 0
        return batch

    cdef _empty_batch(self):
        """Return a RecordBatch of rows without columns."""
        return pa.RecordBatch.from_struct_array(
            pa.Array.from_buffers(pa.struct([]), self.row_count, [None])
        )

    cdef _take_column(self, field):
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

    cdef _constant(self, str name, arrow_type):
        """Return a slice of a column that is the same in every row; built once, and anew only when too short."""
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

    # Batches

    cdef bint _read_header(self, const uint8_t* p, int64_t size) except -1:
        """Read the header at `p` into `self.batch`; False where no whole batch is left."""
        cdef Batch* batch = &self.batch
        if size < MAGIC_AT + 1:
            return False
        batch.base_offset = load_int64(p)
        batch.size = LOG_OVERHEAD + <int64_t>load_int32(p + 8)
        batch.magic = <int8_t>p[MAGIC_AT]
        if batch.base_offset < 0 or batch.base_offset > INT64_MAX - INT32_LIMIT - 1:
            raise self._corrupt("its base offset is out of range")
        if batch.magic < 0 or batch.magic > 2:
            raise self._corrupt(f"its format version (magic) is {batch.magic}, where 0 to 2 are known")
        if batch.size < (HEADER_BYTES if batch.magic == 2 else LOG_OVERHEAD + MIN_LENGTH):
            raise self._corrupt(f"its length is {batch.size} bytes, too few for a header")
        if batch.size > size:
            return False
        if batch.magic < 2:
            # An old entry stands at the offset of its last record; nothing else of it is known yet.
            batch.last_offset_delta = 0
            return True
        self._read_header_v2(p)
        return True

    cdef int _read_header_v2(self, const uint8_t* p) except -1:
        cdef Batch* batch = &self.batch
        cdef uint32_t expected
        cdef uint32_t actual
        if self.check_crcs:
            expected = load_uint32(p + 17)
            with nogil:
                actual = penstock_crc32c(p + CRC_FROM, batch.size - CRC_FROM)
            if expected != actual:
                raise self._corrupt(f"its CRC-32C is {actual:#010x} where its header says {expected:#010x}")
        batch.leader_epoch = load_int32(p + 12)
        batch.attributes = load_int16(p + 21)
        batch.last_offset_delta = load_int32(p + 23)
        batch.base_timestamp_ms = load_int64(p + 27)
        batch.max_timestamp_ms = load_int64(p + 35)
        batch.producer_id = load_int64(p + 43)
        batch.record_count = load_int32(p + 57)
        batch.timestamp_type = 1 if batch.attributes & LOG_APPEND_TIME_FLAG else 0
        if batch.last_offset_delta < 0:
            raise self._corrupt(f"its last offset delta is {batch.last_offset_delta}")
        if not 0 <= batch.record_count <= <int64_t>batch.last_offset_delta + 1:
            raise self._corrupt(
                f"it claims {batch.record_count} records for {batch.last_offset_delta + 1} offsets"
            )
        return 0

    cdef bint _open_batch(self, ByteView view, int64_t start, transactions) except -1:
        """Make the records of a batch ready; False where it has none for this reader."""
        cdef Batch* batch = &self.batch
        cdef int64_t last_offset = batch.base_offset + batch.last_offset_delta
        if batch.base_offset >= self.stopping_offset:
            return False
        if transactions is not None and batch.producer_id >= 0 and self._is_aborted(view, start, transactions):
            return False
        if batch.attributes & CONTROL_FLAG or last_offset < self.position:
            return False
        if batch.record_count == 0:
            return self._check_empty()
        self._load_records(view, start)
        return True

    cdef bint _is_aborted(self, ByteView view, int64_t start, transactions) except -1:
        """Follow the transactions as Java's consumer does, and say whether this batch's data was aborted."""
        cdef Batch* batch = &self.batch
        transactions.advance(batch.base_offset + batch.last_offset_delta)
        if not batch.attributes & CONTROL_FLAG:
            return batch.attributes & TRANSACTIONAL_FLAG and transactions.is_aborted(batch.producer_id)
        if batch.record_count > 0 and self._has_abort_marker(view, start):
            transactions.end(batch.producer_id)
        return False

    cdef bint _has_abort_marker(self, ByteView view, int64_t start) except -1:
        cdef Record record
        cdef int64_t timestamp_delta = 0
        cdef int32_t offset_delta = 0
        self._load_records(view, start)
        if read_record(self.cursor, self.records_end, &timestamp_delta, &offset_delta, &record) == NULL:
            raise self._corrupt("its control record is malformed")
        if record.key_size < 4:
            raise self._corrupt("its control record has no type")
        return is_abort_marker((<const char*>record.key)[:4])

    cdef bint _check_empty(self) except -1:
        """Compaction leaves a header without records where the last ones of a producer were."""
        if not self.batch.attributes & COMPRESSION_MASK and self.batch.size != HEADER_BYTES:
            raise self._corrupt(f"it claims no records but holds {self.batch.size - HEADER_BYTES} bytes of them")
        return False

    cdef int _load_records(self, ByteView view, int64_t start) except -1:
        """Point the cursor to the records of the batch, decompressed if need be."""
        cdef Batch* batch = &self.batch
        cdef int compression = batch.attributes & COMPRESSION_MASK
        cdef int64_t size = batch.size - HEADER_BYTES
        cdef const uint8_t* data = view.data + start + HEADER_BYTES
        if compression:
            source = view.source[start + HEADER_BYTES : start + batch.size]
            try:
                self.records = ByteView(self.decompressor.decompress(compression, source))
            except BadCompressionError as error:
                raise self._corrupt(str(error)) from error
            data = self.records.data
            size = self.records.size
        if batch.record_count * <int64_t>MIN_RECORD_BYTES > size:
            raise self._corrupt(f"it claims {batch.record_count} records in {size} bytes")
        self.cursor = data
        self.records_end = data + size
        self.records_left = batch.record_count
        self.previous_offset_delta = -1
        self.is_cut = False
        return 0

    cdef int _close_batch(self) except -1:
        """Move the position past the batch, but not past the end of the range."""
        cdef int64_t after = self.batch.base_offset + self.batch.last_offset_delta + 1
        self.position = max(self.position, min(after, self.stopping_offset))
        self.cursor = self.records_end = NULL
        if self.records is not None:
            self.records = None
            self.decompressor.release()
        return 0

    # Records

    cdef bint _decode_open_batch(self) except -1:
        """Decode up to the end of the batch (True) or until the columns are full (False)."""
        cdef Outcome outcome
        self._reserve_for_batch()
        while True:
            with nogil:
                outcome = self._decode_records()
            if outcome == NEEDS_ROOM:
                self._reserve_for_record()
            elif outcome == COLUMNS_FULL:
                return False
            elif outcome == BATCH_DONE:
                self._check_end()
                return True
            else:
                raise self._bad_record(outcome)

    cdef Outcome _decode_records(self) noexcept nogil:
        """Run through the records at the cursor. On any outcome the cursor stands before the record it is about."""
        cdef Record record
        cdef int64_t timestamp_delta = 0
        cdef int32_t offset_delta = 0
        cdef const uint8_t* next_record
        cdef Outcome outcome
        while self.records_left > 0:
            next_record = read_record(self.cursor, self.records_end, &timestamp_delta, &offset_delta, &record)
            if next_record == NULL:
                return BAD_RECORD
            if offset_delta <= self.previous_offset_delta or offset_delta > self.batch.last_offset_delta:
                return BAD_OFFSET
            record.offset = self.batch.base_offset + offset_delta
            if record.offset >= self.stopping_offset:
                self.is_cut = True
                return BATCH_DONE
            if record.offset >= self.position:
                if not self._read_timestamp(timestamp_delta, &record):
                    return BAD_TIMESTAMP
                outcome = self._append(&record)
                if outcome != BATCH_DONE:
                    return outcome
                self.position = record.offset + 1
            self.cursor = next_record
            self.previous_offset_delta = offset_delta
            self.records_left -= 1
        return BATCH_DONE

    cdef bint _read_timestamp(self, int64_t delta, Record* record) noexcept nogil:
        """Set the record's timestamp; False where it does not fit into Arrow's microseconds."""
        cdef int64_t base = self.batch.base_timestamp_ms
        if not self.has_timestamp:
            return True
        if self.batch.timestamp_type == 1:
            record.timestamp_ms = self.batch.max_timestamp_ms
        elif (delta > 0 and base > INT64_MAX - delta) or (delta < 0 and base < -INT64_MAX - delta):
            return False
        else:
            record.timestamp_ms = base + delta
        return -MAX_TIMESTAMP_MS <= record.timestamp_ms <= MAX_TIMESTAMP_MS

    cdef Outcome _append(self, Record* record) noexcept nogil:
        """Write a row. BATCH_DONE means: done; otherwise nothing was written."""
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
        self._append_numbers(row, record)
        self.byte_count += size
        self.row_count = row + 1
        return BATCH_DONE

    cdef inline bint _has_room(self, Record* record) noexcept nogil:
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

    cdef inline void _append_numbers(self, int64_t row, Record* record) noexcept nogil:
        if self.has_offset:
            (<int64_t*>self.offset.values.data)[row] = record.offset
        if self.has_timestamp:
            (<int64_t*>self.timestamp.values.data)[row] = record.timestamp_ms * MICROSECONDS
        if self.has_timestamp_type:
            (<int32_t*>self.timestamp_type.values.data)[row] = self.batch.timestamp_type
        if self.has_leader_epoch:
            (<int32_t*>self.leader_epoch.values.data)[row] = self.batch.leader_epoch
            if self.batch.leader_epoch < 0:
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

    # Old formats

    def _legacy_rows(self, ByteView view, int64_t start):
        """Return the records of a magic 0 or 1 entry: (offset, timestamp_ms, timestamp_type, key, value)."""
        # Imported where it is met: it loads kafka-python's record classes, which no one else here needs.
        from penstock.codec.legacy import BadLegacyEntryError, read_legacy_entry

        if self.batch.base_offset < self.position:
            return []
        entry = view.source[start : start + self.batch.size]
        try:
            return read_legacy_entry(entry, self.decompressor, check_crcs=self.check_crcs)
        except (BadLegacyEntryError, BadCompressionError) as error:
            raise self._corrupt(str(error)) from error

    cdef bint _append_legacy(self, tuple row) except -1:
        """Append a record of an old format; False where the columns have to be taken first."""
        cdef Record record
        cdef Outcome outcome
        cdef const uint8_t* nothing = b""
        cdef bytes key = row[3]
        cdef bytes value = row[4]
        record.offset = row[0]
        record.timestamp_ms = row[1]
        if not self.position <= record.offset < self.stopping_offset:
            return True
        if self.has_timestamp and not -MAX_TIMESTAMP_MS <= record.timestamp_ms <= MAX_TIMESTAMP_MS:
            raise self._bad_record(BAD_TIMESTAMP)
        self.batch.timestamp_type = row[2]
        self.batch.leader_epoch = -1
        record.key = nothing if key is None else <const uint8_t*><const char*>key
        record.key_size = -1 if key is None else len(key)
        record.value = nothing if value is None else <const uint8_t*><const char*>value
        record.value_size = -1 if value is None else len(value)
        record.headers = record.end = nothing
        record.header_count = 0
        outcome = self._append(&record)
        while outcome == NEEDS_ROOM:
            if self.row_count >= self.row_capacity:
                self._reserve_rows(min(self.max_rows, max(64, 2 * self.row_capacity)), 0)
            self._reserve_bytes(&record)
            outcome = self._append(&record)
        if outcome == COLUMNS_FULL:
            return False
        self.position = record.offset + 1
        return True

    # Errors

    cdef int _check_end(self) except -1:
        if not self.is_cut and self.cursor != self.records_end:
            raise self._corrupt(
                f"{self.records_end - self.cursor} bytes are left after the {self.batch.record_count} records "
                "that it claims"
            )
        return 0

    cdef _bad_record(self, Outcome outcome):
        if outcome == BAD_TIMESTAMP:
            return CodecError(
                f"A record in the batch at offset {self.batch.base_offset} of {self.topic}-{self.partition} has "
                "a timestamp that does not fit into microseconds (after the year 294246, or a producer wrote "
                "another unit than milliseconds). Nothing of the batch was lost; read without the column "
                "timestamp, or start behind it.",
                topic=self.topic, partition=self.partition, base_offset=self.batch.base_offset,
            )
        nth = self.batch.record_count - self.records_left
        if outcome == BAD_OFFSET:
            return self._corrupt(f"the offset of its record {nth} is not between its neighbours'")
        return self._corrupt(f"its record {nth} of {self.batch.record_count} is malformed or missing")

    cdef _corrupt(self, str reason):
        return CorruptBatchError(
            f"The record batch at offset {self.batch.base_offset} of {self.topic}-{self.partition} is corrupt: "
            f"{reason}. No record of it can be trusted, and none behind it was read. Check the broker's log "
            "segment and the network; to go on without the batch, start behind it.",
            topic=self.topic, partition=self.partition, base_offset=self.batch.base_offset,
        )


def crc32c(data, *, bint tables=False):
    """Return the CRC-32C of bytes; from tables on request, for the tests."""
    view = ByteView(data)
    cdef ByteView bytes_view = view
    if tables:
        return penstock_crc32c_tables(bytes_view.data, bytes_view.size)
    return penstock_crc32c(bytes_view.data, bytes_view.size)
