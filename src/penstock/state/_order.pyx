"""Sort numbers: the order of rows by their hashes, and by the numbers that stand for their columns.

Runs on executors. Invariant: equal numbers stay in their order. The radix sort moves each row once for each 11
bits in which the numbers differ, and compares no two numbers. The loop holds no GIL.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef enum:
    BITS = 11
    BUCKETS = 2048
    PASSES = 6

cdef struct Entry:
    uint64_t number
    int64_t index


def order_into(const uint64_t[::1] numbers not None, int64_t[::1] indices not None):
    """Write the indices of the numbers in ascending order into `indices`."""
    cdef int64_t count = numbers.shape[0]
    cdef Entry* entries
    cdef int64_t* counts
    if indices.shape[0] != count:
        raise ValueError("the numbers and the indices differ in length")
    if count == 0:
        return
    entries = <Entry*>malloc(2 * count * sizeof(Entry))
    counts = <int64_t*>malloc(PASSES * BUCKETS * sizeof(int64_t))
    try:
        if entries == NULL or counts == NULL:
            raise MemoryError
        with nogil:
            _order(&numbers[0], count, entries, entries + count, counts, &indices[0])
    finally:
        free(entries)
        free(counts)


cdef void _order(
    const uint64_t* numbers, int64_t count, Entry* here, Entry* there, int64_t* counts, int64_t* indices
) noexcept nogil:
    cdef uint64_t number, differing = 0
    cdef int64_t row
    cdef int each
    cdef Entry* other
    memset(counts, 0, PASSES * BUCKETS * sizeof(int64_t))
    for row in range(count):
        number = numbers[row]
        differing |= number ^ numbers[0]
        here[row].number = number
        here[row].index = row
        for each in range(PASSES):
            counts[each * BUCKETS + ((number >> (each * BITS)) & (BUCKETS - 1))] += 1
    for each in range(PASSES):
        if (differing >> (each * BITS)) & (BUCKETS - 1):
            _one_pass(here, there, count, counts + each * BUCKETS, each * BITS)
            other = here
            here = there
            there = other
    for row in range(count):
        indices[row] = here[row].index


cdef void _one_pass(const Entry* here, Entry* there, int64_t count, int64_t* counts, int shift) noexcept nogil:
    """Move the entries into the order of 11 bits. `counts` says how many entries have each value of them."""
    cdef int64_t row, found, before = 0
    cdef int64_t* next_index
    cdef int value
    for value in range(BUCKETS):
        found = counts[value]
        counts[value] = before
        before += found
    for row in range(count):
        next_index = &counts[(here[row].number >> shift) & (BUCKETS - 1)]
        there[next_index[0]] = here[row]
        next_index[0] += 1
