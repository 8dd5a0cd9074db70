/* Protobuf's wire format: tags, numbers, lengths, and skipping of unknown fields.
 *
 * Nothing is read outside of [at, end), and a length is checked against the bytes that are left before it is used.
 * Only protobuf_decode.c includes this: the functions are static so that the compiler may inline them.
 */
#ifndef PENSTOCK_FORMATS_PROTOBUF_WIRE_H
#define PENSTOCK_FORMATS_PROTOBUF_WIRE_H

#include "decode.h"
#include "protobuf.h"

/* As in google.protobuf: how many messages and groups may be inside of each other, below the value itself. */
#define DEPTH_MAX 100

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_32 };

/* One occurrence of a message or of a map's entry. */
typedef struct {
    const uint8_t *at;
    int64_t length;
    int64_t next; /* into Reader.segments, -1 at the end */
} Segment;

/* The current value of a singular field, or the entries of a map. It is set where `stamp` is the message's. */
typedef struct {
    uint64_t stamp;
    uint64_t bits; /* of numbers: sign-extended, or the bits of a float or double */
    Segment first; /* of texts and bytes, messages and entries; `next` has the other occurrences */
    int64_t last;  /* into Reader.segments, -1 where there is only the first */
} Slot;

typedef struct {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    const ProtoPlan *plan;
    Output *output;
    int depth;
    int partial_depth;      /* above 0 required fields may be missing */
    int merged_depth;       /* above 0 the bytes are a copy; then errors are at `merged_position` */
    int64_t merged_position;
    const uint8_t *group_end; /* of the last group that was skipped: where its last tag begins */
    uint64_t stamp;
    int32_t slot_count;
    Slot *slots[DEPTH_MAX + 1];
    Segment *segments;
    int64_t segment_count;
    int64_t segment_capacity;
} Reader;

static int fail(Reader *reader, int reason, const Column *column) {
    output_fail(reader->output, reader->merged_depth ? reader->merged_position : reader->at - reader->start, column);
    return reason;
}

static inline int read_varint(Reader *reader, uint64_t *value) {
    const uint8_t *at = reader->at;
    if (at < reader->end && *at < 0x80) {
        *value = *at;
        reader->at = at + 1;
        return OK;
    }
    uint64_t bits = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at >= reader->end) return fail(reader, TRUNCATED, NULL);
        uint8_t byte = *at++;
        bits |= (uint64_t)(byte & 0x7f) << shift; /* as in google.protobuf, bits above 64 are dropped */
        if (byte < 0x80) {
            *value = bits;
            reader->at = at;
            return OK;
        }
    }
    return fail(reader, BAD_VARINT, NULL);
}

/* Reads a tag inside a group that is skipped. google.protobuf takes a field number of zero there. */
static inline int read_skipped_tag(Reader *reader, uint32_t *tag) {
    uint64_t bits;
    const uint8_t *start = reader->at;
    int status = read_varint(reader, &bits);
    if (status) return status;
    if (bits > UINT32_MAX || reader->at - start > 5 || (bits & 7) > WIRE_32) {
        reader->at = start;
        return fail(reader, BAD_TAG, NULL);
    }
    *tag = (uint32_t)bits;
    return OK;
}

/* Reads a tag of a message. */
static inline int read_tag(Reader *reader, uint32_t *tag) {
    const uint8_t *start = reader->at;
    int status = read_skipped_tag(reader, tag);
    if (status) return status;
    if (*tag >> 3 == 0) {
        reader->at = start;
        return fail(reader, BAD_TAG, NULL);
    }
    return OK;
}

static inline int read_sized(Reader *reader, const uint8_t **bytes, int64_t *length) {
    uint64_t count;
    const uint8_t *start = reader->at;
    int status = read_varint(reader, &count);
    if (status) return status;
    if (reader->at - start > 5) return fail(reader, BAD_VARINT, NULL);
    if (count > (uint64_t)(reader->end - reader->at)) return fail(reader, TRUNCATED, NULL);
    *bytes = reader->at;
    *length = (int64_t)count;
    reader->at += count;
    return OK;
}

static inline int read_fixed(Reader *reader, int width, uint64_t *bits) {
    if (width > reader->end - reader->at) return fail(reader, TRUNCATED, NULL);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Protobuf's fixed numbers are read as they lie in memory: little-endian machines only"
#endif
    *bits = 0;
    memcpy(bits, reader->at, (size_t)width);
    reader->at += width;
    return OK;
}

