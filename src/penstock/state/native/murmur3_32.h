/* MurmurHash3 x86 32 as Spark's function `hash` has it (org.apache.spark.unsafe.hash.Murmur3_x86_32).

   Invariant: equal to Spark's in each bit, because states are divided by Spark's numbers. It differs from the
   public algorithm in bytes after the last whole word: each is mixed by itself, with its sign. */
#ifndef PENSTOCK_MURMUR3_32_H
#define PENSTOCK_MURMUR3_32_H

#include <stdint.h>
#include <string.h>

static inline uint32_t murmur3_32_rotate(uint32_t x, int bits) { return (x << bits) | (x >> (32 - bits)); }

static inline uint32_t murmur3_32_mix(uint32_t hash, uint32_t word) {
    word = murmur3_32_rotate(word * 0xCC9E2D51u, 15) * 0x1B873593u;
    return murmur3_32_rotate(hash ^ word, 13) * 5 + 0xE6546B64u;
}

static inline uint32_t murmur3_32_end(uint32_t hash, uint32_t size) {
    hash ^= size;
    hash = (hash ^ (hash >> 16)) * 0x85EBCA6Bu;
    hash = (hash ^ (hash >> 13)) * 0xC2B2AE35u;
    return hash ^ (hash >> 16);
}

static inline uint32_t murmur3_32_int(uint32_t value, uint32_t seed) {
    return murmur3_32_end(murmur3_32_mix(seed, value), 4);
}

static inline uint32_t murmur3_32_long(uint64_t value, uint32_t seed) {
    return murmur3_32_end(murmur3_32_mix(murmur3_32_mix(seed, (uint32_t)value), (uint32_t)(value >> 32)), 8);
}

static inline uint32_t murmur3_32_bytes(const uint8_t* data, int64_t size, uint32_t seed) {
    uint32_t hash = seed, word;
    int64_t at = 0;
    for (; at + 4 <= size; at += 4) {
        memcpy(&word, data + at, 4);
        hash = murmur3_32_mix(hash, word);
    }
    for (; at < size; at++) hash = murmur3_32_mix(hash, (uint32_t)(int32_t)(int8_t)data[at]);
    return murmur3_32_end(hash, (uint32_t)size);
}

#endif
