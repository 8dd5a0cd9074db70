/* JSON values to typed columns, by schema, one value at a time.
 *
 * The whole value is checked against RFC 8259, with the fields that the query does not read. So the columns of a
 * query make no difference to whether a value is accepted. Recursion goes as deep as the schema. Skipped values are
 * read with a stack of 1,000 levels. Time is linear in the value.
 */
#include "json_scan.h"

static int parse_value(Parser *parser, Column *column);

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

/* -- typed values -------------------------------------------------------------------------------------- */

static int append_scalar_text(Parser *parser, Column *column, const Text *text) {
    const uint8_t *start;
    int64_t length;
    int status = plain_text(parser, text, &start, &length);
    if (status == OK) {
        status = column->kind == KIND_BINARY ? append_base64(column, start, length)
                                             : append_text(column, start, length, parser->options->separator);
    }
    if (status == OK) return OK;
    fail(parser, status, column);
    output_text(parser->output, start, length);
    return status;
}

/* Appends the text of an object or array, without the space between its tokens. */
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
        if (status) {
            fail(parser, status, column);
            output_text(parser->output, parser->at, end - parser->at);
            return status;
        }
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

/* A value that is not the expected object or array. It still has to be JSON. */
static int wrong_container(Parser *parser, const Column *column) {
    const uint8_t *start = parser->at;
    int status = skip_value(parser);
    if (status) return status;
    parser->at = start;
    return fail(parser, WRONG_TYPE, column);
}

/* Parses one value into `child`, which has `base` entries. With ignored errors, a value that fails is null. */
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

/* Reads a key and the colon; sets *index to the child of that name, or -1. */
static int parse_key(Parser *parser, Column *column, int expected, int *index) {
    Text key;
    if (peek(parser) != '"') return bad_syntax(parser);
    if (expected < column->child_count - column->has_presence && is_expected_key(parser, column->children[expected])) {
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

/* Notes which fields an object has, before the missing ones become null. */
static int append_presence(Column *column) {
    int count = column->child_count - 1;
    Column *presence = column->children[count];
    int64_t byte_count = (count + 7) / 8;
    uint8_t *bits;
    int status = column_make_room(presence);
    if (status) return status;
    status = column_bytes_room(presence, byte_count, &bits);
    if (status) return status;
    if (byte_count) memset(bits, 0, (size_t)byte_count);
    for (int i = 0; i < count; i++) {
        if (column->children[i]->length > column->length) bits[i >> 3] |= (uint8_t)(1u << (i & 7));
    }
    column_finish_bytes(presence, byte_count);
    return OK;
}

static int finish_struct(Parser *parser, Column *column) {
    int64_t base = column->length;
    if (column->has_presence) {
        int noted = append_presence(column);
        if (noted) return noted;
    }
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

/* Returns whether the field with the value at `start` comes again in its object, so that this value does not count.
 * If so, the parser is moved to the end of the value. Reading stops where the field comes again, so each field that
 * fails costs at most one scan of the object. */
static int comes_again(Parser *parser, const uint8_t *start, const Column *column, int index) {
    const uint8_t *before = parser->at, *behind, *name;
    Output noted = *parser->output;
    int64_t length;
    Text key;
    int is_again = 0;
    parser->at = start;
    if (skip_value(parser) == OK) {
        behind = parser->at;
        for (skip_space(parser); !is_again && peek(parser) == ','; skip_space(parser)) {
            parser->at++;
            if (skip_key(parser, &key)) break;
            is_again = plain_text(parser, &key, &name, &length) == OK && column_find(column, name, length) == index;
            if (skip_value(parser)) break;
        }
        if (is_again) before = behind;
    }
    /* Errors found while reading ahead do not count. */
    parser->output->position = noted.position;
    parser->output->column = noted.column;
    parser->output->text = noted.text;
    parser->at = before;
    return is_again;
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
            /* If a name comes twice, the last one counts. */
            if (child->length > base) column_truncate(child, base);
            const uint8_t *start = parser->at;
            status = parse_child(parser, child, base);
            if (status) {
                if (status < FIRST_FIELD_REASON || !comes_again(parser, start, column, index)) return status;
                column_truncate(child, base);
            }
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
    return column_finish_list(column, element->length);
}

/* -- maps ---------------------------------------------------------------------------------------------- */

/* At the opening brace. Entries marked in `drops` are skipped. */
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
        /* Rare, so the map is read again. Maps nest only as deep as the schema. */
        column_truncate(keys, base);
        column_truncate(items, base);
        parser->at = start;
        status = parse_entries(parser, column, drops);
        free(drops);
        if (status) return status;
    }
    return column_finish_list(column, keys->length);
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

/* An array of objects gives a row for each object. */
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

/* An array may stand around the one object. */
static int parse_only_row(Parser *parser, Column *root) {
    if (peek(parser) != '[') return parse_row(parser, root);
    parser->at++;
    skip_space(parser);
    if (peek(parser) == ']') return fail(parser, NOT_AN_OBJECT, NULL);
    int status = parse_row(parser, root);
    if (status) return status;
    skip_space(parser);
    if (peek(parser) == ',') return fail(parser, NOT_AN_OBJECT, NULL);
    if (peek(parser) != ']') return bad_syntax(parser);
    parser->at++;
    return OK;
}

static int parse_document(Parser *parser, Column *root) {
    int status;
    int64_t length = parser->end - parser->at, valid_length = utf8_length(parser->at, length);
    if (valid_length < length) {
        parser->at += valid_length;
        return fail(parser, BAD_UTF8, NULL);
    }
    if (parser->end - parser->at >= 3 && memcmp(parser->at, "\xef\xbb\xbf", 3) == 0) parser->at += 3;
    skip_space(parser);
    if (parser->options->is_one_object) {
        status = parse_only_row(parser, root);
    } else {
        status = peek(parser) == '[' ? parse_rows(parser, root) : parse_row(parser, root);
    }
    if (status) return status;
    skip_space(parser);
    return parser->at == parser->end ? OK : fail(parser, TRAILING, NULL);
}

static int decode_value(Parser *parser, Column *root, int64_t i, const uint8_t *value, int64_t length) {
    int64_t base = root->length;
    parser->start = value;
    parser->at = value + parser->options->header_size;
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
        /* As in Flink, null and empty values give no row. */
        if (length <= options->header_size || values_is_null(values, i)) continue;
        status = decode_value(&parser, root, i, value, length);
    }
    free(parser.scratch);
    return status;
}