static int skip_group(Reader *reader, uint32_t number, int depth);

/* Skips the value after a tag. `depth` counts the messages and groups around it. */
static int skip_value(Reader *reader, uint32_t tag, int depth) {
    const uint8_t *bytes;
    int64_t length;
    uint64_t bits;
    switch (tag & 7) {
    case WIRE_VARINT: return read_varint(reader, &bits);
    case WIRE_64: return read_fixed(reader, 8, &bits);
    case WIRE_32: return read_fixed(reader, 4, &bits);
    case WIRE_BYTES: return read_sized(reader, &bytes, &length);
    case WIRE_GROUP: return skip_group(reader, tag >> 3, depth);
    default: return fail(reader, BAD_GROUP_END, NULL);
    }
}

/* Skips a group after its first tag, with its last tag. */
static int skip_group(Reader *reader, uint32_t number, int depth) {
    uint32_t tag;
    int status;
    if (depth > DEPTH_MAX) return fail(reader, TOO_DEEP_MESSAGE, NULL);
    for (;;) {
        const uint8_t *at = reader->at;
        if ((status = read_skipped_tag(reader, &tag))) return status;
        if ((tag & 7) == WIRE_GROUP_END) {
            reader->group_end = at;
            return tag >> 3 == number ? OK : fail(reader, BAD_GROUP_END, NULL);
        }
        if ((status = skip_value(reader, tag, depth + 1))) return status;
    }
}

/* Adds an occurrence to a slot. */
static int add_segment(Reader *reader, Slot *slot, uint64_t stamp, const uint8_t *at, int64_t length) {
    if (slot->stamp != stamp) {
        *slot = (Slot){.stamp = stamp, .first = {at, length, -1}, .last = -1};
        return OK;
    }
    if (reader->segment_count == reader->segment_capacity) {
        int64_t capacity = reader->segment_capacity ? 2 * reader->segment_capacity : 64;
        Segment *larger = realloc(reader->segments, (size_t)capacity * sizeof(Segment));
        if (!larger) return NO_MEMORY;
        reader->segments = larger;
        reader->segment_capacity = capacity;
    }
    int64_t index = reader->segment_count++;
    reader->segments[index] = (Segment){at, length, -1};
    if (slot->last < 0) {
        slot->first.next = index;
    } else {
        reader->segments[slot->last].next = index;
    }
    slot->last = index;
    return OK;
}

static inline int32_t find_value(const ProtoPlan *plan, const ProtoField *field, int32_t number) {
    const int32_t *numbers = plan->enum_numbers + field->first_value;
    /* Most enums are 0, 1, 2, ... */
    if (number >= 0 && number < field->value_count && numbers[number] == number) return number;
    int32_t low = 0, high = field->value_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (numbers[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < field->value_count && numbers[low] == number ? low : -1;
}

static inline int32_t find_field(const ProtoField *fields, int32_t count, int32_t number, int32_t *expected) {
    /* Writers write fields in the order of their numbers, and repeated fields one after the other. */
    for (int32_t i = *expected; i < count && i < *expected + 2; i++) {
        if (fields[i].number == number) return *expected = i;
    }
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (fields[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && fields[low].number == number ? (*expected = low) : -1;
}

/* The wire type of a field that is not packed, by ProtoField.type. */
static const uint8_t WIRE_OF_TYPE[] = {
    0xff,         WIRE_64,      WIRE_32,    WIRE_VARINT, WIRE_VARINT, WIRE_VARINT, WIRE_64, WIRE_32,     WIRE_VARINT, WIRE_BYTES,
    WIRE_GROUP,   WIRE_BYTES,   WIRE_BYTES, WIRE_VARINT, WIRE_VARINT, WIRE_32,     WIRE_64, WIRE_VARINT, WIRE_VARINT,
};

/* Turns the bits of a varint into the value of its type. */
static inline uint64_t value_of_varint(int32_t type, uint64_t bits) {
    switch (type) {
    case PROTO_BOOL: return bits != 0;
    case PROTO_INT32:
    case PROTO_ENUM: return (uint64_t)(int64_t)(int32_t)bits;
    case PROTO_UINT32: return (uint32_t)bits;
    case PROTO_SINT32: return (uint64_t)(int64_t)(int32_t)(((uint32_t)bits >> 1) ^ (0 - ((uint32_t)bits & 1)));
    case PROTO_SINT64: return (bits >> 1) ^ (0 - (bits & 1));
    default: return bits;
    }
}

#endif
