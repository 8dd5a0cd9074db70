/* Avro values to typed columns, by plan.
 *
 * Lengths are checked against what is left of the value before anything is reserved, and elements without bytes are
 * counted over the whole value. So a value of n bytes costs memory and time in proportion to n (at least to
 * EMPTY_ELEMENTS_MAX) and to the schema.
 */
#include "decode.h"
#include "text.h"

#define DEPTH_MAX 1000
/* How many elements without bytes (nulls, empty records) a value may have, if it does not have more bytes. */
#define EMPTY_ELEMENTS_MAX 100000

typedef struct {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    const AvroPlan *plan;
    Output *output;
    int depth;
    int64_t empty_left; /* how many more elements without bytes this value may have */
} Reader;

static int read_value(Reader *reader, int32_t index, Column *column);

static int fail(Reader *reader, int reason, const Column *column) {
    output_fail(reader->output, reader->at - reader->start, column);
    return reason;
}

static inline int64_t left(const Reader *reader) { return reader->end - reader->at; }

static int read_long(Reader *reader, int64_t *value) {
    uint64_t bits = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (reader->at >= reader->end) return fail(reader, TRUNCATED, NULL);
        uint8_t byte = *reader->at++;
        if (shift == 63 && byte > 1) return fail(reader, BAD_VARINT, NULL);
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return OK;
        }
    }
    return fail(reader, BAD_VARINT, NULL);
}

static int read_length(Reader *reader, int64_t *length) {
    int status = read_long(reader, length);
    if (status) return status;
    if (*length < 0) return fail(reader, BAD_LENGTH, NULL);
    return *length > left(reader) ? fail(reader, TRUNCATED, NULL) : OK;
}

static int read_fixed(Reader *reader, int64_t length, const uint8_t **bytes) {
    if (length > left(reader)) return fail(reader, TRUNCATED, NULL);
    *bytes = reader->at;
    reader->at += length;
    return OK;
}

/* -- scalars ------------------------------------------------------------------------------------------- */

/* Arrow and Spark have no time of the day before 00:00 or after 23:59:59.999... */
static int is_outside_of_day(const Column *column, int64_t value) {
    if (column->kind != KIND_TIME32 && column->kind != KIND_TIME64) return 0;
    int64_t day = 86400;
    for (int i = 0; i < column->fraction_digits; i++) day *= 10;
    return value < 0 || value >= day;
}

static int append_whole(Reader *reader, const AvroNode *node, Column *column, int64_t value) {
    int status;
    if (column->kind == KIND_DOUBLE) return column_append_double(column, (double)value);
    if (column->kind == KIND_FLOAT) return column_append_float(column, (float)value);
    if (node->multiplier > 1 && __builtin_mul_overflow(value, node->multiplier, &value)) {
        return fail(reader, OUT_OF_RANGE, column);
    }
    if (node->divisor > 1) value = value / node->divisor - (value % node->divisor < 0);
    if (is_outside_of_day(column, value)) return fail(reader, OUT_OF_RANGE, column);
    status = column_append_integer(column, value);
    return status ? fail(reader, status, column) : OK;
}

static int append_decimal(Reader *reader, const AvroNode *node, Column *column, const uint8_t *bytes, int64_t length) {
    /* Big-endian two's complement. Leading sign bytes are skipped. */
    int is_negative = length > 0 && bytes[0] & 0x80;
    unsigned __int128 bits = is_negative ? ~(unsigned __int128)0 : 0;
    for (; length > 16; bytes++, length--) {
        if (bytes[0] != (is_negative ? 0xff : 0) || (bytes[1] & 0x80) != (is_negative ? 0x80 : 0)) {
            return fail(reader, OUT_OF_RANGE, column);
        }
    }
    for (int64_t i = 0; i < length; i++) bits = bits << 8 | bytes[i];
    unsigned __int128 magnitude = is_negative ? -bits : bits, limit = 1;
    for (int i = 0; i < column->precision; i++) limit *= 10;
    for (int scale = node->scale; scale < column->scale; scale++) {
        /* Before the product, which may be larger than 128 bits. */
        if (magnitude >= limit / 10) return fail(reader, OUT_OF_RANGE, column);
        magnitude *= 10;
    }
    for (int scale = node->scale; scale > column->scale; scale--) {
        if (magnitude % 10) return fail(reader, NOT_INTEGRAL, column);
        magnitude /= 10;
    }
    if (magnitude >= limit) return fail(reader, OUT_OF_RANGE, column);
    return column_append_i128(column, is_negative ? -(__int128)magnitude : (__int128)magnitude);
}

