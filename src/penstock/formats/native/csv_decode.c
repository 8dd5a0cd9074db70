/* CSV values to typed columns: one record a value, fields by position.
 *
 * A record is a line. A line break inside quotes belongs to the field. Bytes after the end of the line are an error,
 * so a value of two lines never becomes one row.
 */
#include "decode.h"
#include "text.h"

typedef struct {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    const CsvOptions *options;
    Output *output;
    uint8_t *scratch;
    int64_t scratch_capacity;
} Parser;

typedef struct {
    const uint8_t *text;
    int64_t length;
} Field;

static int fail(Parser *parser, int reason, const Column *column) {
    output_fail(parser->output, parser->at - parser->start, column);
    return reason;
}

static inline int is_at(const uint8_t *at, const uint8_t *end, const Mark *mark) {
    return mark->length && end - at >= mark->length && *at == *mark->bytes &&
           memcmp(at, mark->bytes, (size_t)mark->length) == 0;
}

static inline int is_line_end(const Parser *parser) {
    return parser->at >= parser->end || *parser->at == '\n' || *parser->at == '\r';
}

/* The meaning of an escaped character, as in Jackson. */
static uint8_t unescaped(uint8_t c) {
    switch (c) {
    case '0': return 0;
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c;
    }
}

/* At an opening quote: copies the field to the scratch buffer, which is as large as the value. */
static int scan_quoted(Parser *parser, Field *field) {
    const CsvOptions *options = parser->options;
    uint8_t *out = parser->scratch;
    parser->at += options->quote.length;
    for (;;) {
        if (parser->at >= parser->end) return fail(parser, TRUNCATED, NULL);
        if (is_at(parser->at, parser->end, &options->escape)) {
            parser->at += options->escape.length;
            if (parser->at >= parser->end) return fail(parser, TRUNCATED, NULL);
            *out++ = unescaped(*parser->at++);
        } else if (is_at(parser->at, parser->end, &options->quote)) {
            parser->at += options->quote.length;
            if (!is_at(parser->at, parser->end, &options->quote)) break;
            memcpy(out, options->quote.bytes, (size_t)options->quote.length);
            out += options->quote.length;
            parser->at += options->quote.length;
        } else {
            *out++ = *parser->at++;
        }
    }
    field->text = parser->scratch;
    field->length = out - parser->scratch;
    for (;;) {
        /* The delimiter is tested first, because it may be a blank or a tab. */
        if (is_line_end(parser) || is_at(parser->at, parser->end, &options->delimiter)) return OK;
        if (*parser->at != ' ' && *parser->at != '\t') return fail(parser, BAD_SYNTAX, NULL);
        parser->at++;
    }
}

static int scan_plain(Parser *parser, Field *field) {
    const CsvOptions *options = parser->options;
    const uint8_t *start = parser->at;
    uint8_t *out = NULL;
    while (!is_line_end(parser) && !is_at(parser->at, parser->end, &options->delimiter)) {
        if (is_at(parser->at, parser->end, &options->escape)) {
            if (!out) {
                memcpy(parser->scratch, start, (size_t)(parser->at - start));
                out = parser->scratch + (parser->at - start);
            }
            parser->at += options->escape.length;
            if (parser->at >= parser->end) return fail(parser, TRUNCATED, NULL);
            *out++ = unescaped(*parser->at++);
        } else if (out) {
            *out++ = *parser->at++;
        } else {
            parser->at++;
        }
    }
    field->text = out ? parser->scratch : start;
    field->length = out ? out - parser->scratch : parser->at - start;
    if (options->trim_spaces) {
        while (field->length && *field->text <= ' ') field->text++, field->length--;
        while (field->length && field->text[field->length - 1] <= ' ') field->length--;
    }
    return OK;
}

static int scan_field(Parser *parser, Field *field) {
    const CsvOptions *options = parser->options;
    if (options->trim_spaces) {
        const uint8_t *at = parser->at;
        while (at < parser->end && *at == ' ' && !is_at(at, parser->end, &options->delimiter) &&
               !is_at(at, parser->end, &options->quote)) {
            at++;
        }
        if (is_at(at, parser->end, &options->quote)) parser->at = at;
    }
    return is_at(parser->at, parser->end, &options->quote) ? scan_quoted(parser, field) : scan_plain(parser, field);
}

