/* Arrow rows to CSV records without a line break at the end. csv_decode.c reads them back unchanged. */
#include <math.h>

#include "encode.h"
#include "text.h"

typedef struct {
    const CsvOptions *options;
    Writer *writer;
} Encoder;

static int fail(Encoder *encoder, int reason, const View *view) {
    if (!encoder->writer->failed_view) encoder->writer->failed_view = view;
    return reason;
}

static int holds(const uint8_t *text, int64_t length, const Mark *mark) {
    for (int64_t i = 0; mark->length && i + mark->length <= length; i++) {
        if (text[i] == *mark->bytes && memcmp(text + i, mark->bytes, (size_t)mark->length) == 0) return 1;
    }
    return 0;
}

/* Returns whether a text would not be read back without quotes. */
static int needs_quotes(const CsvOptions *options, const uint8_t *text, int64_t length) {
    if (length == 0) return 0;
    if (*text == '#' || *text <= ' ' || text[length - 1] <= ' ' || csv_has_byte_order_mark(text, length)) return 1;
    for (int64_t i = 0; i < length; i++) {
        if (text[i] == '\n' || text[i] == '\r') return 1;
    }
    return holds(text, length, &options->delimiter) || holds(text, length, &options->quote) ||
           holds(text, length, &options->escape);
}

