# One record of a record batch (magic 2), as it lies on the wire. All in C: it runs once a record.
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "wire.h":
    const uint8_t* read_varint(const uint8_t* p, const uint8_t* end, int32_t* value) noexcept nogil
    const uint8_t* read_varlong(const uint8_t* p, const uint8_t* end, int64_t* value) noexcept nogil
    const uint8_t* read_sized_bytes(
        const uint8_t* p, const uint8_t* end, const uint8_t** data, int32_t* size
    ) noexcept nogil


# Sizes of -1 are nulls. `headers` points to `header_count` well-formed headers, which end at `end`.
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