static int append_text_or_bytes(Reader *reader, Column *column, const uint8_t *bytes, int64_t length) {
    if (column->kind == KIND_STRING && !is_utf8(bytes, length)) return fail(reader, TEXT_NOT_UTF8, column);
    return column_append_bytes(column, bytes, length);
}

static int read_floating(Reader *reader, const AvroNode *node, Column *column) {
    const uint8_t *bytes;
    float narrow;
    double wide;
    int status = read_fixed(reader, node->op == AVRO_FLOAT ? 4 : 8, &bytes);
    if (status || !column) return status;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Avro's floats are read as they lie in memory: little-endian machines only"
#endif
    if (node->op == AVRO_FLOAT) {
        memcpy(&narrow, bytes, 4);
        return column->kind == KIND_FLOAT ? column_append_float(column, narrow) : column_append_double(column, narrow);
    }
    memcpy(&wide, bytes, 8);
    return column_append_double(column, wide);
}

static int read_enum(Reader *reader, const AvroNode *node, Column *column) {
    int64_t symbol;
    int status = read_long(reader, &symbol);
    if (status) return status;
    if (symbol < 0 || symbol >= node->size) return fail(reader, BAD_ENUM_INDEX, column);
    if (!column) return OK;
    const int32_t *offsets = reader->plan->symbol_offsets + node->first_symbol + symbol;
    return column_append_bytes(column, reader->plan->symbols + offsets[0], offsets[1] - offsets[0]);
}

static int read_boolean(Reader *reader, Column *column) {
    if (reader->at >= reader->end) return fail(reader, TRUNCATED, NULL);
    uint8_t byte = *reader->at++;
    if (byte > 1) return fail(reader, BAD_BOOLEAN_BYTE, column);
    return column ? column_append_bool(column, byte) : OK;
}

/* -- containers ---------------------------------------------------------------------------------------- */

static int read_record(Reader *reader, const AvroNode *node, Column *column) {
    int status;
    for (int32_t i = 0; i < node->child_count; i++) {
        int32_t child = reader->plan->children[node->first_child + i];
        int32_t target = column ? reader->plan->nodes[child].target : -1;
        status = read_value(reader, child, target >= 0 ? column->children[target] : NULL);
        if (status) return status;
    }
    if (!column) return OK;
    for (int i = 0; i < column->child_count; i++) {
        Column *child = column->children[i];
        if (child->length > column->length) continue;
        if (!child->nullable) return fail(reader, UNEXPECTED_NULL, child);
        if ((status = column_append_null(child))) return status;
    }
    if ((status = column_make_room(column))) return status;
    column_set_valid(column);
    return OK;
}

/* Reads the head of a block: the number of elements, 0 at the end. */
static int read_block(Reader *reader, int64_t *count) {
    int64_t size;
    int status = read_long(reader, count);
    if (status) return status;
    if (*count < 0) {
        if (*count == INT64_MIN) return fail(reader, BAD_LENGTH, NULL);
        *count = -*count;
        if ((status = read_length(reader, &size))) return status;
    }
    return OK;
}

static int read_key(Reader *reader, Column *keys) {
    const uint8_t *bytes;
    int64_t length;
    int status = read_length(reader, &length);
    if (status || (status = read_fixed(reader, length, &bytes))) return status;
    return keys ? append_text_or_bytes(reader, keys, bytes, length) : OK;
}

static int read_blocks(Reader *reader, const AvroNode *node, Column *column) {
    int32_t element = reader->plan->children[node->first_child];
    int is_map = node->op == AVRO_MAP, status;
    Column *items = column ? column->children[is_map] : NULL;
    int64_t first = items ? items->length : 0, count;
    if (column && (status = column_make_room(column))) return status;
    for (;;) {
        if ((status = read_block(reader, &count))) return status;
        if (count == 0) break;
        for (int64_t i = 0; i < count; i++) {
            const uint8_t *before = reader->at;
            if (is_map && (status = read_key(reader, column ? column->children[0] : NULL))) return status;
            if ((status = read_value(reader, element, items))) return status;
            /* The value's bytes do not limit such elements: a count of ten bytes may claim 2**63. */
            if (reader->at == before && reader->empty_left-- == 0) return fail(reader, TOO_MANY_EMPTY, column);
        }
    }
    if (!column) return OK;
    if (is_map) {
        uint8_t *repeated;
        if ((status = column_repeated_keys(column->children[0], first, &repeated))) return status;
        free(repeated);
        if (repeated) return fail(reader, REPEATED_KEY, column);
    }
    return column_finish_list(column, items->length);
}

