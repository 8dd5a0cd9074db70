/* JSON's tokens: strings and their escapes, and skipping of whole values.
 *
 * Only json_decode.c includes this: the functions are static so that the compiler may inline them.
 */
#ifndef PENSTOCK_FORMATS_JSON_SCAN_H
#define PENSTOCK_FORMATS_JSON_SCAN_H

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
    const uint8_t *start; /* after the opening quote */
    const uint8_t *end;   /* the closing quote */
    int has_escapes;
} Text;

static int fail(Parser *parser, int reason, const Column *column) {
    output_fail(parser->output, parser->at - parser->start, column);
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

/* Returns the next quote or backslash. */
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

/* At a backslash: checks the escape and moves after it. */
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

/* At an opening quote. Control characters are accepted, as in Flink. */
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

/* Decodes \uXXXX, also a pair of surrogates; returns the next input, or NULL for a lone surrogate. */
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

/* Unescapes a checked string. The result is never longer. Returns its end, NULL for a lone surrogate. */
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

/* Sets *start to the text without escapes: in the value, or in the scratch buffer. */
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
        /* After a value, or in an empty object or array. */
        for (;;) {
            if (depth == 0) return OK;
            skip_space(parser);
            c = peek(parser);
            if (c == closers[depth - 1]) {
                parser->at++;
                depth--;
                continue;
            }
            /* Only after a value: an empty object or array has been closed above. */
            if (c != ',') return bad_syntax(parser);
            parser->at++;
            if (closers[depth - 1] == '}' && (status = skip_key(parser, &key))) return status;
            break;
        }
    }
}

#endif
