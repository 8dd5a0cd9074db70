"""Large pieces of memory that are used again: received frames, and columns that records are decoded into.

Runs wherever a connection is open or records are decoded. Invariants: a block belongs to one owner at a time, and
is free again only when the last reference to it (a memoryview, an Arrow buffer) is gone; not more than
`KEPT_BYTES` are kept free in a process. All of it happens under the GIL.

Memory fresh from the system costs a page fault, and the kernel a page of zeros, for every 4 KiB: a sixth of what a
reading worker did. Arrow's and C's own allocators give large pieces back as soon as they are free.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from posix.stdlib cimport posix_memalign

cdef extern from *:
    """
    #if defined(__has_feature)
    #if __has_feature(address_sanitizer)
    #define __SANITIZE_ADDRESS__ 1
    #endif
    #endif
    #ifdef __SANITIZE_ADDRESS__
    enum { USES_AGAIN = 0 };  /* each block as large as asked for, so that the sanitizer sees where it ends */
    #else
    enum { USES_AGAIN = 1 };
    #endif
    """
    const bint USES_AGAIN

cdef enum:
    ALIGNMENT = 64  # what Arrow asks for
    MAX_KEPT = 64

cdef int64_t SMALLEST_KEPT_BYTES = 64 << 10
cdef int64_t KEPT_BYTES = 32 << 20


cdef struct Kept:
    uint8_t* data
    int64_t capacity


cdef Kept kept[MAX_KEPT]  # the oldest first
cdef int kept_count = 0
cdef int64_t kept_total_bytes = 0


cdef class Block:
    """Memory of `size` bytes, writable through the buffer protocol; what stands in it at first is undefined."""

    def __cinit__(self, int64_t size):
        if size < 0:
            raise ValueError(f"a block has at least 0 bytes, not {size}")
        self.data = NULL
        self.size = size
        self.capacity = _rounded(size)
        cdef int at = _find_kept(self.capacity)
        if at >= 0:
            self.data = kept[at].data
            self.capacity = kept[at].capacity
            _forget_kept(at)
        elif posix_memalign(<void**>&self.data, ALIGNMENT, max(self.capacity, 1)) != 0:
            self.data = NULL
            raise MemoryError(f"no memory for {size} bytes")

    def __dealloc__(self):
        if self.data == NULL:
            return
        if USES_AGAIN and SMALLEST_KEPT_BYTES <= self.capacity <= KEPT_BYTES:
            _keep(self.data, self.capacity)
        else:
            free(self.data)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


def kept_bytes():
    return kept_total_bytes


cdef int64_t _rounded(int64_t size) noexcept:
    """Up to an eighth more, so that blocks of about a size stand in for each other."""
    if not USES_AGAIN or size < SMALLEST_KEPT_BYTES:
        return size
    cdef int64_t step = SMALLEST_KEPT_BYTES >> 3
    while step << 4 <= size:
        step <<= 1
    return (size + step - 1) // step * step


cdef int _find_kept(int64_t capacity) noexcept:
    """The youngest that is large enough, and not too large; -1: none. Its pages are the likeliest in a cache."""
    cdef int at
    if capacity >= SMALLEST_KEPT_BYTES:
        for at in range(kept_count - 1, -1, -1):
            if capacity <= kept[at].capacity <= 2 * capacity:
                return at
    return -1


cdef void _forget_kept(int at) noexcept:
    global kept_count, kept_total_bytes
    kept_total_bytes -= kept[at].capacity
    kept_count -= 1
    for at in range(at, kept_count):
        kept[at] = kept[at + 1]


cdef void _keep(uint8_t* data, int64_t capacity) noexcept:
    """Keep it, and give back the oldest that there is no room for beside it."""
    global kept_count, kept_total_bytes
    while kept_count == MAX_KEPT or kept_total_bytes + capacity > KEPT_BYTES:
        free(kept[0].data)
        _forget_kept(0)
    kept[kept_count].data = data
    kept[kept_count].capacity = capacity
    kept_count += 1
    kept_total_bytes += capacity
