/* Notes which ways the compiled code takes. gcc's -fsanitize-coverage=trace-pc calls this at each branch. */
#include <stdint.h>
#include <string.h>

#define WAYS (1 << 16)

static uint8_t taken[WAYS], known[WAYS];
static __thread uintptr_t before;

void __sanitizer_cov_trace_pc(void) {
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    taken[(here ^ before) & (WAYS - 1)] = 1;
    before = here >> 1;
}

/* Returns how many ways are new since the last call, and forgets which ones were taken. */
int64_t penstock_new_ways(void) {
    int64_t found = 0;
    for (int i = 0; i < WAYS; i += 8) {
        uint64_t now, old;
        memcpy(&now, taken + i, 8);
        memcpy(&old, known + i, 8);
        found += __builtin_popcountll(now & ~old);
        old |= now;
        memcpy(known + i, &old, 8);
    }
    memset(taken, 0, WAYS);
    before = 0;
    return found;
}
