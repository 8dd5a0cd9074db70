/* CRC-32C three ways: SSE4.2 (looked up at run time), ARMv8's instruction (known at compile time), tables.

   Every way gives the same sum on every byte order; the tests hold the fast one to the tables.

   The instruction gives its sum after three cycles, and a processor can begin one in each cycle. So three parts
   are summed side by side. Sums are linear: the sum of two parts is that of the second one, xor what the sum of
   the first one becomes when as many zeros follow as the second one has bytes. */
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

#if defined(HAVE_SSE42_PATH) || defined(HAVE_ARM_PATH)
#define PART_BYTES 512

static uint32_t shifts[4][256]; /* what each byte of a sum becomes when PART_BYTES zeros follow */

static void fill_shifts(void) {
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t sum = 1u << bit;
        for (int zero = 0; zero < PART_BYTES; zero++) sum = (sum >> 8) ^ tables[0][sum & 0xff];
        of_bit[bit] = sum;
    }
    for (int byte = 0; byte < 4; byte++)
        for (int value = 0; value < 256; value++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (value & 1 << bit) sum ^= of_bit[8 * byte + bit];
            shifts[byte][value] = sum;
        }
}

static inline uint32_t shifted(uint32_t sum) {
    return shifts[0][sum & 0xff] ^ shifts[1][(sum >> 8) & 0xff] ^ shifts[2][(sum >> 16) & 0xff] ^ shifts[3][sum >> 24];
}

static inline uint64_t load_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

/* The body of a function that sums with an instruction for 8 bytes and one for a single byte. */
#define SUM_WITH(REGISTER, SUM_WORD, SUM_BYTE)                                   \
    REGISTER sum = 0xFFFFFFFFu;                                                  \
    while (size >= 3 * PART_BYTES) {                                             \
        REGISTER second = 0, third = 0;                                          \
        for (const uint8_t *end = data + PART_BYTES; data < end; data += 8) {    \
            sum = SUM_WORD(sum, load_word(data));                                \
            second = SUM_WORD(second, load_word(data + PART_BYTES));             \
            third = SUM_WORD(third, load_word(data + 2 * PART_BYTES));           \
        }                                                                        \
        sum = shifted(shifted((uint32_t)sum) ^ (uint32_t)second) ^ third;        \
        data += 2 * PART_BYTES;                                                  \
        size -= 3 * PART_BYTES;                                                  \
    }                                                                            \
    for (; size >= 8; data += 8, size -= 8) sum = SUM_WORD(sum, load_word(data)); \
    while (size--) sum = SUM_BYTE((uint32_t)sum, *data++);                       \
    return ~(uint32_t)sum
#endif

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
    SUM_WITH(uint64_t, _mm_crc32_u64, _mm_crc32_u8);
}

static int has_sse42(void) {
    unsigned int eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_SSE4_2);
}
#endif

#ifdef HAVE_ARM_PATH
static uint32_t crc32c_arm(const uint8_t *data, size_t size) {
    SUM_WITH(uint32_t, __crc32cd, __crc32cb);
}
#endif

static uint32_t (*chosen)(const uint8_t *, size_t) = penstock_crc32c_tables;

void penstock_crc32c_init(void) {
    fill_tables();
#ifdef HAVE_SSE42_PATH
    if (has_sse42()) {
        fill_shifts();
        chosen = crc32c_sse42;
    }
#endif
#ifdef HAVE_ARM_PATH
    fill_shifts();
    chosen = crc32c_arm;
#endif
}

uint32_t penstock_crc32c(const uint8_t *data, size_t size) { return chosen(data, size); }
