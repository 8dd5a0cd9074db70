# The header of a record batch. Only native/record_batch.h knows the positions of its fields.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef extern from "record_batch.h":
    enum:
        BATCH_CRC_FROM
        BATCH_HEADER_BYTES
        NEWEST_MAGIC
        COMPRESSION_MASK
        LOG_APPEND_TIME_FLAG
        TRANSACTIONAL_FLAG
        CONTROL_FLAG

    ctypedef struct BatchFields:
        int64_t base_offset
        int64_t size
        int64_t base_timestamp_ms
        int64_t max_timestamp_ms
        int64_t producer_id
        int32_t leader_epoch
        int32_t last_offset_delta
        int32_t base_sequence
        int32_t record_count
        uint32_t crc
        int16_t attributes
        int16_t producer_epoch
        int8_t magic

    ctypedef enum HeaderStatus:
        HEADER_WHOLE
        HEADER_CUT
        HEADER_BAD_OFFSET
        HEADER_BAD_MAGIC
        HEADER_BAD_LENGTH
        HEADER_BAD_DELTA

    HeaderStatus read_batch_header(const uint8_t* p, int64_t size, BatchFields* batch) noexcept nogil
    void write_batch_header(uint8_t* p, const BatchFields* batch) noexcept nogil
    void write_batch_crc(uint8_t* p, uint32_t crc) noexcept nogil


cdef inline bint is_bad(HeaderStatus status) noexcept nogil:
    """Return whether a header is invalid; then nothing from there on can be read."""
    return status != HEADER_WHOLE and status != HEADER_CUT


cdef inline str fault_of(HeaderStatus status, const BatchFields* batch):
    """Return the reason why a header is invalid, for `corrupt_batch`."""
    if status == HEADER_BAD_OFFSET:
        return "its base offset is out of range"
    if status == HEADER_BAD_MAGIC:
        return f"its format version (magic) is {batch.magic}, where 0 to {<int>NEWEST_MAGIC} are known"
    if status == HEADER_BAD_DELTA:
        return f"its last offset delta is {batch.last_offset_delta}"
    return f"its length is {batch.size} bytes, too few for a header"
