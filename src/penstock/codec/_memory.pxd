# Large pieces of memory that are used again. See _memory.pyx.
from libc.stdint cimport int64_t, uint8_t


cdef class Block:
    cdef uint8_t* data
    cdef readonly int64_t size
    cdef int64_t capacity
