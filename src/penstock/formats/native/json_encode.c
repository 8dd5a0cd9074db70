/* Arrow rows to JSON objects, one value for each row. json_decode.c reads them back unchanged. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include <math.h>

#include "encode.h"
#include "text.h"

typedef struct {
    const JsonEncodeOptions *options;
    Writer *writer;
} Encoder;

static int encode_value(Encoder *encoder, const View *view, int64_t i);

static int fail(Encoder *encoder, int reason, const View *view) {
    if (!encoder->writer->failed_view) encoder->writer->failed_view = view;
    return reason;
}

static int write_unit(Writer *writer, int unit) {
    static const char hex[] = "0123456789ABCDEF";
    char text[6] = {'\\', 'u', hex[unit >> 12], hex[unit >> 8 & 15], hex[unit >> 4 & 15], hex[unit & 15]};
    return write_bytes(writer, text, 6);
}

static int write_escape(Writer *writer, uint8_t c) {
    static const char short_forms[] = "btn_fr";
    if (c == '"' || c == '\\') return write_bytes(writer, c == '"' ? "\\\"" : "\\\\", 2);
    if (c >= 8 && c <= 13 && c != 11) {
        char text[2] = {'\\', short_forms[c - 8]};
        return write_bytes(writer, text, 2);
    }
    return write_unit(writer, c);
}

/* Writes a character of four bytes as its two UTF-16 units. */
static int write_units(Writer *writer, const uint8_t *at) {
    int character = (at[0] & 0x07) << 18 | (at[1] & 0x3f) << 12 | (at[2] & 0x3f) << 6 | (at[3] & 0x3f);
    int status = write_unit(writer, 0xd7c0 + (character >> 10));
    return status ? status : write_unit(writer, 0xdc00 | (character & 0x3ff));
}

/*
 * Returns whether the byte stands for itself. Characters above 16 bits do not need an escape. But a key of a record
 * is its bytes: written in two ways, a row of an upsert table would have two keys, perhaps in two topic partitions.
 */
static int is_written_as_it_is(uint8_t byte) {
    return (uint8_t)(byte - 0x20) < 0xf0 - 0x20 && byte != '"' && byte != '\\';
}

static int write_text(Encoder *encoder, const View *view, const uint8_t *text, int64_t length) {
    Writer *writer = encoder->writer;
    int status;
    if (!is_utf8(text, length)) return fail(encoder, TEXT_NOT_UTF8, view);
    if ((status = write_byte(writer, '"'))) return status;
    int64_t start = 0;
    for (int64_t i = 0; i < length; i++) {
        if (is_written_as_it_is(text[i])) continue;
        if ((status = write_bytes(writer, text + start, i - start))) return status;
        int is_above = text[i] >= 0xf0;
        if ((status = is_above ? write_units(writer, text + i) : write_escape(writer, text[i]))) return status;
        i += is_above ? 3 : 0;
        start = i + 1;
    }
    if ((status = write_bytes(writer, text + start, length - start))) return status;
    return write_byte(writer, '"');
}

static int encode_floating(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    int is_float = view->kind == KIND_FLOAT;
    float narrow = is_float ? ((const float *)view->values)[view->offset + i] : 0;
    double value = is_float ? (double)narrow : ((const double *)view->values)[view->offset + i];
    /* JSON does not have NaN and infinity. Jackson writes them as strings, and reads them back. */
    int is_quoted = !isfinite(value), status;
    if (is_quoted && (status = write_byte(writer, '"'))) return status;
    if ((status = is_float ? write_float(writer, narrow) : write_double(writer, value))) return status;
    return is_quoted ? write_byte(writer, '"') : OK;
}

