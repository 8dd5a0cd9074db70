"""Large pieces of memory that are used again: received frames, and columns that records are decoded into.

Runs wherever a connection is open or records are decoded. Invariants: a block belongs to one owner at a time, and
is free again only when the last reference to it (a memoryview, an Arrow buffer) is gone; not more than
`KEPT_BYTES` are kept free in a process. All of it happens under the GIL.

New memory from the system costs a page fault and a page of zeros for every 4 KiB: a sixth of a reading worker's
time. Arrow's own allocator gives large pieces back as soon as they are free.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from posix.mman cimport MAP_ANON, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap
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
    MAX_KEPT = 256

cdef int64_t SMALLEST_KEPT_BYTES = 64 << 10
cdef int64_t KEPT_BYTES = 32 << 20
cdef int64_t MAX_BYTES = 1 << 46


cdef struct Kept:
    uint8_t* data
    int64_t capacity


cdef Kept kept[MAX_KEPT]  # the oldest first
cdef int kept_count = 0
cdef int64_t kept_total_bytes = 0
cdef int64_t live_total_bytes = 0


cdef class Block:
    """Memory of `size` bytes, writable through the buffer protocol; its first content is undefined."""

    def __cinit__(self, int64_t size):
        global live_total_bytes
        if size < 0:
            raise ValueError(f"a block has at least 0 bytes, not {size}")
        if size >= MAX_BYTES:  # rounded up it would be more
            raise MemoryError(f"no memory for {size} bytes")
        self.data = NULL
        self.size = size
        self.capacity = _rounded(size)
        cdef int at = _find_kept(self.capacity)
        if at >= 0:
            self.data = kept[at].data
            self.capacity = kept[at].capacity
            _forget_kept(at)
        else:
            self.data = _allocated(self.capacity)
        if self.data == NULL:
            raise MemoryError(f"no memory for {size} bytes")
        live_total_bytes += self.capacity

    def __dealloc__(self):
        global live_total_bytes
        if self.data == NULL:
            return
        live_total_bytes -= self.capacity
        if _is_large(self.capacity) and self.capacity <= KEPT_BYTES:
            _keep(self.data, self.capacity)
        else:
            _give_back(self.data, self.capacity)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


def kept_bytes():
    return kept_total_bytes


def live_bytes():
    return live_total_bytes


cdef bint _is_large(int64_t size) noexcept:
    return USES_AGAIN and size >= SMALLEST_KEPT_BYTES


cdef uint8_t* _allocated(int64_t capacity) noexcept:
    """Take large blocks from the system: in C's heap they would leave holes, and the heap would not shrink again."""
    cdef void* data = NULL
    if _is_large(capacity):
        data = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
        return NULL if data == MAP_FAILED else <uint8_t*>data
    return <uint8_t*>data if posix_memalign(&data, ALIGNMENT, max(capacity, 1)) == 0 else NULL


cdef void _give_back(uint8_t* data, int64_t capacity) noexcept:
    if _is_large(capacity):
        munmap(data, capacity)
    else:
        free(data)


cdef int64_t _rounded(int64_t size) noexcept:
    """Round up by an eighth at most, so that blocks of similar sizes can replace each other."""
    if not _is_large(size):
        return size
    cdef int64_t step = SMALLEST_KEPT_BYTES >> 3
    while step << 4 <= size:
        step <<= 1
    return (size + step - 1) // step * step


cdef int _find_kept(int64_t capacity) noexcept:
    """Return the newest block of a fitting size, whose pages are probably in a cache; -1: none."""
    cdef int at
    if _is_large(capacity):
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
    """Keep a block, and free the oldest ones if they become too many."""
    global kept_count, kept_total_bytes
    while kept_count == MAX_KEPT or kept_total_bytes + capacity > KEPT_BYTES:
        _give_back(kept[0].data, kept[0].capacity)
        _forget_kept(0)
    kept[kept_count].data = data
    kept[kept_count].capacity = capacity
    kept_count += 1
    kept_total_bytes += capacity
