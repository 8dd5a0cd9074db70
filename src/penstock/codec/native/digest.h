/* Hashes of the digest of exactly-once writes: definition 1 in penstock/sink/exactly_once/digest.py.

   Invariant: what these return is stored in decision logs; they never change. */
#ifndef PENSTOCK_DIGEST_H
#define PENSTOCK_DIGEST_H

#include <stdint.h>

#define DIGEST_G 0x9E3779B97F4A7C15u
#define DIGEST_N 0xD6E8FEB86659FD93u
#define DIGEST_H 0xA0761D6478BD642Fu

/* murmur3's 64-bit finaliser. */
static inline uint64_t digest_mix(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53u;
    return x ^ (x >> 33);
}

/* `size` bytes, at most 8, as a little-endian number. */
static inline uint64_t digest_word(const uint8_t *p, int64_t size) {
    uint64_t word = 0;
    for (int64_t i = 0; i < size; i++) word |= (uint64_t)p[i] << (8 * i);
    return word;
}

static inline uint64_t digest_null(uint64_t seed) { return digest_mix(seed ^ DIGEST_N); }

/* `size` < 0 is null. */
static inline uint64_t digest_bytes(const uint8_t *p, int64_t size, uint64_t seed) {
    uint64_t sum, position = DIGEST_G;
    if (size < 0) return digest_null(seed);
    sum = digest_mix(seed + (uint64_t)size);
    for (; size >= 8; size -= 8, p += 8, position += DIGEST_G) sum += digest_mix(digest_word(p, 8) + position);
    if (size > 0) sum += digest_mix(digest_word(p, size) + position);
    return digest_mix(sum);
}

static inline uint64_t digest_integer(int64_t number, uint64_t seed) {
    return digest_mix(digest_mix((uint64_t)number + DIGEST_G) + seed);
}

#endif
