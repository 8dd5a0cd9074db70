/* JSON values to typed columns, by schema, one value at a time.
 *
 * The whole value is checked against RFC 8259, the fields that nobody asked for included, so what is accepted
 * does not depend on the columns that a query reads. Recursion goes as deep as the schema; what is skipped
 * is walked with a stack of 1,000 levels. Time is linear in the value.
 */
#include "decode.h"
#include "text.h"

#define DEPTH_MAX 1000

typedef struct {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    const JsonOptions *options;
    Output *output;
    uint8_t *scratch;
    int64_t scratch_capacity;
} Parser;

typedef struct {
    const uint8_t *start; /* behind the opening quote */
    const uint8_t *end;   /* the closing quote */
    int has_escapes;
} Text;

static int parse_value(Parser *parser, Column *column);

static int fail(Parser *parser, int reason, const Column *column) {
    parser->output->position = parser->at - parser->start;
    parser->output->column = column;
    return reason;
}

static int bad_syntax(Parser *parser) {
    return fail(parser, parser->at >= parser->end ? TRUNCATED : BAD_SYNTAX, NULL);
}

static inline void skip_space(Parser *parser) {
    const uint8_t *at = parser->at;
    while (at < parser->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    parser->at = at;
}

static inline int peek(const Parser *parser) { return parser->at < parser->end ? *parser->at : -1; }

/* -- strings ------------------------------------------------------------------------------------------- */

#define ONES 0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

static inline uint64_t has_zero_byte(uint64_t word) { return (word - ONES) & ~word & HIGHS; }

/* The next quote or backslash. */
static inline const uint8_t *find_special(const uint8_t *at, const uint8_t *end) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t hit = has_zero_byte(word ^ (ONES * '"')) | has_zero_byte(word ^ (ONES * '\\'));
        if (hit) return at + (__builtin_ctzll(hit) >> 3);
        at += 8;
    }
#endif
    while (at < end && *at != '"' && *at != '\\') at++;
    return at;
}

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int hex_unit(const uint8_t *at) {
    int unit = 0;
    for (int i = 0; i < 4; i++) unit = unit << 4 | hex_digit(at[i]);
    return unit;
}

/* At a backslash: checks the escape and steps behind it. */
static int check_escape(Parser *parser) {
    parser->at++;
    if (parser->at >= parser->end) return bad_syntax(parser);
    switch (*parser->at++) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return OK;
    case 'u':
        for (int i = 0; i < 4; i++, parser->at++) {
            if (parser->at >= parser->end || hex_digit(*parser->at) < 0) return bad_syntax(parser);
        }
        return OK;
    default:
        parser->at--;
        return bad_syntax(parser);
    }
}

/* At an opening quote. Control characters stand for themselves, as in Flink. */
static inline int scan_string(Parser *parser, Text *text) {
    text->start = ++parser->at;
    text->has_escapes = 0;
    for (;;) {
        parser->at = find_special(parser->at, parser->end);
        if (parser->at >= parser->end) return bad_syntax(parser);
        if (*parser->at == '"') break;
        text->has_escapes = 1;
        int status = check_escape(parser);
        if (status) return status;
    }
    text->end = parser->at++;
    return OK;
}

static uint8_t *put_utf8(uint8_t *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (uint8_t)code;
    } else if (code < 0x800) {
        *out++ = (uint8_t)(0xc0 | code >> 6);
        *out++ = (uint8_t)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (uint8_t)(0xe0 | code >> 12);
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (code & 0x3f));
    } else {
        *out++ = (uint8_t)(0xf0 | code >> 18);
        *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3f));
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (code & 0x3f));
    }
    return out;
}