static int read_union(Reader *reader, const AvroNode *node, Column *column) {
    int64_t branch;
    int status = read_long(reader, &branch);
    if (status) return status;
    if (branch < 0 || branch >= node->child_count) return fail(reader, BAD_UNION_INDEX, column);
    return read_value(reader, reader->plan->children[node->first_child + branch], column);
}

static int read_bytes(Reader *reader, const AvroNode *node, Column *column) {
    const uint8_t *bytes;
    int64_t length = node->size;
    int is_fixed = node->op == AVRO_FIXED || node->op == AVRO_DECIMAL_FIXED, status;
    if (!is_fixed && (status = read_length(reader, &length))) return status;
    if ((status = read_fixed(reader, length, &bytes)) || !column) return status;
    if (node->op == AVRO_DECIMAL_BYTES || node->op == AVRO_DECIMAL_FIXED) {
        return append_decimal(reader, node, column, bytes, length);
    }
    return append_text_or_bytes(reader, column, bytes, length);
}

static int read_null(Reader *reader, Column *column) {
    if (!column) return OK;
    return column->nullable ? column_append_null(column) : fail(reader, UNEXPECTED_NULL, column);
}

static int read_node(Reader *reader, const AvroNode *node, Column *column) {
    int64_t value;
    int status;
    switch (node->op) {
    case AVRO_NULL:
        return read_null(reader, column);
    case AVRO_BOOLEAN:
        return read_boolean(reader, column);
    case AVRO_INT:
    case AVRO_LONG:
        if ((status = read_long(reader, &value))) return status;
        if (node->op == AVRO_INT && (value < INT32_MIN || value > INT32_MAX)) return fail(reader, BAD_INT, column);
        return column ? append_whole(reader, node, column, value) : OK;
    case AVRO_FLOAT:
    case AVRO_DOUBLE:
        return read_floating(reader, node, column);
    case AVRO_ENUM:
        return read_enum(reader, node, column);
    case AVRO_ARRAY:
    case AVRO_MAP:
        return read_blocks(reader, node, column);
    case AVRO_UNION:
        return read_union(reader, node, column);
    case AVRO_RECORD:
        return read_record(reader, node, column);
    case AVRO_MISMATCH:
        return fail(reader, WRONG_TYPE, column);
    default:
        return read_bytes(reader, node, column);
    }
}

static int read_value(Reader *reader, int32_t index, Column *column) {
    if (reader->depth == DEPTH_MAX) return fail(reader, TOO_DEEP, NULL);
    reader->depth++;
    int status = read_node(reader, &reader->plan->nodes[index], column);
    /* The innermost known column, because the readers of numbers do not know their column. */
    if (status && !reader->output->column) reader->output->column = column;
    reader->depth--;
    return status;
}

/* -- values -------------------------------------------------------------------------------------------- */

int avro_decode(Column *root, const AvroPlan *plans, const int32_t *plan_of_value, int64_t header_size,
                const Values *values, Output *output) {
    Reader reader = {.output = output};
    for (int64_t i = 0; i < values->length; i++) {
        int64_t length, base = root->length;
        const uint8_t *value = values_at(values, i, &length);
        if (length == 0 || values_is_null(values, i) || plan_of_value[i] < 0) continue;
        reader.start = value;
        reader.at = value + header_size;
        reader.end = value + length;
        reader.empty_left = left(&reader) > EMPTY_ELEMENTS_MAX ? left(&reader) : EMPTY_ELEMENTS_MAX;
        reader.plan = &plans[plan_of_value[i]];
        int status = read_value(&reader, 0, root);
        if (status == OK && reader.at != reader.end) status = fail(&reader, TRAILING, NULL);
        if (status == NO_MEMORY) return status;
        reader.depth = 0;
        if (status) {
            column_truncate(root, base);
            status = output_add_failure(output, i, status);
        } else {
            status = output_add_row(output, i);
        }
        if (status) return status;
    }
    return OK;
}

/* Confluent's header: a zero byte and the schema's id. -1: no value, -2: no header. */
void confluent_ids(const Values *values, int32_t *ids) {
    for (int64_t i = 0; i < values->length; i++) {
        int64_t length;
        const uint8_t *value = values_at(values, i, &length);
        if (length == 0 || values_is_null(values, i)) {
            ids[i] = -1;
        } else if (length < 5 || value[0] != 0 || value[1] & 0x80) {
            ids[i] = -2;
        } else {
            ids[i] = (int32_t)((uint32_t)value[1] << 24 | (uint32_t)value[2] << 16 | (uint32_t)value[3] << 8 | value[4]);
        }
    }
}
