/* Integers of Kafka's wire format: big-endian fixed ones, zigzag varints, and Java's murmur2.

   Invariant: a reader never touches a byte at or after `end`, and returns NULL when the bytes there are
   not a whole, in-range number. A writer is told nothing about space: its caller has counted the bytes. */
#ifndef PENSTOCK_WIRE_H
#define PENSTOCK_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int16_t load_int16(const uint8_t *p) { return (int16_t)((uint16_t)p[0] << 8 | p[1]); }

static inline uint32_t load_uint32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline int32_t load_int32(const uint8_t *p) { return (int32_t)load_uint32(p); }

static inline int64_t load_int64(const uint8_t *p) {
    return (int64_t)((uint64_t)load_uint32(p) << 32 | load_uint32(p + 4));
}

static inline void store_int16(uint8_t *p, int16_t value) {
    p[0] = (uint8_t)((uint16_t)value >> 8);
    p[1] = (uint8_t)value;
}

static inline void store_uint32(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}

static inline void store_int32(uint8_t *p, int32_t value) { store_uint32(p, (uint32_t)value); }

static inline void store_int64(uint8_t *p, int64_t value) {
    store_uint32(p, (uint32_t)((uint64_t)value >> 32));
    store_uint32(p + 4, (uint32_t)value);
}

static inline uint64_t zigzag(int64_t value) { return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63); }

static inline int64_t unzigzag(uint64_t raw) { return (int64_t)((raw >> 1) ^ (~(raw & 1) + 1)); }

/* At most ten bytes; the tenth may only bring the 64th bit. */
static inline const uint8_t *read_varlong(const uint8_t *p, const uint8_t *end, int64_t *value) {
    uint64_t raw = 0;
    for (int shift = 0; p < end; shift += 7) {
        const uint8_t byte = *p++;
        if (shift == 63 && byte > 1) return NULL;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = unzigzag(raw);
            return p;
        }
    }
    return NULL;
}

/* At most five bytes; the fifth may only bring bits 29 to 32. */
static inline const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, int32_t *value) {
    uint32_t raw = 0;
    for (int shift = 0; p < end; shift += 7) {
        const uint8_t byte = *p++;
        if (shift == 28 && byte > 0x0f) return NULL;
        raw |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = (int32_t)unzigzag(raw);
            return p;
        }
    }
    return NULL;
}

static inline int varint_size(int64_t value) {
    uint64_t raw = zigzag(value);
    int size = 1;
    while (raw >= 0x80) {
        raw >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *store_varint(uint8_t *p, int64_t value) {
    uint64_t raw = zigzag(value);
    while (raw >= 0x80) {
        *p++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *p++ = (uint8_t)raw;
    return p;
}

/* A length (-1 = null) and that many bytes. */
static inline uint8_t *write_sized_bytes(uint8_t *p, const uint8_t *data, int32_t size) {
    p = store_varint(p, size);
    if (size > 0) {
        memcpy(p, data, (size_t)size);
        p += size;
    }
    return p;
}

/* Reads one length (-1 = null) and its bytes, and moves past them. */
static inline const uint8_t *read_sized_bytes(const uint8_t *p, const uint8_t *end, const uint8_t **data,
                                              int32_t *size) {
    p = read_varint(p, end, size);
    if (p == NULL || *size < -1 || *size > end - p) return NULL;
    *data = p;
    return *size > 0 ? p + *size : p;
}

/* Computes the same as org.apache.kafka.common.utils.Utils.murmur2. */
static inline int32_t murmur2(const uint8_t *data, int32_t size) {
    const uint32_t m = 0x5bd1e995u;
    uint32_t h = 0x9747b28cu ^ (uint32_t)size;
    while (size >= 4) {
        uint32_t k = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h = (h * m) ^ k;
        data += 4;
        size -= 4;
    }
    switch (size) {
        case 3: h ^= (uint32_t)data[2] << 16; /* fall through */
        case 2: h ^= (uint32_t)data[1] << 8;  /* fall through */
        case 1:
            h ^= data[0];
            h *= m;
    }
    h ^= h >> 13;
    h *= m;
    h ^= h >> 15;
    return (int32_t)h;
}

/* Whether `size` bytes are UTF-8 as Unicode allows it: shortest form, no surrogates, up to U+10FFFF. */
static inline int is_utf8(const uint8_t *p, int64_t size) {
    const uint8_t *end = p + size;
    while (p < end) {
        const uint8_t lead = *p++;
        int more;
        uint8_t low = 0x80, high = 0xbf; /* bounds of the second byte, which exclude the forbidden forms */
        if (lead < 0x80) continue;
        if (lead >= 0xc2 && lead <= 0xdf) more = 1;
        else if (lead >= 0xe0 && lead <= 0xef) more = 2;
        else if (lead >= 0xf0 && lead <= 0xf4) more = 3;
        else return 0;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
        if (end - p < more || *p < low || *p > high) return 0;
        for (int i = 1; i < more; i++)
            if ((p[i] & 0xc0) != 0x80) return 0;
        p += more;
    }
    return 1;
}

#endif
