"""Sums of the hashes of rows: 128 bits about the rows of a transaction, independent of their order.

Runs on executors. Invariant: follows definition 1 in `penstock.sink.exactly_once.digest` bit for bit, because
decision logs hold what it returned; the loop holds no GIL and makes no Python object per row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

import pyarrow as pa

from penstock.codec._record_columns cimport Binary, Bits, RecordColumns, address_of, get_bytes, is_valid, view_of
from penstock.codec.arrow_input import binary_input

cdef extern from "digest.h":
    const uint64_t DIGEST_G
    const uint64_t DIGEST_H
    uint64_t digest_mix(uint64_t x) noexcept nogil
    uint64_t digest_null(uint64_t seed) noexcept nogil
    uint64_t digest_bytes(const uint8_t* p, int64_t size, uint64_t seed) noexcept nogil
    uint64_t digest_integer(int64_t number, uint64_t seed) noexcept nogil

cdef enum Seed:
    TOPIC = 1
    KEY
    VALUE
    HEADER_NAME
    HEADER_VALUE
    HEADERS
    TIMESTAMP
    PARTITION


def digest_records(RecordColumns columns not None, topics, partitions):
    cdef int64_t row
    cdef uint64_t record
    cdef uint64_t first_sum = 0
    cdef uint64_t second_sum = 0
    cdef const uint8_t* data = NULL
    cdef int64_t size
    cdef uint64_t of_topic = 0
    cdef Binary topic_column
    cdef const int32_t* partition_values = NULL
    cdef Bits partition_validity
    memset(&topic_column, 0, sizeof(topic_column))
    memset(&partition_validity, 0, sizeof(partition_validity))
    cdef bint is_one_topic = isinstance(topics, bytes)
    if is_one_topic:
        of_topic = digest_bytes(topics, len(topics), TOPIC)
    elif topics is not None:
        topics = binary_input(pa.record_batch([topics], names=["topic"]), "topic")
        _check_length(columns, topics)
        topic_column = view_of(topics)
    if partitions is not None:
        if partitions.type != pa.int32():
            raise ValueError(f"expected int32, got {partitions.type}")
        _check_length(columns, partitions)
        partition_values = <const int32_t*>address_of(partitions.buffers()[1]) + <int64_t>partitions.offset
        partition_validity.bits = <const uint8_t*>address_of(
            partitions.buffers()[0] if partitions.null_count else None
        )
        partition_validity.offset = partitions.offset
    with nogil:
        for row in range(columns.row_count):
            if is_one_topic:
                record = of_topic
            else:
                size = get_bytes(&topic_column, row, &data)
                record = digest_bytes(data, size, TOPIC)
            size = get_bytes(&columns.key, row, &data)
            record = digest_mix(record) + digest_bytes(data, size, KEY)
            size = get_bytes(&columns.value, row, &data)
            record = digest_mix(record) + digest_bytes(data, size, VALUE)
            record = digest_mix(record) + _headers(columns, row)
            record = digest_mix(record) + _timestamp(columns, row)
            if partition_values == NULL or not is_valid(&partition_validity, row):
                record = digest_mix(record) + digest_null(PARTITION)
            else:
                record = digest_mix(record) + digest_integer(partition_values[row], PARTITION)
            record = digest_mix(record)
            first_sum += record
            second_sum += digest_mix(record ^ DIGEST_H)
    return first_sum, second_sum


cdef uint64_t _timestamp(RecordColumns columns, int64_t row) noexcept nogil:
    if columns.timestamps == NULL or not is_valid(&columns.timestamp_validity, row):
        return digest_null(TIMESTAMP)
    return digest_integer(columns.timestamp_ms(row, 0), TIMESTAMP)


cdef uint64_t _headers(RecordColumns columns, int64_t row) noexcept nogil:
    cdef int64_t first
    cdef int64_t last
    cdef int64_t size
    cdef uint64_t name
    cdef uint64_t value
    cdef uint64_t sum
    cdef uint64_t position = DIGEST_G
    cdef const uint8_t* data = NULL
    columns.header_range(row, &first, &last)
    sum = digest_mix(<uint64_t>HEADERS + <uint64_t>(last - first))
    while first < last:
        size = get_bytes(&columns.header_key, first, &data)
        name = digest_bytes(data, size, HEADER_NAME)
        size = get_bytes(&columns.header_value, first, &data)
        value = digest_bytes(data, size, HEADER_VALUE)
        sum += digest_mix(digest_mix(name) + value + position)
        position += DIGEST_G
        first += 1
    return digest_mix(sum)


cdef int _check_length(RecordColumns columns, array) except -1:
    if array is not None and len(array) != columns.row_count:
        raise ValueError(f"{len(array)} rows beside {columns.row_count}")
    return 0