/* -- fields to columns --------------------------------------------------------------------------------- */

static int append_field(Parser *parser, Column *column, const uint8_t *text, int64_t length);

static int append_null(Parser *parser, Column *column) {
    return column->nullable ? column_append_null(column) : fail(parser, UNEXPECTED_NULL, column);
}

static const uint8_t *find_mark(const uint8_t *at, const uint8_t *end, const Mark *mark) {
    while (at < end && !is_at(at, end, mark)) at++;
    return at;
}

static int append_element(Parser *parser, Column *column, const uint8_t *text, const uint8_t *end) {
    if (parser->options->trim_spaces) {
        while (text < end && *text <= ' ') text++;
        while (text < end && end[-1] <= ' ') end--;
    }
    return append_field(parser, column, text, end - text);
}

/* A blank text is an array without elements, as in Flink. */
static int append_list(Parser *parser, Column *column, const uint8_t *text, int64_t length) {
    const Mark *mark = &parser->options->element_delimiter;
    const uint8_t *end = text + length;
    int status = column_make_room(column), is_blank = csv_is_blank(text, length);
    if (status) return status;
    while (!is_blank) {
        const uint8_t *stop = find_mark(text, end, mark);
        if ((status = append_element(parser, column->children[0], text, stop))) return status;
        if (stop == end) break;
        text = stop + mark->length;
    }
    return column_finish_list(column, column->children[0]->length);
}

/* With ignored errors, elements at the end of a row may be missing, like fields of a record. */
static int append_struct(Parser *parser, Column *column, const uint8_t *text, int64_t length) {
    const Mark *mark = &parser->options->element_delimiter;
    const uint8_t *end = text + length;
    int status = column_make_room(column), has_ended = 0;
    for (int i = 0; i < column->child_count && status == OK; i++) {
        if (has_ended) {
            if (!parser->options->ignore_parse_errors) return fail(parser, BAD_ROW_FIELD, column);
            status = append_null(parser, column->children[i]);
            continue;
        }
        const uint8_t *stop = find_mark(text, end, mark);
        has_ended = stop == end;
        if (!has_ended && i == column->child_count - 1) return fail(parser, BAD_ROW_FIELD, column);
        status = append_element(parser, column->children[i], text, stop);
        text = has_ended ? end : stop + mark->length;
    }
    if (status) return status;
    column_set_valid(column);
    return OK;
}

static int append_empty(Parser *parser, Column *column) {
    int status;
    if (parser->options->empty_string_as_null) return append_null(parser, column);
    switch (column->kind) {
    case KIND_STRING:
    case KIND_BINARY:
        return column_append_bytes(column, (const uint8_t *)"", 0);
    case KIND_LIST:
        if ((status = column_make_room(column))) return status;
        column->offsets[column->length + 1] = column->offsets[column->length];
        column_set_valid(column);
        return OK;
    default:
        return append_null(parser, column);
    }
}

static int convert_field(Parser *parser, Column *column, const uint8_t *text, int64_t length) {
    const CsvOptions *options = parser->options;
    const Mark *null = &options->null_literal;
    int status;
    if (options->has_null_literal && length == null->length && (!length || memcmp(text, null->bytes, (size_t)length) == 0)) {
        return append_null(parser, column);
    }
    if (length == 0) return append_empty(parser, column);
    switch (column->kind) {
    case KIND_NULL:
        return column_append_null(column);
    case KIND_STRING:
        return column_append_bytes(column, text, length);
    case KIND_LIST:
        return append_list(parser, column, text, length);
    case KIND_STRUCT:
        return append_struct(parser, column, text, length);
    case KIND_BINARY:
        status = append_base64(column, text, length);
        break;
    default:
        status = append_text(column, text, length, ' ');
    }
    if (status == OK) return OK;
    fail(parser, status, column);
    output_text(parser->output, text, length);
    return status;
}

