/* CRC-32C three ways: SSE4.2 (looked up at run time), ARMv8's instruction (known at compile time), tables.

   Every way gives the same sum on every byte order; the tests hold the fast one to the tables. */
#include "crc32c.h"

#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAVE_SSE42_PATH 1
#include <cpuid.h>
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define HAVE_ARM_PATH 1
#include <arm_acle.h>
#endif

#define REVERSED_POLYNOMIAL 0x82F63B78u

static uint32_t tables[8][256];

static void fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) sum = (sum >> 1) ^ ((sum & 1) ? REVERSED_POLYNOMIAL : 0);
        tables[0][byte] = sum;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t sum = tables[table - 1][byte];
            tables[table][byte] = (sum >> 8) ^ tables[0][sum & 0xff];
        }
}

uint32_t penstock_crc32c_tables(const uint8_t *data, size_t size) {
    uint32_t sum = 0xFFFFFFFFu;
    while (size >= 8) { /* "slicing by 8": eight bytes for eight independent look-ups */
        sum ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        sum = tables[7][sum & 0xff] ^ tables[6][(sum >> 8) & 0xff] ^ tables[5][(sum >> 16) & 0xff] ^
              tables[4][sum >> 24] ^ tables[3][data[4]] ^ tables[2][data[5]] ^ tables[1][data[6]] ^
              tables[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size--) sum = (sum >> 8) ^ tables[0][(sum ^ *data++) & 0xff];
    return ~sum;
}

#ifdef HAVE_SSE42_PATH
/* clang has a feature of its own for the instruction, which older compilers do not know. */
#if defined(__clang_major__) && __clang_major__ >= 14
#define SSE42_TARGET "sse4.2,crc32"
#else
#define SSE42_TARGET "sse4.2"
#endif

__attribute__((target(SSE42_TARGET))) static uint32_t crc32c_sse42(const uint8_t *data, size_t size) {
    uint64_t sum = 0xFFFFFFFFu;
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        sum = _mm_crc32_u64(sum, word);
        data += 8;
        size -= 8;
    }
    while (size--) sum = _mm_crc32_u8((uint32_t)sum, *data++);
    return ~(uint32_t)sum;
}

static int has_sse42(void) {
    unsigned int eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_SSE4_2);
}
#endif

#ifdef HAVE_ARM_PATH
static uint32_t crc32c_arm(const uint8_t *data, size_t size) {
    uint32_t sum = 0xFFFFFFFFu;
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        sum = __crc32cd(sum, word);
        data += 8;
        size -= 8;
    }
    while (size--) sum = __crc32cb(sum, *data++);
    return ~sum;
}
#endif

static uint32_t (*chosen)(const uint8_t *, size_t) = penstock_crc32c_tables;

void penstock_crc32c_init(void) {
    fill_tables();
#ifdef HAVE_SSE42_PATH
    if (has_sse42()) chosen = crc32c_sse42;
#endif
#ifdef HAVE_ARM_PATH
    chosen = crc32c_arm;
#endif
}

uint32_t penstock_crc32c(const uint8_t *data, size_t size) { return chosen(data, size); }
