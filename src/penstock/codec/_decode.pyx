"""Decodes record batches (magic 2) into KafkaRecords.

Runs on executors, once a split. Invariants: every length and offset from the wire is checked before it is used;
each record in `[starting_offset, stopping_offset)` is yielded once and in order, whatever batches overlap;
`next_offset` never passes a record that was not put into a column. The loops hold no GIL and make no Python
object per record.

How it goes: `decode` walks the batches of a response. A batch's header says whether it counts at all
(`_Batch`, `aborted.py`); then its records are decompressed and `_decode_records` runs through them until the
batch ends or the rows (`_rows.pyx`) are full, in which case a RecordBatch is yielded and it goes on where it
stopped. `_record.pxd` reads one record.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t

import pyarrow as pa

from penstock.codec._batch cimport (
    BATCH_CRC_FROM,
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_WHOLE,
    LOG_APPEND_TIME_FLAG,
    NEWEST_MAGIC,
    TRANSACTIONAL_FLAG,
    BatchFields,
    HeaderStatus,
    fault_of,
    is_bad,
    read_batch_header,
)
from penstock.codec._record cimport Record, read_record
from penstock.codec._rows cimport APPENDED, COLUMNS_FULL, NEEDS_ROOM, Appended, KafkaRows
from penstock.codec.aborted import AbortedTransactions, is_abort_marker
from penstock.codec.compression import Decompressor
from penstock.codec.compression_bounds import BadCompressionError
from penstock.codec.corrupt import corrupt_batch
from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import CodecError

cdef extern from "crc32c.h":
    void penstock_crc32c_init() noexcept nogil
    uint32_t penstock_crc32c(const uint8_t* data, size_t size) noexcept nogil
    uint32_t penstock_crc32c_tables(const uint8_t* data, size_t size) noexcept nogil

penstock_crc32c_init()

cdef enum:
    MIN_RECORD_BYTES = 7
    # The most rows for which the repeated topic name cannot pass Arrow's 2 GiB.
    ROWS_LIMIT = 8_000_000

cdef int64_t MAX_TIMESTAMP_MS = INT64_MAX // 1000
cdef int64_t INT32_LIMIT = 0x7FFFFFFF

# How a run through records ends.
cdef enum Outcome:
    BATCH_DONE
    ROWS_FULL
    ROWS_NEED_ROOM
    BAD_RECORD
    BAD_OFFSET
    BAD_TIMESTAMP


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


@cython.final
cdef class RecordBatchDecoder:
    cdef readonly str topic
    cdef readonly int partition
    cdef int64_t position
    cdef int64_t stopping_offset
    cdef bint read_committed
    cdef bint check_crcs
    cdef KafkaRows rows
    cdef object decompressor
    # The batch being read.
    cdef BatchFields batch
    cdef int32_t timestamp_type
    cdef ByteView records
    cdef const uint8_t* cursor
    cdef const uint8_t* records_end
    cdef int32_t records_left
    cdef int32_t previous_offset_delta
    cdef bint is_cut
    # The record that there was no room for.
    cdef Record refused

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
        bint raw_headers=False,
        int64_t max_rows=32_768,
        int64_t max_bytes=8 << 20,
        int64_t max_decompressed_bytes=1 << 30,
        int64_t expected_rows=0,
    ):
        if not (0 < max_rows <= ROWS_LIMIT and 0 < max_bytes <= INT32_LIMIT and max_decompressed_bytes > 0):
            raise ValueError(
                f"max_rows {max_rows} must be in [1, {ROWS_LIMIT}], max_bytes {max_bytes} in [1, 2 GiB), "
                f"max_decompressed_bytes {max_decompressed_bytes} positive"
            )
        unknown = set(columns) - set(KAFKA_RECORDS.names)
        if unknown:
            raise ValueError(f"expected columns of KafkaRecords, got {sorted(unknown)}")
        self.topic = topic
        self.partition = partition
        self.position = starting_offset
        self.stopping_offset = stopping_offset
        self.read_committed = read_committed
        self.check_crcs = check_crcs
        self.rows = KafkaRows(topic, partition, set(columns), max_rows, max_bytes, raw_headers)
        self.rows.taken_rows = expected_rows
        self.decompressor = Decompressor(max_decompressed_bytes)

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
            if self.batch.magic < NEWEST_MAGIC:
                for row in self._legacy_rows(bytes_view, start):
                    while not self._append_legacy(row):
                        yield self.rows.take()
            elif self._open_batch(bytes_view, start, transactions):
                while not self._decode_open_batch():
                    yield self.rows.take()
            self._close_batch()
            start += self.batch.size
            if self.rows.row_count >= self.rows.max_rows:
                yield self.rows.take()

    def flush(self):
        return self.rows.take() if self.rows.row_count else None

    # Batches

    cdef bint _read_header(self, const uint8_t* p, int64_t size) except -1:
        """Read the header at `p` into `self.batch`; False where no whole batch is left."""
        cdef BatchFields* batch = &self.batch
        cdef HeaderStatus status = read_batch_header(p, size, batch)
        if is_bad(status):
            raise self._corrupt(fault_of(status, batch))
        if status != HEADER_WHOLE:
            return False
        if batch.magic == NEWEST_MAGIC:
            self._check_header(p)
            self.timestamp_type = 1 if batch.attributes & LOG_APPEND_TIME_FLAG else 0
        return True

    cdef int _check_header(self, const uint8_t* p) except -1:
        cdef BatchFields* batch = &self.batch
        cdef uint32_t actual
        if self.check_crcs:
            with nogil:
                actual = penstock_crc32c(p + BATCH_CRC_FROM, batch.size - BATCH_CRC_FROM)
            if batch.crc != actual:
                raise self._corrupt(f"its CRC-32C is {actual:#010x} where its header says {batch.crc:#010x}")
        if not 0 <= batch.record_count <= <int64_t>batch.last_offset_delta + 1:
            raise self._corrupt(
                f"it claims {batch.record_count} records for {<int64_t>batch.last_offset_delta + 1} offsets"
            )
        return 0

    cdef bint _open_batch(self, ByteView view, int64_t start, transactions) except -1:
        """Prepare the records of a batch; return False if it has none for this reader."""
        cdef BatchFields* batch = &self.batch
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
        """Follow the transactions as Java's consumer does; return whether this batch's data was aborted."""
        cdef BatchFields* batch = &self.batch
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
        """Check a header without records; compaction leaves one in place of a producer's last batch."""
        if not self.batch.attributes & COMPRESSION_MASK and self.batch.size != BATCH_HEADER_BYTES:
            raise self._corrupt(
                f"it claims no records but holds {self.batch.size - BATCH_HEADER_BYTES} bytes of them"
            )
        return False

    cdef int _load_records(self, ByteView view, int64_t start) except -1:
        """Point the cursor to the records of the batch, decompressed if need be."""
        cdef BatchFields* batch = &self.batch
        cdef int compression = batch.attributes & COMPRESSION_MASK
        cdef int64_t size = batch.size - BATCH_HEADER_BYTES
        cdef const uint8_t* data = view.data + start + BATCH_HEADER_BYTES
        if compression:
            source = view.source[start + BATCH_HEADER_BYTES : start + batch.size]
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

    # Records of the open batch

    cdef bint _decode_open_batch(self) except -1:
        """Decode up to the end of the batch (True) or until the columns are full (False)."""
        cdef Outcome outcome
        self.rows.reserve_like(
            self.records_left, self.records_end - self.cursor, self.stopping_offset - self.position
        )
        while True:
            with nogil:
                outcome = self._decode_records()
            if outcome == ROWS_NEED_ROOM:
                self.rows.make_room(&self.refused)
            elif outcome == ROWS_FULL:
                return False
            elif outcome == BATCH_DONE:
                self._check_end()
                return True
            else:
                raise self._bad_record(outcome)

    cdef Outcome _decode_records(self) noexcept nogil:
        """Read the records at the cursor, which stays before the record that the outcome is about."""
        cdef Record record
        cdef int64_t timestamp_delta = 0
        cdef int32_t offset_delta = 0
        cdef const uint8_t* next_record
        cdef Appended appended
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
                appended = self.rows.append(&record, self.timestamp_type, self.batch.leader_epoch)
                if appended != APPENDED:
                    self.refused = record
                    return ROWS_FULL if appended == COLUMNS_FULL else ROWS_NEED_ROOM
                self.position = record.offset + 1
            self.cursor = next_record
            self.previous_offset_delta = offset_delta
            self.records_left -= 1
        return BATCH_DONE

    cdef bint _read_timestamp(self, int64_t delta, Record* record) noexcept nogil:
        """Set the record's timestamp; False where it does not fit into Arrow's microseconds."""
        cdef int64_t base = self.batch.base_timestamp_ms
        if not self.rows.has_timestamp:
            return True
        if self.timestamp_type == 1:
            record.timestamp_ms = self.batch.max_timestamp_ms
        elif (delta > 0 and base > INT64_MAX - delta) or (delta < 0 and base < -INT64_MAX - delta):
            return False
        else:
            record.timestamp_ms = base + delta
        return -MAX_TIMESTAMP_MS <= record.timestamp_ms <= MAX_TIMESTAMP_MS

    # Old formats

    def _legacy_rows(self, ByteView view, int64_t start):
        """Return the records of a magic 0 or 1 entry: (offset, timestamp_ms, timestamp_type, key, value)."""
        # Imported only for such data, because it loads kafka-python's record classes.
        from penstock.codec.legacy import BadLegacyEntryError, read_legacy_entry

        if self.batch.base_offset < self.position:
            return []
        entry = view.source[start : start + self.batch.size]
        try:
            return read_legacy_entry(entry, self.decompressor, check_crcs=self.check_crcs)
        except (BadLegacyEntryError, BadCompressionError) as error:
            raise self._corrupt(str(error)) from error

    cdef bint _append_legacy(self, tuple row) except -1:
        """Append a record of an old format; return False if the columns have to be taken first."""
        cdef Record record
        cdef Appended appended
        cdef const uint8_t* nothing = b""
        cdef bytes key = row[3]
        cdef bytes value = row[4]
        record.offset = row[0]
        record.timestamp_ms = row[1]
        if not self.position <= record.offset < self.stopping_offset:
            return True
        if self.rows.has_timestamp and not -MAX_TIMESTAMP_MS <= record.timestamp_ms <= MAX_TIMESTAMP_MS:
            raise self._bad_record(BAD_TIMESTAMP)
        record.key = nothing if key is None else <const uint8_t*><const char*>key
        record.key_size = -1 if key is None else len(key)
        record.value = nothing if value is None else <const uint8_t*><const char*>value
        record.value_size = -1 if value is None else len(value)
        record.headers = record.end = nothing
        record.header_count = 0
        appended = self.rows.append(&record, row[2], -1)
        while appended == NEEDS_ROOM:
            self.rows.make_room(&record)
            appended = self.rows.append(&record, row[2], -1)
        if appended == COLUMNS_FULL:
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
                "a timestamp that does not fit into microseconds (after the year 294246, or its producer did not "
                "write milliseconds). No record of the batch was lost. Read without the column timestamp, or "
                "start after the batch.",
                topic=self.topic, partition=self.partition, base_offset=self.batch.base_offset,
            )
        nth = self.batch.record_count - self.records_left
        if outcome == BAD_OFFSET:
            return self._corrupt(f"the offset of its record {nth} is not between its neighbours'")
        return self._corrupt(f"its record {nth} of {self.batch.record_count} is malformed or missing")

    cdef _corrupt(self, str reason):
        return corrupt_batch(self.topic, self.partition, self.batch.base_offset, reason)


def crc32c(data, *, bint tables=False):
    """Return the CRC-32C of bytes; from tables on request, for the tests."""
    view = ByteView(data)
    cdef ByteView bytes_view = view
    if tables:
        return penstock_crc32c_tables(bytes_view.data, bytes_view.size)
    return penstock_crc32c(bytes_view.data, bytes_view.size)
