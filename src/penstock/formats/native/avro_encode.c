/* Arrow rows to Avro values, by plan. */
#include "encode.h"
#include "text.h"

typedef struct {
    const AvroPlan *plan;
    Writer *writer;
} Encoder;

static int write_value(Encoder *encoder, int32_t index, const View *view, int64_t i);

static int fail(Encoder *encoder, int reason, const View *view) {
    if (!encoder->writer->failed_view) encoder->writer->failed_view = view;
    return reason;
}

static int write_long(Writer *writer, int64_t value) {
    uint8_t bytes[10];
    int count = 0;
    uint64_t bits = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; bits >= 0x80; bits >>= 7) bytes[count++] = (uint8_t)(bits | 0x80);
    bytes[count++] = (uint8_t)bits;
    return write_bytes(writer, bytes, count);
}

static int write_sized(Writer *writer, const uint8_t *bytes, int64_t length) {
    int status = write_long(writer, length);
    return status ? status : write_bytes(writer, bytes, length);
}

static int write_whole(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    int64_t value = view_integer(view, i);
    if (node->multiplier > 1 && __builtin_mul_overflow(value, node->multiplier, &value)) {
        return fail(encoder, OUT_OF_RANGE, view);
    }
    if (node->divisor > 1 && value % node->divisor) return fail(encoder, NOT_INTEGRAL, view);
    if (node->divisor > 1) value /= node->divisor;
    if (node->op == AVRO_INT && (value < INT32_MIN || value > INT32_MAX)) return fail(encoder, OUT_OF_RANGE, view);
    return write_long(encoder->writer, value);
}

static int write_avro_decimal(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    __int128 value = view_decimal(view, i);
    uint8_t bytes[16];
    for (int n = 0; n < 16; n++) bytes[15 - n] = (uint8_t)((unsigned __int128)value >> (8 * n));
    int first = 0;
    if (node->op == AVRO_DECIMAL_FIXED) {
        /* Fills the front with sign bytes. */
        for (int64_t n = 16; n < node->size; n++) {
            int status = write_byte(encoder->writer, value < 0 ? 0xff : 0);
            if (status) return status;
        }
        first = node->size < 16 ? 16 - (int)node->size : 0;
        for (int n = 0; n < first; n++) {
            if (bytes[n] != (value < 0 ? 0xff : 0)) return fail(encoder, OUT_OF_RANGE, view);
        }
        if (first && (bytes[first] & 0x80) != (value < 0 ? 0x80 : 0)) return fail(encoder, OUT_OF_RANGE, view);
        return write_bytes(encoder->writer, bytes + first, 16 - first);
    }
    while (first < 15 && bytes[first] == (value < 0 ? 0xff : 0) && (bytes[first + 1] & 0x80) == (value < 0 ? 0x80 : 0)) {
        first++;
    }
    return write_sized(encoder->writer, bytes + first, 16 - first);
}

static int write_floating_value(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    float narrow = view->kind == KIND_FLOAT ? ((const float *)view->values)[view->offset + i] : 0;
    if (node->op == AVRO_FLOAT) return write_bytes(encoder->writer, &narrow, 4);
    double wide = view->kind == KIND_FLOAT ? (double)narrow : ((const double *)view->values)[view->offset + i];
    return write_bytes(encoder->writer, &wide, 8);
}

static int write_symbol(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    const int32_t *offsets = encoder->plan->symbol_offsets + node->first_symbol;
    int64_t length;
    const uint8_t *text = view_bytes(view, i, &length);
    for (int64_t n = 0; n < node->size; n++) {
        if (offsets[n + 1] - offsets[n] != length) continue;
        if (memcmp(encoder->plan->symbols + offsets[n], text, (size_t)length) == 0) return write_long(encoder->writer, n);
    }
    return fail(encoder, WRONG_TYPE, view);
}

