/* The header of a record batch. Only this file knows the positions of its fields.

   All formats begin alike: base offset int64, length int32 (of what follows the length), 4 bytes (format v2:
   leader epoch; old formats: CRC), magic int8. Format v2 (magic 2) goes on to a header of 61 bytes. An entry of an
   old format (magic 0 or 1) is one message, or a compressed set at the offset of its last message.

   Invariant: `read_batch_header` never touches a byte at or after `p + size`, and its offsets and sizes do not
   overflow: `base_offset + last_offset_delta + 1` fits into an int64. */
#ifndef PENSTOCK_RECORD_BATCH_H
#define PENSTOCK_RECORD_BATCH_H

#include "wire.h"

enum {
    BATCH_LENGTH_AT = 8,
    BATCH_LENGTH_FROM = 12, /* what a length counts from */
    BATCH_LEADER_EPOCH_AT = 12,
    BATCH_MAGIC_AT = 16,
    BATCH_CRC_AT = 17,
    BATCH_CRC_FROM = 21, /* what the CRC-32C counts from */
    BATCH_ATTRIBUTES_AT = 21,
    BATCH_LAST_OFFSET_DELTA_AT = 23,
    BATCH_BASE_TIMESTAMP_AT = 27,
    BATCH_MAX_TIMESTAMP_AT = 35,
    BATCH_PRODUCER_ID_AT = 43,
    BATCH_PRODUCER_EPOCH_AT = 51,
    BATCH_BASE_SEQUENCE_AT = 53,
    BATCH_RECORD_COUNT_AT = 57,
    BATCH_HEADER_BYTES = 61,
    OLDEST_ENTRY_BYTES = 26, /* the smallest entry of magic 0 */
    NEWEST_MAGIC = 2
};

/* Bits of the attributes. */
enum { COMPRESSION_MASK = 0x07, LOG_APPEND_TIME_FLAG = 0x08, TRANSACTIONAL_FLAG = 0x10, CONTROL_FLAG = 0x20 };

typedef struct {
    int64_t base_offset;
    int64_t size; /* of the whole batch, header included */
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms;
    int64_t producer_id;
    int32_t leader_epoch;
    int32_t last_offset_delta;
    int32_t base_sequence;
    int32_t record_count;
    uint32_t crc;
    int16_t attributes;
    int16_t producer_epoch;
    int8_t magic;
} BatchFields;

typedef enum {
    HEADER_WHOLE,   /* the whole batch is there */
    HEADER_CUT,     /* the bytes end before the batch does */
    HEADER_BAD_OFFSET,
    HEADER_BAD_MAGIC,
    HEADER_BAD_LENGTH,
    HEADER_BAD_DELTA
} HeaderStatus;

static inline void read_fields_v2(const uint8_t *p, BatchFields *batch) {
    batch->leader_epoch = load_int32(p + BATCH_LEADER_EPOCH_AT);
    batch->crc = load_uint32(p + BATCH_CRC_AT);
    batch->attributes = load_int16(p + BATCH_ATTRIBUTES_AT);
    batch->last_offset_delta = load_int32(p + BATCH_LAST_OFFSET_DELTA_AT);
    batch->base_timestamp_ms = load_int64(p + BATCH_BASE_TIMESTAMP_AT);
    batch->max_timestamp_ms = load_int64(p + BATCH_MAX_TIMESTAMP_AT);
    batch->producer_id = load_int64(p + BATCH_PRODUCER_ID_AT);
    batch->producer_epoch = load_int16(p + BATCH_PRODUCER_EPOCH_AT);
    batch->base_sequence = load_int32(p + BATCH_BASE_SEQUENCE_AT);
    batch->record_count = load_int32(p + BATCH_RECORD_COUNT_AT);
}

/* Sets the fields that the header of an old entry does not have. */
static inline void clear_fields_v2(BatchFields *batch) {
    batch->leader_epoch = batch->base_sequence = -1;
    batch->producer_id = batch->base_timestamp_ms = batch->max_timestamp_ms = -1;
    batch->producer_epoch = -1;
    batch->last_offset_delta = batch->record_count = 0;
    batch->crc = 0;
    batch->attributes = 0;
}

/* Reads the header at `p`, where `size` bytes are left. The fields of format v2 are set for HEADER_WHOLE only. */
static inline HeaderStatus read_batch_header(const uint8_t *p, int64_t size, BatchFields *batch) {
    if (size <= BATCH_MAGIC_AT) return HEADER_CUT;
    batch->base_offset = load_int64(p);
    batch->size = BATCH_LENGTH_FROM + (int64_t)load_int32(p + BATCH_LENGTH_AT);
    batch->magic = (int8_t)p[BATCH_MAGIC_AT];
    if (batch->base_offset < 0 || batch->base_offset > INT64_MAX - INT32_MAX - 1) return HEADER_BAD_OFFSET;
    if (batch->magic < 0 || batch->magic > NEWEST_MAGIC) return HEADER_BAD_MAGIC;
    if (batch->size < (batch->magic == NEWEST_MAGIC ? BATCH_HEADER_BYTES : OLDEST_ENTRY_BYTES)) return HEADER_BAD_LENGTH;
    if (batch->size > size) return HEADER_CUT;
    if (batch->magic == NEWEST_MAGIC) read_fields_v2(p, batch);
    else clear_fields_v2(batch);
    return batch->last_offset_delta < 0 ? HEADER_BAD_DELTA : HEADER_WHOLE;
}

/* Writes a header of format v2, except its CRC, which covers what follows it. */
static inline void write_batch_header(uint8_t *p, const BatchFields *batch) {
    store_int64(p, batch->base_offset);
    store_int32(p + BATCH_LENGTH_AT, (int32_t)(batch->size - BATCH_LENGTH_FROM));
    store_int32(p + BATCH_LEADER_EPOCH_AT, batch->leader_epoch);
    p[BATCH_MAGIC_AT] = NEWEST_MAGIC;
    store_int16(p + BATCH_ATTRIBUTES_AT, batch->attributes);
    store_int32(p + BATCH_LAST_OFFSET_DELTA_AT, batch->last_offset_delta);
    store_int64(p + BATCH_BASE_TIMESTAMP_AT, batch->base_timestamp_ms);
    store_int64(p + BATCH_MAX_TIMESTAMP_AT, batch->max_timestamp_ms);
    store_int64(p + BATCH_PRODUCER_ID_AT, batch->producer_id);
    store_int16(p + BATCH_PRODUCER_EPOCH_AT, batch->producer_epoch);
    store_int32(p + BATCH_BASE_SEQUENCE_AT, batch->base_sequence);
    store_int32(p + BATCH_RECORD_COUNT_AT, batch->record_count);
}

static inline void write_batch_crc(uint8_t *p, uint32_t crc) { store_uint32(p + BATCH_CRC_AT, crc); }

#endif