static int append_field(Parser *parser, Column *column, const uint8_t *text, int64_t length) {
    int64_t base = column->length;
    int status = convert_field(parser, column, text, length);
    if (status < FIRST_FIELD_REASON || !parser->options->ignore_parse_errors || !column->nullable) return status;
    column_truncate(column, base);
    return column_append_null(column);
}

/* -- records ------------------------------------------------------------------------------------------- */

static int finish_record(Parser *parser, Column *root) {
    if (parser->at < parser->end && *parser->at == '\r') parser->at++;
    if (parser->at < parser->end && *parser->at == '\n') parser->at++;
    if (parser->at < parser->end) return fail(parser, TRAILING, NULL);
    for (int i = 0; i < root->child_count; i++) {
        if (root->children[i]->length > root->length) continue;
        int status = append_null(parser, root->children[i]);
        if (status) return status;
    }
    int status = column_make_room(root);
    if (status) return status;
    column_set_valid(root);
    return OK;
}

static int parse_extra(Parser *parser, const Field *field) {
    const CsvOptions *options = parser->options;
    if (options->ignore_trailing_unmappable) return OK;
    if (options->allow_trailing_comma && field->length == 0 && is_line_end(parser)) return OK;
    return fail(parser, BAD_ROW, NULL);
}

static int parse_record(Parser *parser, Column *root) {
    const CsvOptions *options = parser->options;
    int count = 0, status;
    for (;; count++) {
        Field field;
        if ((status = scan_field(parser, &field))) return status;
        int target = count < options->field_count ? options->targets[count] : -1;
        if (count >= options->field_count) {
            if ((status = parse_extra(parser, &field))) return status;
        } else if (target >= 0) {
            if ((status = append_field(parser, root->children[target], field.text, field.length))) return status;
        }
        if (is_line_end(parser)) break;
        parser->at += options->delimiter.length;
    }
    int is_short = count + 1 < options->field_count;
    if (is_short && (!options->ignore_parse_errors || options->fail_on_missing_columns)) {
        return fail(parser, BAD_ROW, NULL);
    }
    return finish_record(parser, root);
}

static int parse_value(Parser *parser, Column *root) {
    int64_t length = parser->end - parser->at, valid_length = utf8_length(parser->at, length);
    if (valid_length < length) {
        parser->at += valid_length;
        return fail(parser, BAD_UTF8, NULL);
    }
    if (parser->scratch_capacity < length) {
        uint8_t *larger = realloc(parser->scratch, (size_t)length);
        if (!larger) return NO_MEMORY;
        parser->scratch = larger;
        parser->scratch_capacity = length;
    }
    if (csv_has_byte_order_mark(parser->at, length)) {
        parser->at += CSV_BYTE_ORDER_MARK_BYTES;
        if (parser->at == parser->end) return OK; /* like an empty value: no row */
    }
    while (parser->options->allow_comments && parser->at < parser->end && *parser->at == '#') {
        while (!is_line_end(parser)) parser->at++;
        while (parser->at < parser->end && is_line_end(parser)) parser->at++;
        if (parser->at == parser->end) return OK; /* only comments: no row */
    }
    return parse_record(parser, root);
}

int csv_decode(Column *root, const CsvOptions *options, const Values *values, Output *output) {
    Parser parser = {.options = options, .output = output};
    int status = OK;
    for (int64_t i = 0; i < values->length && status == OK; i++) {
        int64_t length, base = root->length;
        const uint8_t *value = values_at(values, i, &length);
        if (length == 0 || values_is_null(values, i)) continue;
        parser.start = parser.at = value;
        parser.end = value + length;
        status = parse_value(&parser, root);
        if (status != OK && status != NO_MEMORY) {
            column_truncate(root, base);
            if (options->ignore_parse_errors) {
                output->ignored_count++;
                status = OK;
            } else {
                status = output_add_failure(output, i, status);
            }
        } else if (status == OK && root->length > base) {
            status = output_add_row(output, i);
        }
    }
    free(parser.scratch);
    return status;
}
