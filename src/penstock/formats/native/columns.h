/* Growable Arrow columns: the decoders of all formats write into them.
 *
 * One tree of columns mirrors one Arrow schema. Its root is a struct column, and the root's length is the number of
 * rows. A decoder that fails may leave a partly written row. column_truncate() removes it, so a bad value never
 * moves other rows. No Python, no GIL.
 */
#ifndef PENSTOCK_FORMATS_COLUMNS_H
#define PENSTOCK_FORMATS_COLUMNS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Kept in step with kind_of() in _native.pyx. */
enum {
    KIND_NULL,
    KIND_BOOL,
    KIND_INT8,
    KIND_INT16,
    KIND_INT32,
    KIND_INT64,
    KIND_FLOAT,
    KIND_DOUBLE,
    KIND_DECIMAL,
    KIND_STRING,
    KIND_BINARY,
    KIND_DATE,
    KIND_TIME32,
    KIND_TIME64,
    KIND_TIMESTAMP,
    KIND_LIST,
    KIND_MAP,
    KIND_STRUCT
};

/* The result of reading or writing one value. Kept in step with REASONS in _native.pyx. */
enum {
    OK = 0,
    NO_MEMORY,
    /* The value as a whole cannot be read. */
    BAD_SYNTAX,
    BAD_UTF8,
    TOO_DEEP,
    TRAILING,
    NOT_AN_OBJECT,
    TRUNCATED,
    BAD_ROW,
    /* From here on: one field cannot be converted, and the rest of the value can be read. */
    FIRST_FIELD_REASON,
    WRONG_TYPE = FIRST_FIELD_REASON,
    OUT_OF_RANGE,
    NOT_INTEGRAL,
    BAD_NUMBER,
    BAD_BOOLEAN,
    BAD_DATE,
    BAD_TIME,
    BAD_TIMESTAMP,
    BAD_BASE64,
    LONE_SURROGATE,
    MISSING_FIELD,
    UNEXPECTED_NULL,
    BAD_ROW_FIELD,
    REPEATED_KEY,
    TEXT_NOT_UTF8,
    NOT_QUOTABLE,
    HAS_ELEMENT_DELIMITER,
    AMBIGUOUS_TEXT,
    IS_NULL_LITERAL,
    /* Avro's bytes. */
    BAD_UNION_INDEX,
    BAD_ENUM_INDEX,
    BAD_BOOLEAN_BYTE,
    BAD_VARINT,
    BAD_INT,
    BAD_LENGTH,
    TOO_MANY_EMPTY,
    /* Protobuf's bytes. */
    BAD_TAG,
    BAD_GROUP_END,
    TOO_DEEP_MESSAGE,
    MISSING_REQUIRED,
    BAD_NANOS,
    BAD_YEAR,
    UNKNOWN_ENUM_NAME
};

typedef struct Column {
    int kind;
    int nullable;
    int width;     /* bytes of a fixed-width value, 0 for others */
    int precision; /* decimals */
    int scale;
    int fraction_digits; /* times and timestamps: 0, 3, 6 or 9 */
    int is_zoned;
    int64_t length;
    int64_t capacity;
    uint8_t *validity;
    uint8_t *values; /* fixed-width values, bits, or the bytes of strings */
    int64_t bytes_capacity;
    int32_t *offsets; /* strings, lists, maps: offsets[length] is the end of the written entries */
    const uint8_t *name;
    int32_t name_length;
    int is_name_plain; /* the name is written the same way in JSON */
    struct Column *parent;
    struct Column **children; /* list: the element; map: key, value */
    int child_count;
    int has_presence; /* structs: the last child has a bit for each other child, set if the object has that field */
    int32_t *name_slots; /* structs: open-addressing table of child index + 1 */
    uint32_t name_mask;
    int32_t name_length_max;
} Column;

Column *column_new(int kind);
void column_free(Column *column);
int column_index_names(Column *column);
int column_find(const Column *column, const uint8_t *name, int64_t length);
int column_grow(Column *column);
int column_reserve(Column *column, int64_t capacity);
int column_grow_bytes(Column *column, int64_t needed);
void column_truncate(Column *column, int64_t length);
int column_append_null(Column *column);

static inline int column_make_room(Column *column) {
    return column->length < column->capacity ? OK : column_grow(column);
}

static inline void column_set_valid(Column *column) {
    column->validity[column->length >> 3] |= (uint8_t)(1u << (column->length & 7));
    column->length++;
}

/* Makes room for `count` more bytes of the current string; sets *at to their address. */
static inline int column_bytes_room(Column *column, int64_t count, uint8_t **at) {
    int64_t used = column->offsets[column->length];
    if (used + count > column->bytes_capacity) {
        int status = column_grow_bytes(column, used + count);
        if (status) return status;
    }
    *at = column->values + used;
    return OK;
}

static inline void column_finish_bytes(Column *column, int64_t count) {
    column->offsets[column->length + 1] = (int32_t)(column->offsets[column->length] + count);
    column_set_valid(column);
}

static inline int column_append_bytes(Column *column, const uint8_t *bytes, int64_t count) {
    uint8_t *at;
    int status = column_make_room(column);
    if (status) return status;
    status = column_bytes_room(column, count, &at);
    if (status) return status;
    if (count) memcpy(at, bytes, (size_t)count); /* the pointers may be invalid when count is 0 */
    column_finish_bytes(column, count);
    return OK;
}

/* Ends the current list or map at the child's element `end`. The elements of all rows must fit into Arrow's 32-bit
 * offsets: a larger end would wrap to a negative index, and a later column_truncate() would write there. */
static inline int column_finish_list(Column *column, int64_t end) {
    if (end > INT32_MAX) return NO_MEMORY;
    column->offsets[column->length + 1] = (int32_t)end;
    column_set_valid(column);
    return OK;
}

static inline int column_append_bool(Column *column, int value) {
    int status = column_make_room(column);
    if (status) return status;
    uint8_t bit = (uint8_t)(1u << (column->length & 7));
    uint8_t *byte = column->values + (column->length >> 3);
    *byte = (uint8_t)(value ? (*byte | bit) : (*byte & ~bit));
    column_set_valid(column);
    return OK;
}

#define DEFINE_APPEND(NAME, TYPE)                                  \
    static inline int NAME(Column *column, TYPE value) {           \
        int status = column_make_room(column);                     \
        if (status) return status;                                 \
        ((TYPE *)column->values)[column->length] = value;          \
        column_set_valid(column);                                  \
        return OK;                                                 \
    }

DEFINE_APPEND(column_append_i8, int8_t)
DEFINE_APPEND(column_append_i16, int16_t)
DEFINE_APPEND(column_append_i32, int32_t)
DEFINE_APPEND(column_append_i64, int64_t)
DEFINE_APPEND(column_append_float, float)
DEFINE_APPEND(column_append_double, double)

static inline int column_append_i128(Column *column, __int128 value) {
    int status = column_make_room(column);
    if (status) return status;
    memcpy(column->values + 16 * column->length, &value, 16);
    column_set_valid(column);
    return OK;
}

/* Marks in *repeated every key after `first` that comes again later; NULL without such a key. The caller frees. */
int column_repeated_keys(const Column *keys, int64_t first, uint8_t **repeated);

/* Appends a whole number to an integer column of any width. */
int column_append_integer(Column *column, int64_t value);

#endif
