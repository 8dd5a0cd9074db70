"""Find the topic partition of each row.

Runs on executors. Invariant: pure; the loops hold no GIL and make no Python object per row.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset

import pyarrow as pa

from penstock.codec._record_columns cimport Binary, address_of, get_bytes, int32_values, view_of
from penstock.codec.arrow_input import binary_input
from penstock.errors import RowError

cdef extern from "wire.h":
    int32_t murmur2(const uint8_t* data, int32_t size) noexcept nogil


def murmur2_partitions(keys, int32_t partition_count):
    if partition_count < 1:
        raise ValueError(f"a topic has at least one partition, not {partition_count}")
    cdef int64_t row_count = len(keys)
    # Not `pa.record_batch`, which loads pandas to ask whether it got a data frame.
    array = binary_input(pa.RecordBatch.from_arrays([keys], ["key"]), "key")
    cdef Binary column = view_of(array)
    buffer = pa.allocate_buffer(row_count * sizeof(int32_t))
    cdef int32_t* partitions = <int32_t*>address_of(buffer)
    cdef const uint8_t* data = NULL
    cdef int64_t size
    cdef int64_t row
    cdef bint is_too_large = False
    with nogil:
        for row in range(row_count):
            size = get_bytes(&column, row, &data)
            is_too_large = is_too_large or size > INT32_MAX
            if size < 0 or is_too_large:
                partitions[row] = -1
            else:
                partitions[row] = (murmur2(data, <int32_t>size) & 0x7FFFFFFF) % partition_count
    if is_too_large:
        raise RowError("A key is larger than 2 GiB, the limit of a Kafka record. No row of its batch was written.")
    return pa.Array.from_buffers(pa.int32(), row_count, [None, buffer], 0)


def group_rows(group_of_row, int32_t group_count):
    cdef int64_t row_count = len(group_of_row)
    if row_count > INT32_MAX or group_count < 0:
        raise ValueError(f"cannot group {row_count} rows into {group_count} groups")
    cdef const int32_t* groups = int32_values(group_of_row) if row_count else NULL
    rows_buffer = pa.allocate_buffer(row_count * sizeof(int32_t))
    # Where the next row of each group goes; counted up from the group's start while rows are written.
    next_buffer = pa.allocate_buffer((group_count + 1) * sizeof(int64_t))
    cdef int32_t* rows = <int32_t*>address_of(rows_buffer)
    cdef int64_t* next_row = <int64_t*>address_of(next_buffer)
    cdef int64_t i
    cdef int64_t bad = -1
    memset(next_row, 0, (group_count + 1) * sizeof(int64_t))
    with nogil:
        for i in range(row_count):
            if not 0 <= groups[i] < group_count:
                bad = i
                break
            next_row[groups[i] + 1] += 1
        if bad < 0:
            for i in range(group_count):
                next_row[i + 1] += next_row[i]
            for i in range(row_count):
                rows[next_row[groups[i]]] = <int32_t>i
                next_row[groups[i]] += 1
    if bad >= 0:
        raise ValueError(f"row {bad} names group {groups[bad]}, which is not in [0, {group_count})")
    ends = [0, *[next_row[i] for i in range(group_count)]]
    return [
        pa.Array.from_buffers(pa.int32(), ends[i + 1] - ends[i], [None, rows_buffer], 0, ends[i])
        for i in range(group_count)
    ]