/* Returns a UTF-16 unit of the character at an index: the first of two for characters above 16 bits. */
static int first_unit(const uint8_t *at) {
    if (*at < 0x80) return *at;
    if (*at < 0xe0) return (at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    if (*at < 0xf0) return (at[0] & 0x0f) << 12 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    return 0xd800;
}

#define UNITS_MAX 24

/*
 * Returns whether Flink writes a text in quotes: it is long, or has a character up to the delimiter and the quote, or
 * an escape character. They are more quotes than a reader needs. But a key of a record is its bytes: with other quotes
 * a row of an upsert table would have two keys, perhaps in two topic partitions. The text is UTF-8.
 */
static int has_quotes_in_flink(const CsvOptions *options, const uint8_t *text, int64_t length) {
    if (!options->quote.length || length == 0) return 0;
    if (length > 3 * UNITS_MAX) return 1;
    int delimiter = first_unit(options->delimiter.bytes), quote = first_unit(options->quote.bytes);
    int most = delimiter > quote ? delimiter : quote, units = 0;
    int escape = options->escape.length ? first_unit(options->escape.bytes) : '\\';
    for (int64_t i = 0; i < length; i++) {
        if ((text[i] & 0xc0) == 0x80) continue;
        int unit = first_unit(text + i);
        if (unit <= most || unit == escape) return 1;
        units += text[i] < 0xf0 ? 1 : 2;
    }
    return units > UNITS_MAX;
}

static int write_quoted(Writer *writer, const CsvOptions *options, const uint8_t *text, int64_t length) {
    const Mark *quote = &options->quote, *escape = &options->escape;
    int status = write_bytes(writer, quote->bytes, quote->length);
    for (int64_t i = 0; i < length && status == OK; i++) {
        int64_t left = length - i;
        if (left >= quote->length && memcmp(text + i, quote->bytes, (size_t)quote->length) == 0) {
            status = write_bytes(writer, quote->bytes, quote->length);
        } else if (escape->length && left >= escape->length && memcmp(text + i, escape->bytes, (size_t)escape->length) == 0) {
            status = write_bytes(writer, escape->bytes, escape->length);
        }
        if (status == OK) status = write_byte(writer, text[i]);
    }
    return status ? status : write_bytes(writer, quote->bytes, quote->length);
}

/* Writes a text; a plain one (numbers, booleans, null) only in the quotes that it needs. */
static int write_text(Encoder *encoder, const View *view, const uint8_t *text, int64_t length, int is_plain) {
    const CsvOptions *options = encoder->options;
    if (!is_utf8(text, length)) return fail(encoder, TEXT_NOT_UTF8, view);
    if (!needs_quotes(options, text, length) && (is_plain || !has_quotes_in_flink(options, text, length))) {
        return write_bytes(encoder->writer, text, length);
    }
    if (!options->quote.length) return fail(encoder, NOT_QUOTABLE, view);
    return write_quoted(encoder->writer, options, text, length);
}

/* Writes a value that is not a struct or a list, without quotes. */
static int write_scalar(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    const uint8_t *bytes;
    int64_t length;
    switch (view->kind) {
    case KIND_BOOL:
        return view_integer(view, i) ? write_bytes(writer, "true", 4) : write_bytes(writer, "false", 5);
    case KIND_FLOAT:
        return write_float(writer, ((const float *)view->values)[view->offset + i]);
    case KIND_DOUBLE:
        return write_double(writer, ((const double *)view->values)[view->offset + i]);
    case KIND_DECIMAL:
        return write_decimal(writer, view_decimal(view, i), view->scale, encoder->options->is_decimal_plain);
    case KIND_DATE:
        return write_date(writer, view_integer(view, i));
    case KIND_TIME32:
    case KIND_TIME64:
        return write_time(writer, view_integer(view, i), view->fraction_digits);
    case KIND_TIMESTAMP:
        return write_timestamp(writer, view_integer(view, i), view->fraction_digits, ' ', view->is_zoned);
    case KIND_BINARY:
        bytes = view_bytes(view, i, &length);
        return write_base64(writer, bytes, length);
    case KIND_STRING:
        bytes = view_bytes(view, i, &length);
        return write_bytes(writer, bytes, length);
    default:
        return write_integer(writer, view_integer(view, i));
    }
}

static int is_null_literal(const CsvOptions *options, const uint8_t *text, int64_t length) {
    const Mark *null = &options->null_literal;
    return options->has_null_literal && length == null->length && memcmp(text, null->bytes, (size_t)length) == 0;
}

/* Returns whether Flink has a text for a value of this kind, and not a number or boolean. */
static int is_text(const View *view) {
    switch (view->kind) {
    case KIND_STRING:
    case KIND_BINARY:
    case KIND_DATE:
    case KIND_TIME32:
    case KIND_TIME64:
    case KIND_TIMESTAMP:
    case KIND_LIST:
    case KIND_STRUCT:
        return 1;
    default:
        return 0;
    }
}

/* Writes the writer's text from `start` on again, in quotes where it has quotes. */
static int rewrite_text(Encoder *encoder, const View *view, int64_t start) {
    Writer *writer = encoder->writer;
    int64_t length = writer->used - start;
    if (!is_text(view) && !needs_quotes(encoder->options, writer->bytes + start, length)) return OK;
    uint8_t *copy = malloc((size_t)length + 1);
    if (!copy) return NO_MEMORY;
    memcpy(copy, writer->bytes + start, (size_t)length);
    writer->used = start;
    int status = write_text(encoder, view, copy, length, !is_text(view));
    free(copy);
    return status;
}

/* Returns the first index of the element delimiter in a text; the text may end with the delimiter. */
static int64_t find_delimiter(const CsvOptions *options, const uint8_t *text, int64_t length) {
    const Mark *mark = &options->element_delimiter;
    for (int64_t i = 0; i + mark->length <= length; i++) {
        if (memcmp(text + i, mark->bytes, (size_t)mark->length) == 0) return i;
    }
    return length;
}

/* Checks that an element, the writer's text from `start` on, would read back unchanged. */
static int check_element(Encoder *encoder, const View *view, int64_t start, int is_null) {
    const CsvOptions *options = encoder->options;
    const uint8_t *text = encoder->writer->bytes + start;
    int64_t length = encoder->writer->used - start;
    if (length == 0) return OK;
    if (!is_null && is_null_literal(options, text, length)) return fail(encoder, IS_NULL_LITERAL, view);
    int has_blank_end = *text <= ' ' || text[length - 1] <= ' ';
    return options->trim_spaces && has_blank_end ? fail(encoder, AMBIGUOUS_TEXT, view) : OK;
}

/* Writes an element, and the delimiter after it if it is not the last one. */
static int write_element(Encoder *encoder, const View *view, int64_t i, int is_last) {
    const CsvOptions *options = encoder->options;
    const Mark *null = &options->null_literal, *mark = &options->element_delimiter;
    Writer *writer = encoder->writer;
    int64_t start = writer->used;
    int is_null = view_is_null(view, i);
    int status = is_null ? write_bytes(writer, null->bytes, null->length) : write_scalar(encoder, view, i);
    if (status) return fail(encoder, status, view);
    if ((status = check_element(encoder, view, start, is_null))) return status;
    int64_t length = writer->used - start;
    if (!is_last && (status = write_bytes(writer, mark->bytes, mark->length))) return status;
    /* `a|` before the delimiter `||` would be read as `a` and `|`... */
    int64_t found = find_delimiter(options, writer->bytes + start, writer->used - start);
    return found == length ? OK : fail(encoder, HAS_ELEMENT_DELIMITER, view);
}

/* Writes the elements one after the other first, then all of them again as one text. */
static int write_elements(Encoder *encoder, const View *view, int64_t i) {
    Writer *writer = encoder->writer;
    int64_t start = writer->used;
    int is_list = view->kind == KIND_LIST, status = OK;
    const int32_t *offsets = view->offsets + view->offset + i;
    int64_t count = is_list ? offsets[1] - offsets[0] : view->child_count;
    for (int64_t n = 0; n < count && status == OK; n++) {
        const View *child = view->children[is_list ? 0 : n];
        status = write_element(encoder, child, is_list ? offsets[0] + n : i, n == count - 1);
    }
    if (status) return status;
    const uint8_t *text = writer->bytes + start;
    int64_t length = writer->used - start;
    /* One null or empty element has the same text as a null or empty array. A blank array is empty too. */
    int is_empty = is_list ? csv_is_blank(text, length) : length == 0;
    if (count > 0 && (is_empty || is_null_literal(encoder->options, text, length))) {
        return fail(encoder, AMBIGUOUS_TEXT, view);
    }
    return rewrite_text(encoder, view, start);
}

static int write_field(Encoder *encoder, const View *view, int64_t i) {
    const CsvOptions *options = encoder->options;
    const Mark *null = &options->null_literal;
    const uint8_t *text;
    int64_t length, start = encoder->writer->used;
    if (view_is_null(view, i)) return write_text(encoder, view, null->bytes, null->length, 1);
    if (view->kind == KIND_LIST || view->kind == KIND_STRUCT) return write_elements(encoder, view, i);
    if (view->kind == KIND_STRING) {
        text = view_bytes(view, i, &length);
        /* With an empty literal, empty text means null. */
        if (length && is_null_literal(options, text, length)) return fail(encoder, IS_NULL_LITERAL, view);
        return write_text(encoder, view, text, length, 0);
    }
    int status = write_scalar(encoder, view, i);
    if (status) return fail(encoder, status, view);
    length = encoder->writer->used - start;
    if (length && is_null_literal(options, encoder->writer->bytes + start, length)) {
        return fail(encoder, IS_NULL_LITERAL, view);
    }
    /* The text of numbers and dates may contain a delimiter such as '-' or '.'. */
    return rewrite_text(encoder, view, start);
}

static int write_record(Encoder *encoder, const View *rows, int64_t i) {
    const CsvOptions *options = encoder->options;
    Writer *writer = encoder->writer;
    int64_t start = writer->used;
    int status = OK;
    for (int c = 0; c < rows->child_count && status == OK; c++) {
        if (c && (status = write_bytes(writer, options->delimiter.bytes, options->delimiter.length))) return status;
        status = write_field(encoder, rows->children[c], i);
    }
    if (status || writer->used > start || rows->child_count == 0) return status;
    /* One empty field: without quotes it would be an empty value, which gives no row. */
    if (!options->quote.length) return fail(encoder, AMBIGUOUS_TEXT, rows->children[0]);
    return write_quoted(writer, options, (const uint8_t *)"", 0);
}

int csv_encode(const View *rows, const CsvOptions *options, int64_t row_count, Writer *writer) {
    Encoder encoder = {.options = options, .writer = writer};
    int status = writer_start(writer, row_count);
    if (status) return status;
    use_c_locale(1);
    for (int64_t i = 0; i < row_count && status == OK; i++) {
        writer->failed_row = i;
        status = write_record(&encoder, rows, i);
        writer->offsets[i + 1] = (int32_t)writer->used;
    }
    use_c_locale(0);
    return status;
}
