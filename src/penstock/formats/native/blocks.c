#include "blocks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__

/* Each block is a block of malloc, so that the sanitizer sees its ends. */
void *block_resize(void *block, int64_t bytes) { return realloc(block, (size_t)bytes); }
void block_free(void *block) { free(block); }
int64_t blocks_kept_bytes(void) { return 0; }

#else

#if !defined(MAP_ANON)
#define MAP_ANON MAP_ANONYMOUS
#endif

#define HEAD_BYTES 64 /* before the first byte, which so begins where a cache line does */
#define LARGE_BYTES (64 << 10)
#define KEPT_BYTES (16 << 20)
#define KEPT_COUNT 64

typedef struct {
    int64_t capacity;
} Head;

/* Free blocks, the oldest first. A thread that cannot have the lock at once does without them. So a child that was
 * forked while another thread had the lock does not wait for ever. */
static atomic_flag is_locked = ATOMIC_FLAG_INIT;
static Head *kept[KEPT_COUNT];
static int kept_count;
static int64_t kept_bytes;

static int lock(void) { return !atomic_flag_test_and_set_explicit(&is_locked, memory_order_acquire); }
static void unlock(void) { atomic_flag_clear_explicit(&is_locked, memory_order_release); }

static int is_large(int64_t capacity) { return capacity >= LARGE_BYTES; }

/* Rounds up by an eighth at most, so that blocks of similar sizes can replace each other. */
static int64_t rounded(int64_t bytes) {
    if (!is_large(bytes)) return bytes;
    int64_t step = LARGE_BYTES >> 3;
    while (step << 4 <= bytes) step <<= 1;
    return (bytes + step - 1) / step * step;
}

static Head *from_system(int64_t capacity) {
    Head *head;
    if (is_large(capacity)) {
        /* In C's heap they would leave holes, and the heap would not shrink again. */
        head = mmap(NULL, (size_t)(capacity + HEAD_BYTES), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
        if (head == MAP_FAILED) return NULL;
    } else {
        head = malloc((size_t)(capacity + HEAD_BYTES));
        if (!head) return NULL;
    }
    head->capacity = capacity;
    return head;
}

static void to_system(Head *head) {
    if (is_large(head->capacity)) {
        munmap(head, (size_t)(head->capacity + HEAD_BYTES));
    } else {
        free(head);
    }
}

static void forget(int at) {
    kept_bytes -= kept[at]->capacity;
    kept_count--;
    memmove(kept + at, kept + at + 1, (size_t)(kept_count - at) * sizeof(Head *));
}

/* Takes the newest free block of a fitting size, whose pages are probably in a cache; NULL: there is none. */
static Head *take_kept(int64_t capacity) {
    Head *found = NULL;
    if (!lock()) return NULL;
    for (int at = kept_count - 1; at >= 0 && !found; at--) {
        if (kept[at]->capacity < capacity || kept[at]->capacity > 2 * capacity) continue;
        found = kept[at];
        forget(at);
    }
    unlock();
    return found;
}

static void keep(Head *head) {
    if (head->capacity > KEPT_BYTES || !lock()) {
        to_system(head);
        return;
    }
    while (kept_count == KEPT_COUNT || kept_bytes + head->capacity > KEPT_BYTES) {
        Head *oldest = kept[0];
        forget(0);
        to_system(oldest);
    }
    kept[kept_count++] = head;
    kept_bytes += head->capacity;
    unlock();
}

void *block_resize(void *block, int64_t bytes) {
    Head *old = block ? (Head *)((uint8_t *)block - HEAD_BYTES) : NULL;
    if (old && bytes <= old->capacity) return block;
    int64_t capacity = rounded(bytes);
    Head *head = is_large(capacity) ? take_kept(capacity) : NULL;
    if (!head) head = from_system(capacity);
    if (!head) return NULL;
    uint8_t *data = (uint8_t *)head + HEAD_BYTES;
    if (old) {
        memcpy(data, block, (size_t)old->capacity);
        block_free(block);
    }
    return data;
}

void block_free(void *block) {
    if (!block) return;
    Head *head = (Head *)((uint8_t *)block - HEAD_BYTES);
    if (is_large(head->capacity)) {
        keep(head);
    } else {
        to_system(head);
    }
}

int64_t blocks_kept_bytes(void) { return kept_bytes; }

#endif
