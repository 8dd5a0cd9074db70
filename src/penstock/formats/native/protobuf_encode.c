/* Arrow rows to Protobuf messages, by plan.
 *
 * Fields are written in the order of their numbers, and maps in the order of their keys. The same row always gives the
 * same bytes, which replays rely on. But for the order in maps, the bytes are those of google.protobuf.
 */
#include "encode.h"
#include "text.h"

typedef struct {
    const ProtoPlan *plan;
    Writer *writer;
    int partial_depth; /* above 0 required fields may be missing */
} Encoder;

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_32 };

/* The years 1 to 9999, as in Protobuf's definition of Timestamp. */
#define SECONDS_MIN (-62135596800LL)
#define SECONDS_MAX 253402300799LL

static int write_message(Encoder *encoder, const ProtoField *field, const View *view, int64_t i);

static int fail(Encoder *encoder, int reason, const View *view) {
    if (!encoder->writer->failed_view) encoder->writer->failed_view = view;
    return reason;
}

static inline int is_null(const View *view, int64_t i) { return !view || view_is_null(view, i); }

static inline int is_text(const ProtoField *field) { return field->type == PROTO_STRING || field->type == PROTO_BYTES; }

/* -- the wire format ----------------------------------------------------------------------------------- */

static int put_varint(uint8_t *at, uint64_t bits) {
    int count = 0;
    for (; bits >= 0x80; bits >>= 7) at[count++] = (uint8_t)(bits | 0x80);
    at[count++] = (uint8_t)bits;
    return count;
}

static int write_varint(Writer *writer, uint64_t bits) {
    int status = writer_room(writer, 10);
    if (status) return status;
    writer->used += put_varint(writer->bytes + writer->used, bits);
    return OK;
}

static int write_tag(Writer *writer, const ProtoField *field, int wire) {
    return write_varint(writer, (uint64_t)(uint32_t)field->number << 3 | (uint64_t)wire);
}

/* Begins content of unknown length. One byte is left for its length, which is enough for most. */
static int begin_sized(Writer *writer, int64_t *start) {
    *start = writer->used;
    return write_byte(writer, 0);
}

/* Writes the length of the content since begin_sized(), and moves the content where one byte is not enough. */
static int end_sized(Writer *writer, int64_t start) {
    uint8_t length[10];
    int64_t size = writer->used - start - 1;
    int count = put_varint(length, (uint64_t)size), status = writer_room(writer, count);
    if (status) return status;
    if (count > 1) memmove(writer->bytes + start + count, writer->bytes + start + 1, (size_t)size);
    memcpy(writer->bytes + start, length, (size_t)count);
    writer->used += count - 1;
    return OK;
}

static int wire_of(int32_t type) {
    switch (type) {
    case PROTO_DOUBLE:
    case PROTO_FIXED64:
    case PROTO_SFIXED64:
        return WIRE_64;
    case PROTO_FLOAT:
    case PROTO_FIXED32:
    case PROTO_SFIXED32:
        return WIRE_32;
    case PROTO_STRING:
    case PROTO_BYTES:
    case PROTO_MESSAGE:
        return WIRE_BYTES;
    case PROTO_GROUP:
        return WIRE_GROUP;
    default:
        return WIRE_VARINT;
    }
}

static int write_number(Writer *writer, int32_t type, uint64_t bits) {
    switch (wire_of(type)) {
    case WIRE_64:
        return write_bytes(writer, &bits, 8);
    case WIRE_32:
        return write_bytes(writer, &bits, 4);
    default:
        if (type == PROTO_SINT32 || type == PROTO_SINT64) bits = (bits << 1) ^ (0 - (bits >> 63));
        return write_varint(writer, bits);
    }
}

/* -- values -------------------------------------------------------------------------------------------- */

static int compare_symbol(const ProtoPlan *plan, int32_t symbol, const uint8_t *text, int64_t length) {
    const int32_t *offsets = plan->symbol_offsets + symbol;
    int64_t own = offsets[1] - offsets[0], least = own < length ? own : length;
    int found = least ? memcmp(plan->symbols + offsets[0], text, (size_t)least) : 0;
    return found ? found : (own > length) - (own < length);
}

