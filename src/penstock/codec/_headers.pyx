"""Reads the headers of record batches without their records: where a response ends, and who wrote what.

Runs on executors (before the decoder gets the same bytes, so that the next Fetch can travel meanwhile) and on
the driver (markers of transactions). Invariants: reads nothing beyond the given bytes, whatever they claim; a
partial batch at the end is ignored; after an invalid header nothing is read. Checksums are not checked here: the
decoder checks them before it returns records.

`native/record_batch.h` reads one header, here and in the decoder.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from collections import namedtuple

from penstock.codec._batch cimport (
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_WHOLE,
    BatchFields,
    HeaderStatus,
    fault_of,
    is_bad,
    read_batch_header,
)
from penstock.codec._record cimport Record, read_record
from penstock.codec.corrupt import corrupt_batch

cdef extern from "wire.h":
    int16_t load_int16(const uint8_t* p) noexcept nogil

cdef enum:
    # A control record's key: version int16, type int16.
    CONTROL_TYPE_AT = 2
    CONTROL_KEY_BYTES = 4
    NO_CONTROL_TYPE = -1

ScannedBatches = namedtuple("ScannedBatches", ("next_offset", "leader_epoch", "whole_bytes"))


def scan_batches(data, str topic, int partition):
    cdef Py_buffer view
    cdef BatchFields batch
    cdef HeaderStatus status
    cdef int64_t position = 0
    cdef int64_t next_offset = -1
    cdef int32_t leader_epoch = -1
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            status = read_batch_header(<const uint8_t*>view.buf, view.len, &batch)
            while status == HEADER_WHOLE:
                next_offset = batch.base_offset + batch.last_offset_delta + 1
                leader_epoch = batch.leader_epoch
                position += batch.size
                status = read_batch_header(<const uint8_t*>view.buf + position, view.len - position, &batch)
    finally:
        PyBuffer_Release(&view)
    if is_bad(status):
        raise corrupt_batch(topic, partition, batch.base_offset, fault_of(status, &batch))
    return ScannedBatches(next_offset if position else None, leader_epoch, position)


@cython.final
@cython.freelist(8)
cdef class BatchHeader:
    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t producer_id
    cdef readonly int32_t base_sequence
    cdef readonly int16_t producer_epoch
    cdef readonly bint is_control
    cdef int16_t _control_type

    @property
    def control_type(self):
        return None if self._control_type == NO_CONTROL_TYPE else self._control_type


@cython.final
cdef class BatchHeaders:
    cdef Py_buffer view
    cdef bint is_held
    cdef int64_t position
    cdef str topic
    cdef int partition

    def __cinit__(self, data, str topic, int partition):
        self.is_held = False
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.is_held = True
        self.position = 0
        self.topic = topic
        self.partition = partition

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)

    def __iter__(self):
        return self

    def __next__(self):
        cdef BatchFields batch
        cdef const uint8_t* p = <const uint8_t*>self.view.buf + self.position
        cdef HeaderStatus status = read_batch_header(p, self.view.len - self.position, &batch)
        if is_bad(status):
            raise corrupt_batch(self.topic, self.partition, batch.base_offset, fault_of(status, &batch))
        if status != HEADER_WHOLE:
            raise StopIteration
        self.position += batch.size
        cdef BatchHeader header = BatchHeader.__new__(BatchHeader)
        header.base_offset = batch.base_offset
        header.last_offset = batch.base_offset + batch.last_offset_delta
        header.producer_id = batch.producer_id
        header.producer_epoch = batch.producer_epoch
        header.base_sequence = batch.base_sequence
        header.is_control = (batch.attributes & CONTROL_FLAG) != 0
        header._control_type = control_type_of(p, &batch) if header.is_control else NO_CONTROL_TYPE
        return header


cdef int16_t control_type_of(const uint8_t* p, const BatchFields* batch) noexcept nogil:
    """Return the type in a control batch's only record; NO_CONTROL_TYPE if it is not well-formed."""
    cdef Record record
    cdef int64_t timestamp_delta = 0
    cdef int32_t offset_delta = 0
    if batch.attributes & COMPRESSION_MASK or batch.record_count < 1:
        return NO_CONTROL_TYPE
    if read_record(p + BATCH_HEADER_BYTES, p + batch.size, &timestamp_delta, &offset_delta, &record) == NULL:
        return NO_CONTROL_TYPE
    return load_int16(record.key + CONTROL_TYPE_AT) if record.key_size >= CONTROL_KEY_BYTES else NO_CONTROL_TYPE
