/* The dialect of CSV, for the decoder and the encoder. */
#ifndef PENSTOCK_FORMATS_CSV_H
#define PENSTOCK_FORMATS_CSV_H

#include <stdint.h>

/* A character in UTF-8, or a longer text; length 0 where it is not set. */
typedef struct {
    const uint8_t *bytes;
    int64_t length;
} Mark;

typedef struct {
    Mark delimiter;
    Mark quote;
    Mark escape;
    Mark element_delimiter;
    Mark null_literal;
    int has_null_literal; /* the literal may be empty */
    int allow_comments;
    int ignore_parse_errors;
    int trim_spaces;
    int ignore_trailing_unmappable;
    int allow_trailing_comma;
    int fail_on_missing_columns;
    int empty_string_as_null;
    int is_decimal_plain;
    int field_count;
    const int32_t *targets; /* for each field its column, -1 for none */
} CsvOptions;

#define CSV_BYTE_ORDER_MARK_BYTES 3

/* A byte order mark at the beginning of a value is not part of its first field. */
static inline int csv_has_byte_order_mark(const uint8_t *text, int64_t length) {
    return length >= CSV_BYTE_ORDER_MARK_BYTES && text[0] == 0xef && text[1] == 0xbb && text[2] == 0xbf;
}

static inline int csv_is_blank(const uint8_t *text, int64_t length) {
    for (int64_t i = 0; i < length; i++) {
        if (text[i] > ' ') return 0;
    }
    return 1;
}

#endif
