/* MurmurHash3 x64 128 by Austin Appleby (public domain), for little-endian machines.

   Invariant: what this returns is stored in state files; it never changes. */
#ifndef PENSTOCK_MURMUR3_H
#define PENSTOCK_MURMUR3_H

#include <stdint.h>
#include <string.h>

#define MURMUR3_C1 0x87C37B91114253D5u
#define MURMUR3_C2 0x4CF5AD432745937Fu

static inline uint64_t murmur3_rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

static inline uint64_t murmur3_mix(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53u;
    return x ^ (x >> 33);
}

static inline uint64_t murmur3_first(uint64_t k) { return murmur3_rotate(k * MURMUR3_C1, 31) * MURMUR3_C2; }
static inline uint64_t murmur3_second(uint64_t k) { return murmur3_rotate(k * MURMUR3_C2, 33) * MURMUR3_C1; }

static inline void murmur3_128(const uint8_t *p, int64_t size, uint64_t *high, uint64_t *low) {
    uint64_t a = 0, b = 0, first, second;
    int64_t left = size;
    for (; left >= 16; left -= 16, p += 16) {
        memcpy(&first, p, 8);
        memcpy(&second, p + 8, 8);
        a = (murmur3_rotate(a ^ murmur3_first(first), 27) + b) * 5 + 0x52DCE729;
        b = (murmur3_rotate(b ^ murmur3_second(second), 31) + a) * 5 + 0x38495AB5;
    }
    first = second = 0;
    if (left > 8) memcpy(&second, p + 8, (size_t)(left - 8));
    if (left > 0) memcpy(&first, p, (size_t)(left > 8 ? 8 : left));
    b ^= murmur3_second(second);
    a ^= murmur3_first(first);
    a ^= (uint64_t)size;
    b ^= (uint64_t)size;
    a += b;
    b += a;
    a = murmur3_mix(a);
    b = murmur3_mix(b);
    a += b;
    b += a;
    *high = a;
    *low = b;
}

#endif