static int write_binary(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    int64_t length;
    const uint8_t *bytes = view_bytes(view, i, &length);
    if (node->op == AVRO_STRING && !is_utf8(bytes, length)) return fail(encoder, TEXT_NOT_UTF8, view);
    if (node->op != AVRO_FIXED) return write_sized(encoder->writer, bytes, length);
    return length == node->size ? write_bytes(encoder->writer, bytes, length) : fail(encoder, OUT_OF_RANGE, view);
}

static int write_blocks(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    const int32_t *offsets = view->offsets + view->offset + i;
    int32_t element = encoder->plan->children[node->first_child];
    int is_map = node->op == AVRO_MAP, status = OK;
    if (offsets[1] > offsets[0]) status = write_long(encoder->writer, offsets[1] - offsets[0]);
    for (int32_t at = offsets[0]; at < offsets[1] && status == OK; at++) {
        if (is_map) {
            int64_t length;
            const uint8_t *key = view_bytes(view->children[0], at, &length);
            if (!is_utf8(key, length)) return fail(encoder, TEXT_NOT_UTF8, view->children[0]);
            if ((status = write_sized(encoder->writer, key, length))) return status;
        }
        status = write_value(encoder, element, view->children[is_map], at);
    }
    return status ? status : write_long(encoder->writer, 0);
}

static int write_record(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    int status = OK;
    for (int32_t n = 0; n < node->child_count && status == OK; n++) {
        int32_t child = encoder->plan->children[node->first_child + n];
        int32_t target = encoder->plan->nodes[child].target;
        status = write_value(encoder, child, target >= 0 ? view->children[target] : NULL, i);
    }
    return status;
}

static int write_union(Encoder *encoder, const AvroNode *node, const View *view, int64_t i) {
    int is_null = !view || view_is_null(view, i);
    int32_t branch = is_null ? node->null_branch : node->value_branch;
    if (branch < 0) return fail(encoder, is_null ? UNEXPECTED_NULL : WRONG_TYPE, view);
    int status = write_long(encoder->writer, branch);
    if (status || is_null) return status;
    return write_value(encoder, encoder->plan->children[node->first_child + branch], view, i);
}

static int write_value(Encoder *encoder, int32_t index, const View *view, int64_t i) {
    const AvroNode *node = &encoder->plan->nodes[index];
    if (node->op == AVRO_UNION) return write_union(encoder, node, view, i);
    if (node->op == AVRO_NULL) return OK;
    if (!view || view_is_null(view, i)) return fail(encoder, UNEXPECTED_NULL, view);
    switch (node->op) {
    case AVRO_BOOLEAN:
        return write_byte(encoder->writer, (int)view_integer(view, i));
    case AVRO_INT:
    case AVRO_LONG:
        return write_whole(encoder, node, view, i);
    case AVRO_FLOAT:
    case AVRO_DOUBLE:
        return write_floating_value(encoder, node, view, i);
    case AVRO_ENUM:
        return write_symbol(encoder, node, view, i);
    case AVRO_ARRAY:
    case AVRO_MAP:
        return write_blocks(encoder, node, view, i);
    case AVRO_RECORD:
        return write_record(encoder, node, view, i);
    case AVRO_DECIMAL_BYTES:
    case AVRO_DECIMAL_FIXED:
        return write_avro_decimal(encoder, node, view, i);
    default:
        return write_binary(encoder, node, view, i);
    }
}

int avro_encode(const View *rows, const AvroPlan *plan, const uint8_t *header, int64_t header_size, int64_t row_count,
                Writer *writer) {
    Encoder encoder = {.plan = plan, .writer = writer};
    int status = writer_start(writer, row_count);
    for (int64_t i = 0; i < row_count && status == OK; i++) {
        writer->failed_row = i;
        if ((status = write_bytes(writer, header, header_size))) break;
        status = write_value(&encoder, 0, rows, i);
        writer->offsets[i + 1] = (int32_t)writer->used;
    }
    return status;
}