/* The values of an enum are sorted by name here. */
static int number_of_name(const ProtoPlan *plan, const ProtoField *field, const uint8_t *text, int64_t length, int64_t *number) {
    int32_t low = field->first_value, high = low + field->value_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int found = compare_symbol(plan, plan->enum_symbols[middle], text, length);
        if (found == 0) {
            *number = plan->enum_numbers[middle];
            return 1;
        }
        if (found < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

static int read_digits(const uint8_t *text, int64_t length, int64_t *number) {
    int is_negative = length > 0 && *text == '-';
    int64_t value = 0;
    if (length == is_negative) return 0;
    for (int64_t i = is_negative; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        if (value <= UINT32_MAX) value = value * 10 + (text[i] - '0');
    }
    *number = is_negative ? -value : value;
    return 1;
}

static int enum_number(Encoder *encoder, const ProtoField *field, const View *view, int64_t i, int64_t *number) {
    const ProtoPlan *plan = encoder->plan;
    if (view->kind == KIND_STRING) {
        int64_t length;
        const uint8_t *text = view_bytes(view, i, &length);
        if (number_of_name(plan, field, text, length, number)) return OK;
        /* Digits stand for a number that only a newer schema names. */
        if (!read_digits(text, length, number)) return fail(encoder, UNKNOWN_ENUM_NAME, view);
    } else {
        *number = view_integer(view, i);
    }
    if (*number < INT32_MIN || *number > INT32_MAX) return fail(encoder, OUT_OF_RANGE, view);
    if (!(field->flags & PROTO_CLOSED_ENUM)) return OK;
    for (int32_t n = 0; n < field->value_count; n++) {
        if (plan->enum_numbers[field->first_value + n] == *number) return OK;
    }
    return fail(encoder, UNKNOWN_ENUM_NAME, view);
}

static uint64_t floating_bits(const ProtoField *field, const View *view, int64_t i) {
    uint64_t bits = 0;
    float narrow = view->kind == KIND_FLOAT ? ((const float *)view->values)[view->offset + i] : 0;
    double wide = view->kind == KIND_FLOAT ? (double)narrow : ((const double *)view->values)[view->offset + i];
    if (field->type == PROTO_FLOAT) {
        memcpy(&bits, &narrow, 4);
    } else {
        memcpy(&bits, &wide, 8);
    }
    return bits;
}

/* Sets *bits to a number: sign-extended, or the bits of a float or double. */
static int number_bits(Encoder *encoder, const ProtoField *field, const View *view, int64_t i, uint64_t *bits) {
    int64_t value, low = INT64_MIN, high = INT64_MAX;
    if (field->type == PROTO_FLOAT || field->type == PROTO_DOUBLE) {
        *bits = floating_bits(field, view, i);
        return OK;
    }
    if (view->kind == KIND_DECIMAL) {
        __int128 wide = view_decimal(view, i);
        if (wide < 0 || wide > (__int128)UINT64_MAX) return fail(encoder, OUT_OF_RANGE, view);
        *bits = (uint64_t)wide;
        return OK;
    }
    if (field->type == PROTO_ENUM) {
        int status = enum_number(encoder, field, view, i, &value);
        *bits = status ? 0 : (uint64_t)value;
        return status;
    }
    switch (field->type) {
    case PROTO_INT32:
    case PROTO_SINT32:
    case PROTO_SFIXED32:
        low = INT32_MIN;
        high = INT32_MAX;
        break;
    case PROTO_UINT32:
    case PROTO_FIXED32:
        low = 0;
        high = UINT32_MAX;
        break;
    case PROTO_UINT64:
    case PROTO_FIXED64:
        low = 0;
        break;
    default:
        break;
    }
    value = view_integer(view, i);
    *bits = (uint64_t)value;
    return value < low || value > high ? fail(encoder, OUT_OF_RANGE, view) : OK;
}

/* Sets *text to a text or bytes; a null is the plan's text for it. */
static int text_of(Encoder *encoder, const ProtoField *field, const View *view, int64_t i, const uint8_t **text, int64_t *length) {
    if (is_null(view, i)) {
        const int32_t *offsets = encoder->plan->symbol_offsets + field->default_text;
        *text = encoder->plan->symbols + offsets[0];
        *length = offsets[1] - offsets[0];
        return OK;
    }
    *text = view_bytes(view, i, length);
    return field->type == PROTO_STRING && !is_utf8(*text, *length) ? fail(encoder, TEXT_NOT_UTF8, view) : OK;
}

/* Writes a number or text without its tag; a null is written as the plan's default. */
static int write_scalar(Encoder *encoder, const ProtoField *field, const View *view, int64_t i) {
    const uint8_t *text;
    int64_t length;
    uint64_t bits = (uint64_t)field->default_bits;
    int status;
    if (is_text(field)) {
        if ((status = text_of(encoder, field, view, i, &text, &length))) return status;
        if ((status = write_varint(encoder->writer, (uint64_t)length))) return status;
        return write_bytes(encoder->writer, text, length);
    }
    if (!is_null(view, i) && (status = number_bits(encoder, field, view, i, &bits))) return status;
    return write_number(encoder->writer, field->type, bits);
}

/* Writes an element or a map's key or value, with its tag. */
static int write_element(Encoder *encoder, const ProtoField *field, const View *view, int64_t i) {
    if (field->message >= 0) return write_message(encoder, field, is_null(view, i) ? NULL : view, i);
    int status = write_tag(encoder->writer, field, wire_of(field->type));
    return status ? status : write_scalar(encoder, field, view, i);
}

/* A zero of a field without presence is not written. */
static int write_singular(Encoder *encoder, const ProtoField *field, const View *view, int64_t i) {
    if (field->message < 0 && !(field->flags & PROTO_HAS_PRESENCE)) {
        uint64_t bits;
        int64_t length;
        if (is_text(field)) {
            view_bytes(view, i, &length);
            if (length == 0) return OK;
        } else {
            int status = number_bits(encoder, field, view, i, &bits);
            if (status || bits == 0) return status;
        }
    }
    return write_element(encoder, field, view, i);
}

/* -- lists and maps ------------------------------------------------------------------------------------- */

static int write_list(Encoder *encoder, const ProtoField *field, const View *view, int64_t i) {
    const int32_t *offsets = view->offsets + view->offset + i;
    const View *element = view->children[0];
    int64_t start;
    int status = OK;
    if (offsets[1] == offsets[0]) return OK;
    if (!(field->flags & PROTO_IS_PACKED)) {
        for (int32_t at = offsets[0]; at < offsets[1] && status == OK; at++) {
            status = write_element(encoder, field, element, at);
        }
        return status;
    }
    if ((status = write_tag(encoder->writer, field, WIRE_BYTES))) return status;
    if ((status = begin_sized(encoder->writer, &start))) return status;
    for (int32_t at = offsets[0]; at < offsets[1] && status == OK; at++) status = write_scalar(encoder, field, element, at);
    return status ? status : end_sized(encoder->writer, start);
}

typedef struct {
    uint64_t bits; /* of numbers: in an order that is unsigned */
    const uint8_t *text;
    int64_t length;
    int32_t at;
} Key;

static int compare_keys(const void *a, const void *b) {
    const Key *x = a, *y = b;
    if (x->bits != y->bits) return x->bits < y->bits ? -1 : 1;
    int64_t length = x->length < y->length ? x->length : y->length;
    int found = length ? memcmp(x->text, y->text, (size_t)length) : 0;
    return found ? found : (x->length > y->length) - (x->length < y->length);
}

static int read_keys(Encoder *encoder, const ProtoField *key, const View *view, int32_t first, int32_t count, Key *keys) {
    int is_unsigned = key->type == PROTO_UINT64 || key->type == PROTO_FIXED64, status;
    for (int32_t n = 0; n < count; n++) {
        keys[n] = (Key){.at = first + n};
        if (is_text(key)) {
            if ((status = text_of(encoder, key, view, first + n, &keys[n].text, &keys[n].length))) return status;
        } else {
            if ((status = number_bits(encoder, key, view, first + n, &keys[n].bits))) return status;
            if (!is_unsigned) keys[n].bits ^= 1ULL << 63;
        }
    }
    return OK;
}

static int write_entries(Encoder *encoder, const ProtoField *field, const View *view, const Key *keys, int32_t count) {
    const ProtoField *fields = encoder->plan->fields + encoder->plan->messages[field->message].first_field;
    for (int32_t n = 0; n < count; n++) {
        int64_t start;
        int status;
        if (n && compare_keys(&keys[n - 1], &keys[n]) == 0) return fail(encoder, REPEATED_KEY, view);
        if ((status = write_tag(encoder->writer, field, WIRE_BYTES))) return status;
        if ((status = begin_sized(encoder->writer, &start))) return status;
        if ((status = write_element(encoder, &fields[0], view->children[0], keys[n].at))) return status;
        if ((status = write_element(encoder, &fields[1], view->children[1], keys[n].at))) return status;
        if ((status = end_sized(encoder->writer, start))) return status;
    }
    return OK;
}

static int write_map(Encoder *encoder, const ProtoField *field, const View *view, int64_t i) {
    const int32_t *offsets = view->offsets + view->offset + i;
    const ProtoField *key = encoder->plan->fields + encoder->plan->messages[field->message].first_field;
    int32_t count = offsets[1] - offsets[0];
    if (count == 0) return OK;
    Key *keys = malloc((size_t)count * sizeof(Key));
    if (!keys) return NO_MEMORY;
    int status = read_keys(encoder, key, view->children[0], offsets[0], count, keys);
    if (status == OK) {
        for (int32_t n = 1; n < count; n++) {
            if (compare_keys(&keys[n - 1], &keys[n]) > 0) {
                qsort(keys, (size_t)count, sizeof(Key), compare_keys);
                break;
            }
        }
        status = write_entries(encoder, field, view, keys, count);
    }
    free(keys);
    return status;
}

/* -- messages -------------------------------------------------------------------------------------------- */

/* Where several columns of a oneof have a value, the last column counts. */
static int is_cleared(const ProtoField *fields, const ProtoField *field, const View *row, int64_t i) {
    int32_t index = (int32_t)(field - fields);
    for (int32_t n = field->next_in_oneof; n >= 0 && n != index; n = fields[n].next_in_oneof) {
        int32_t target = fields[n].target;
        if (target > field->target && !view_is_null(row->children[target], i)) return 1;
    }
    return 0;
}

static int write_field(Encoder *encoder, const ProtoField *fields, const ProtoField *field, const View *row, int64_t i) {
    const View *view = row->children[field->target];
    int64_t start = encoder->writer->used;
    int status;
    if (view_is_null(view, i)) return OK;
    if (field->flags & PROTO_MAP) return write_map(encoder, field, view, i);
    if (field->flags & PROTO_REPEATED) return write_list(encoder, field, view, i);
    if (!is_cleared(fields, field, row, i)) return write_singular(encoder, field, view, i);
    /* Written and removed again, because a value that cannot be written is an error here too. */
    encoder->partial_depth++;
    status = write_singular(encoder, field, view, i);
    encoder->partial_depth--;
    encoder->writer->used = start;
    return status;
}

static int write_timestamp_fields(Encoder *encoder, const ProtoField *fields, int32_t count, const View *view, int64_t i) {
    static const int64_t units[] = {1, 0, 0, 1000, 0, 0, 1000000, 0, 0, 1000000000};
    int64_t per_second = units[view->fraction_digits], value = view_integer(view, i);
    int64_t seconds = value / per_second - (value % per_second < 0);
    int64_t parts[2] = {seconds, (int64_t)(value - (__int128)seconds * per_second) * (1000000000 / per_second)};
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX) return fail(encoder, BAD_YEAR, view);
    for (int32_t n = 0; n < count; n++) {
        int status;
        if (fields[n].target < 0) continue;
        int64_t part = parts[fields[n].target];
        if (part == 0 && !(fields[n].flags & PROTO_HAS_PRESENCE)) continue;
        if ((status = write_tag(encoder->writer, &fields[n], wire_of(fields[n].type)))) return status;
        if ((status = write_number(encoder->writer, fields[n].type, (uint64_t)part))) return status;
    }
    return OK;
}

/* Writes the fields of a message; `row` NULL is an empty message. */
static int write_fields(Encoder *encoder, const ProtoMessage *message, const View *row, int64_t i) {
    const ProtoField *fields = encoder->plan->fields + message->first_field;
    const int32_t *offsets;
    if (row && message->flags & PROTO_IS_TIMESTAMP) {
        return write_timestamp_fields(encoder, fields, message->field_count, row, i);
    }
    for (int32_t n = 0; n < message->field_count; n++) {
        const ProtoField *field = &fields[n];
        int is_there = row && field->target >= 0 && !view_is_null(row->children[field->target], i);
        if (is_there) {
            int status = write_field(encoder, fields, field, row, i);
            if (status) return status;
        } else if (field->flags & PROTO_IS_REQUIRED && !encoder->partial_depth) {
            offsets = encoder->plan->symbol_offsets + field->name;
            encoder->writer->failed_name = encoder->plan->symbols + offsets[0];
            encoder->writer->failed_name_length = offsets[1] - offsets[0];
            return fail(encoder, MISSING_REQUIRED, row);
        }
    }
    return OK;
}

static int write_message(Encoder *encoder, const ProtoField *field, const View *view, int64_t i) {
    const ProtoMessage *message = &encoder->plan->messages[field->message];
    int64_t start;
    int is_group = field->type == PROTO_GROUP, status;
    if ((status = write_tag(encoder->writer, field, is_group ? WIRE_GROUP : WIRE_BYTES))) return status;
    if (!is_group && (status = begin_sized(encoder->writer, &start))) return status;
    if ((status = write_fields(encoder, message, view, i))) return status;
    return is_group ? write_tag(encoder->writer, field, WIRE_GROUP_END) : end_sized(encoder->writer, start);
}

int protobuf_encode(const View *rows, const ProtoPlan *plan, const uint8_t *header, int64_t header_size,
                    int64_t row_count, Writer *writer) {
    Encoder encoder = {.plan = plan, .writer = writer};
    int status = writer_start(writer, row_count);
    for (int64_t i = 0; i < row_count && status == OK; i++) {
        writer->failed_row = i;
        if ((status = write_bytes(writer, header, header_size))) break;
        status = write_fields(&encoder, &plan->messages[0], rows, i);
        writer->offsets[i + 1] = (int32_t)writer->used;
    }
    return status;
}