static int encode_quoted(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    const uint8_t *bytes;
    int64_t length;
    int status = write_byte(writer, '"');
    if (status) return status;
    switch (view->kind) {
    case KIND_DATE:
        status = write_date(writer, view_integer(view, i));
        break;
    case KIND_TIMESTAMP:
        status = write_timestamp(writer, view_integer(view, i), view->fraction_digits, encoder->options->separator,
                                 view->is_zoned);
        break;
    case KIND_BINARY:
        bytes = view_bytes(view, i, &length);
        status = write_base64(writer, bytes, length);
        break;
    default:
        status = write_time(writer, view_integer(view, i), view->fraction_digits);
    }
    if (status) return fail(encoder, status, view);
    return write_byte(writer, '"');
}

static int encode_struct(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    int status = write_byte(writer, '{'), is_first = 1;
    for (int c = 0; c < view->child_count && status == OK; c++) {
        const View *child = view->children[c];
        if (encoder->options->ignores_null_fields && view_is_null(child, i)) continue;
        if (!is_first && (status = write_byte(writer, ','))) return status;
        is_first = 0;
        if ((status = write_bytes(writer, child->label, child->label_length))) return status;
        status = encode_value(encoder, child, i);
    }
    return status ? status : write_byte(writer, '}');
}

static int encode_list(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    const int32_t *offsets = view->offsets + view->offset + i;
    int status = write_byte(writer, '[');
    for (int32_t at = offsets[0]; at < offsets[1] && status == OK; at++) {
        if (at > offsets[0] && (status = write_byte(writer, ','))) return status;
        status = encode_value(encoder, view->children[0], at);
    }
    return status ? status : write_byte(writer, ']');
}

static int encode_key(Encoder *encoder, const View *keys, int64_t i) {
    int64_t length; /* Arrow has no null keys */
    const uint8_t *key = view_bytes(keys, i, &length);
    return write_text(encoder, keys, key, length);
}

static int encode_map(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    const View *keys = view->children[0];
    const int32_t *offsets = view->offsets + view->offset + i;
    int status = write_byte(writer, '{');
    for (int32_t at = offsets[0]; at < offsets[1] && status == OK; at++) {
        if (at > offsets[0] && (status = write_byte(writer, ','))) return status;
        if ((status = encode_key(encoder, keys, at))) return status;
        if ((status = write_byte(writer, ':'))) return status;
        status = encode_value(encoder, view->children[1], at);
    }
    return status ? status : write_byte(writer, '}');
}

static int encode_value(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    const uint8_t *text;
    int64_t length;
    if (view_is_null(view, i)) return write_bytes(writer, "null", 4);
    switch (view->kind) {
    case KIND_BOOL:
        return view_integer(view, i) ? write_bytes(writer, "true", 4) : write_bytes(writer, "false", 5);
    case KIND_INT8:
    case KIND_INT16:
    case KIND_INT32:
    case KIND_INT64:
        return write_integer(writer, view_integer(view, i));
    case KIND_FLOAT:
    case KIND_DOUBLE:
        return encode_floating(encoder, view, i);
    case KIND_DECIMAL:
        return write_decimal(writer, view_decimal(view, i), view->scale, encoder->options->is_decimal_plain);
    case KIND_STRING:
        text = view_bytes(view, i, &length);
        return write_text(encoder, view, text, length);
    case KIND_STRUCT:
        return encode_struct(encoder, view, i);
    case KIND_LIST:
        return encode_list(encoder, view, i);
    case KIND_MAP:
        return encode_map(encoder, view, i);
    default:
        return encode_quoted(encoder, view, i);
    }
}

int json_encode(const View *rows, const JsonEncodeOptions *options, int64_t row_count, Writer *writer) {
    Encoder encoder = {.options = options, .writer = writer};
    int status = writer_start(writer, row_count);
    if (status) return status;
    use_c_locale(1);
    for (int64_t i = 0; i < row_count && status == OK; i++) {
        writer->failed_row = i;
        status = encode_struct(&encoder, rows, i);
        writer->offsets[i + 1] = (int32_t)writer->used;
    }
    use_c_locale(0);
    return status;
}
