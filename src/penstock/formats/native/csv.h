/* How CSV is written; the same for both directions. */
#ifndef PENSTOCK_FORMATS_CSV_H
#define PENSTOCK_FORMATS_CSV_H

#include <stdint.h>

/* A character in UTF-8, or a longer text; length 0 where there is none. */
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
    int has_null_literal; /* which may be empty */
    int allow_comments;
    int ignore_parse_errors;
    int trim_spaces;
    int ignore_trailing_unmappable;
    int allow_trailing_comma;
    int fail_on_missing_columns;
    int empty_string_as_null;
    int is_decimal_plain;
    int field_count;
    const int32_t *targets; /* for each field the column that it goes to, -1 for none */
} CsvOptions;

#define CSV_BYTE_ORDER_MARK_BYTES 3

/* A value may begin with one, which is not part of its first field. */
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