/* Decodes \uXXXX, a pair of surrogates included; returns the next input, or NULL for a lone surrogate. */
static const uint8_t *unescape_unit(const uint8_t *at, const uint8_t *end, uint8_t **out) {
    uint32_t code = (uint32_t)hex_unit(at);
    at += 4;
    if (code >= 0xdc00 && code <= 0xdfff) return NULL;
    if (code >= 0xd800 && code <= 0xdbff) {
        if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return NULL;
        uint32_t low = (uint32_t)hex_unit(at + 2);
        if (low < 0xdc00 || low > 0xdfff) return NULL;
        at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *out = put_utf8(*out, code);
    return at;
}

/* Unescapes a checked string; what comes out is never longer. Returns the end, NULL for a lone surrogate. */
static uint8_t *unescape(const Text *text, uint8_t *out) {
    const uint8_t *at = text->start;
    while (at < text->end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        uint8_t c = at[1];
        at += 2;
        switch (c) {
        case 'b': *out++ = '\b'; break;
        case 'f': *out++ = '\f'; break;
        case 'n': *out++ = '\n'; break;
        case 'r': *out++ = '\r'; break;
        case 't': *out++ = '\t'; break;
        case 'u':
            at = unescape_unit(at, text->end, &out);
            if (!at) return NULL;
            break;
        default: *out++ = c;
        }
    }
    return out;
}

/* The text without escapes: where it lies, or in the scratch buffer. */
static int plain_text(Parser *parser, const Text *text, const uint8_t **start, int64_t *length) {
    *start = text->start;
    *length = text->end - text->start;
    if (!text->has_escapes) return OK;
    if (parser->scratch_capacity < *length) {
        uint8_t *larger = realloc(parser->scratch, (size_t)*length);
        if (!larger) return NO_MEMORY;
        parser->scratch = larger;
        parser->scratch_capacity = *length;
    }
    uint8_t *end = unescape(text, parser->scratch);
    if (!end) return LONE_SURROGATE;
    *start = parser->scratch;
    *length = end - parser->scratch;
    return OK;
}

static int append_string(Parser *parser, Column *column, const Text *text) {
    int64_t length = text->end - text->start;
    if (!text->has_escapes) return column_append_bytes(column, text->start, length);
    uint8_t *out;
    int status = column_make_room(column);
    if (status) return status;
    status = column_bytes_room(column, length, &out);
    if (status) return status;
    uint8_t *end = unescape(text, out);
    if (!end) return fail(parser, LONE_SURROGATE, column);
    column_finish_bytes(column, end - out);
    return OK;
}

/* -- skipping ------------------------------------------------------------------------------------------ */

static int expect_word(Parser *parser, const char *word, int64_t length) {
    if (parser->end - parser->at < length || memcmp(parser->at, word, (size_t)length) != 0) return bad_syntax(parser);
    parser->at += length;
    return OK;
}

static int skip_number(Parser *parser) {
    Number number;
    const uint8_t *end = scan_number(parser->at, parser->end, STRICT_JSON, &number);
    if (!end) return bad_syntax(parser);
    parser->at = end;
    return OK;
}

static int skip_scalar(Parser *parser) {
    Text text;
    switch (peek(parser)) {
    case '"': return scan_string(parser, &text);
    case 't': return expect_word(parser, "true", 4);
    case 'f': return expect_word(parser, "false", 5);
    case 'n': return expect_word(parser, "null", 4);
    default: return skip_number(parser);
    }
}

/* `"key" :` */
static int skip_key(Parser *parser, Text *key) {
    skip_space(parser);
    if (peek(parser) != '"') return bad_syntax(parser);
    int status = scan_string(parser, key);
    if (status) return status;
    skip_space(parser);
    if (peek(parser) != ':') return bad_syntax(parser);
    parser->at++;
    return OK;
}

static int skip_value(Parser *parser) {
    uint8_t closers[DEPTH_MAX];
    int depth = 0, status;
    Text key;
    for (;;) {
        skip_space(parser);
        int c = peek(parser);
        if (c == '{' || c == '[') {
            if (depth == DEPTH_MAX) return fail(parser, TOO_DEEP, NULL);
            closers[depth++] = c == '{' ? '}' : ']';
            parser->at++;
            skip_space(parser);
            if (peek(parser) != closers[depth - 1]) {
                if (c == '{' && (status = skip_key(parser, &key))) return status;
                continue;
            }
        } else if ((status = skip_scalar(parser))) {
            return status;
        }
        /* A value has ended, or an empty object or array is about to. */
        for (;;) {
            if (depth == 0) return OK;
            skip_space(parser);
            c = peek(parser);
            if (c == closers[depth - 1]) {
                parser->at++;
                depth--;
                continue;
            }
            /* Only behind a value: an empty object or array has been closed above. */
            if (c != ',') return bad_syntax(parser);
            parser->at++;
            if (closers[depth - 1] == '}' && (status = skip_key(parser, &key))) return status;
            break;
        }
    }
}

/* -- typed values -------------------------------------------------------------------------------------- */

static int append_scalar_text(Parser *parser, Column *column, const Text *text) {
    const uint8_t *start;
    int64_t length;
    int status = plain_text(parser, text, &start, &length);
    if (status == OK) {
        status = column->kind == KIND_BINARY ? append_base64(column, start, length)
                                             : append_text(column, start, length, parser->options->separator);
    }
    return status ? fail(parser, status, column) : OK;
}

/* The text of an object or array without the space between its tokens. */
static int append_compact(Parser *parser, Column *column, const uint8_t *at, const uint8_t *end) {
    uint8_t *out, *start;
    int status = column_make_room(column);
    if (status) return status;
    status = column_bytes_room(column, end - at, &start);
    if (status) return status;
    out = start;
    int is_inside = 0;
    for (; at < end; at++) {
        uint8_t c = *at;
        if (!is_inside && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) continue;
        *out++ = c;
        if (c == '"') is_inside = !is_inside;
        if (c == '\\') *out++ = *++at;
    }
    (void)parser;
    column_finish_bytes(column, out - start);
    return OK;
}

static int parse_string_column(Parser *parser, Column *column) {
    Text text;
    int status;
    int c = peek(parser);
    if (c == '"') {
        if ((status = scan_string(parser, &text))) return status;
        return append_string(parser, column, &text);
    }
    const uint8_t *start = parser->at;
    if ((status = skip_value(parser))) return status;
    if (c == '{' || c == '[') return append_compact(parser, column, start, parser->at);
    return column_append_bytes(column, start, parser->at - start);
}

static int parse_scalar(Parser *parser, Column *column) {
    Text text;
    Number number;
    int status, c = peek(parser);
    if (c == '"') {
        if ((status = scan_string(parser, &text))) return status;
        return append_scalar_text(parser, column, &text);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        const uint8_t *end = scan_number(parser->at, parser->end, STRICT_JSON, &number);
        if (!end) return bad_syntax(parser);
        status = append_number(column, &number);
        if (status) return fail(parser, status, column);
        parser->at = end;
        return OK;
    }
    if ((c == 't' || c == 'f') && column->kind == KIND_BOOL) {
        status = c == 't' ? expect_word(parser, "true", 4) : expect_word(parser, "false", 5);
        return status ? status : column_append_bool(column, c == 't');
    }
    const uint8_t *start = parser->at;
    if ((status = skip_value(parser))) return status;
    parser->at = start;
    return fail(parser, WRONG_TYPE, column);
}

/* A value that must be an object or array and is not: still has to be JSON. */
static int wrong_container(Parser *parser, const Column *column) {
    const uint8_t *start = parser->at;
    int status = skip_value(parser);
    if (status) return status;
    parser->at = start;
    return fail(parser, WRONG_TYPE, column);
}

/* Parses one value into `child`, which has `base` entries; with ignored errors, null where it fails. */
static inline int parse_child(Parser *parser, Column *child, int64_t base) {
    const uint8_t *start = parser->at;
    int status = parse_value(parser, child);
    if (status < FIRST_FIELD_REASON || !parser->options->ignore_parse_errors || !child->nullable) return status;
    column_truncate(child, base);
    parser->at = start;
    status = skip_value(parser);
    return status ? status : column_append_null(child);
}

static inline int is_expected_key(const Parser *parser, const Column *child) {
    /* At an opening quote. */
    int64_t length = child->name_length;
    return child->is_name_plain && parser->end - parser->at > length + 1 && parser->at[length + 1] == '"' &&
           memcmp(parser->at + 1, child->name, (size_t)length) == 0;
}

/* Reads a key and the colon; *index is the child of that name or -1. */
static int parse_key(Parser *parser, Column *column, int expected, int *index) {
    Text key;
    if (peek(parser) != '"') return bad_syntax(parser);
    if (expected < column->child_count && is_expected_key(parser, column->children[expected])) {
        parser->at += column->children[expected]->name_length + 2;
        *index = expected;
    } else {
        const uint8_t *start;
        int64_t length;
        int status = scan_string(parser, &key);
        if (status) return status;
        status = plain_text(parser, &key, &start, &length);
        if (status == NO_MEMORY) return status;
        *index = status ? -1 : column_find(column, start, length);
    }
    skip_space(parser);
    if (peek(parser) != ':') return bad_syntax(parser);
    parser->at++;
    skip_space(parser);
    return OK;
}

static int finish_struct(Parser *parser, Column *column) {
    int64_t base = column->length;
    for (int i = 0; i < column->child_count; i++) {
        Column *child = column->children[i];
        if (child->length > base) continue;
        if (parser->options->fail_on_missing_field) return fail(parser, MISSING_FIELD, child);
        if (!child->nullable) return fail(parser, UNEXPECTED_NULL, child);
        int status = column_append_null(child);
        if (status) return status;
    }
    int status = column_make_room(column);
    if (status) return status;
    column_set_valid(column);
    return OK;
}

static int parse_struct(Parser *parser, Column *column) {
    int64_t base = column->length;
    int status, expected = 0, index;
    parser->at++;
    skip_space(parser);
    if (peek(parser) == '}') {
        parser->at++;
        return finish_struct(parser, column);
    }
    for (;;) {
        if ((status = parse_key(parser, column, expected, &index))) return status;
        if (index < 0) {
            if ((status = skip_value(parser))) return status;
        } else {
            Column *child = column->children[index];
            /* A name that comes twice: the last one counts. */
            if (child->length > base) column_truncate(child, base);
            if ((status = parse_child(parser, child, base))) return status;
            expected = index + 1;
        }
        skip_space(parser);
        int c = peek(parser);
        if (c == '}') break;
        if (c != ',') return bad_syntax(parser);
        parser->at++;
        skip_space(parser);
    }
    parser->at++;
    return finish_struct(parser, column);
}

static int parse_list(Parser *parser, Column *column) {
    Column *element = column->children[0];
    int status = column_make_room(column);
    if (status) return status;
    parser->at++;
    skip_space(parser);
    if (peek(parser) == ']') {
        parser->at++;
    } else {
        for (;;) {
            skip_space(parser);
            if ((status = parse_child(parser, element, element->length))) return status;
            skip_space(parser);
            int c = peek(parser);
            if (c != ',' && c != ']') return bad_syntax(parser);
            parser->at++;
            if (c == ']') break;
        }
    }
    column->offsets[column->length + 1] = (int32_t)element->length;
    column_set_valid(column);
    return OK;
}

/* -- maps ---------------------------------------------------------------------------------------------- */

/* At the opening brace; entries marked in `drops` are read over. */
static int parse_entries(Parser *parser, Column *column, const uint8_t *drops) {
    Column *keys = column->children[0], *items = column->children[1];
    Text key;
    int status;
    parser->at++;
    skip_space(parser);
    if (peek(parser) == '}') {
        parser->at++;
        return OK;
    }
    for (int64_t i = 0;; i++) {
        if ((status = skip_key(parser, &key))) return status;
        skip_space(parser);
        if (drops && drops[i]) {
            if ((status = skip_value(parser))) return status;
        } else {
            if ((status = append_string(parser, keys, &key))) return status;
            if ((status = parse_child(parser, items, items->length))) return status;
        }
        skip_space(parser);
        int c = peek(parser);
        if (c != ',' && c != '}') return bad_syntax(parser);
        parser->at++;
        if (c == '}') return OK;
    }
}

static int parse_map(Parser *parser, Column *column) {
    Column *keys = column->children[0], *items = column->children[1];
    const uint8_t *start = parser->at;
    int64_t base = keys->length;
    uint8_t *drops;
    int status = column_make_room(column);
    if (status) return status;
    if ((status = parse_entries(parser, column, NULL))) return status;
    if ((status = column_repeated_keys(keys, base, &drops))) return status;
    if (drops) {
        /* Rare, so it is read again rather than prepared for. Maps nest only as deep as the schema. */
        column_truncate(keys, base);
        column_truncate(items, base);
        parser->at = start;
        status = parse_entries(parser, column, drops);
        free(drops);
        if (status) return status;
    }
    column->offsets[column->length + 1] = (int32_t)keys->length;
    column_set_valid(column);
    return OK;
}

static int parse_null(Parser *parser, Column *column) {
    int status = expect_word(parser, "null", 4);
    if (status) return status;
    if (!column->nullable) return fail(parser, UNEXPECTED_NULL, column);
    return column_append_null(column);
}

static int parse_value(Parser *parser, Column *column) {
    int status, c = peek(parser);
    if (c == 'n') return parse_null(parser, column);
    switch (column->kind) {
    case KIND_NULL:
        status = skip_value(parser);
        return status ? status : column_append_null(column);
    case KIND_STRING:
        return parse_string_column(parser, column);
    case KIND_STRUCT:
        return c == '{' ? parse_struct(parser, column) : wrong_container(parser, column);
    case KIND_LIST:
        return c == '[' ? parse_list(parser, column) : wrong_container(parser, column);
    case KIND_MAP:
        return c == '{' ? parse_map(parser, column) : wrong_container(parser, column);
    default:
        return parse_scalar(parser, column);
    }
}

/* -- values -------------------------------------------------------------------------------------------- */

static int parse_row(Parser *parser, Column *root) {
    if (peek(parser) == '{') return parse_struct(parser, root);
    int status = wrong_container(parser, NULL);
    return status == WRONG_TYPE ? fail(parser, NOT_AN_OBJECT, NULL) : status;
}

/* An array of objects is a row for each of them. */
static int parse_rows(Parser *parser, Column *root) {
    parser->at++;
    skip_space(parser);
    if (peek(parser) == ']') {
        parser->at++;
        return OK;
    }
    for (;;) {
        skip_space(parser);
        int64_t base = root->length;
        const uint8_t *start = parser->at;
        int status = parse_row(parser, root);
        int is_readable = status == NOT_AN_OBJECT || status >= FIRST_FIELD_REASON;
        if (is_readable && parser->options->ignore_parse_errors) {
            column_truncate(root, base);
            parser->at = start;
            status = skip_value(parser);
        }
        if (status) return status;
        skip_space(parser);
        int c = peek(parser);
        if (c != ',' && c != ']') return bad_syntax(parser);
        parser->at++;
        if (c == ']') return OK;
    }
}

static int parse_document(Parser *parser, Column *root) {
    int status;
    if (!is_utf8(parser->start, parser->end - parser->start)) return fail(parser, BAD_UTF8, NULL);
    if (parser->end - parser->at >= 3 && memcmp(parser->at, "\xef\xbb\xbf", 3) == 0) parser->at += 3;
    skip_space(parser);
    status = peek(parser) == '[' ? parse_rows(parser, root) : parse_row(parser, root);
    if (status) return status;
    skip_space(parser);
    return parser->at == parser->end ? OK : fail(parser, TRAILING, NULL);
}

static int decode_value(Parser *parser, Column *root, int64_t i, const uint8_t *value, int64_t length) {
    int64_t base = root->length;
    parser->start = parser->at = value;
    parser->end = value + length;
    int status = parse_document(parser, root);
    if (status == NO_MEMORY) return status;
    if (status) {
        column_truncate(root, base);
        if (!parser->options->ignore_parse_errors) return output_add_failure(parser->output, i, status);
        parser->output->ignored_count++;
    }
    for (int64_t row = base; row < root->length; row++) {
        if ((status = output_add_row(parser->output, i))) return status;
    }
    return OK;
}

int json_decode(Column *root, const JsonOptions *options, const Values *values, Output *output) {
    Parser parser = {.options = options, .output = output};
    int status = OK;
    for (int64_t i = 0; i < values->length && status == OK; i++) {
        int64_t length;
        const uint8_t *value = values_at(values, i, &length);
        /* As in Flink, no value and an empty value are no row. */
        if (length == 0 || values_is_null(values, i)) continue;
        status = decode_value(&parser, root, i, value, length);
    }
    free(parser.scratch);
    return status;
}
