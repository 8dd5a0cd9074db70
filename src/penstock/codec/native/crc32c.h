/* CRC-32C (Castagnoli), the checksum of Kafka's record batches. */
#ifndef PENSTOCK_CRC32C_H
#define PENSTOCK_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Must run once before the first penstock_crc32c (module import does it, under the GIL). */
void penstock_crc32c_init(void);

/* The checksum of `size` bytes, with the processor's instruction where it has one. */
uint32_t penstock_crc32c(const uint8_t *data, size_t size);

/* The same from tables: for processors without the instruction, and for the tests. */
uint32_t penstock_crc32c_tables(const uint8_t *data, size_t size);

#endif
