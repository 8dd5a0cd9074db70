/* Input and output of every encoder: Arrow arrays in, one value for each row out. */
#ifndef PENSTOCK_FORMATS_ENCODE_H
#define PENSTOCK_FORMATS_ENCODE_H

#include "columns.h"

/* An Arrow array as it lies in memory; kinds and parameters as in Column. */
typedef struct View {
    int kind;
    int scale;
    int fraction_digits;
    int is_zoned;
    int64_t offset; /* of its first entry in the buffers */
    const uint8_t *validity;
    const uint8_t *values;
    const int32_t *offsets;
    const uint8_t *label; /* the field's name as the format writes it; not ended by a zero */
    int32_t label_length;
    int branch; /* Avro: which branch of a union of null and this type is null; -1 none */
    struct View **children;
    int child_count;
    struct View *parent;
} View;

typedef struct {
    uint8_t *bytes;
    int64_t used;
    int64_t capacity;
    int32_t *offsets;   /* row_count + 1 of them */
    int64_t failed_row; /* where an encoder stopped */
    const View *failed_view;
    const uint8_t *failed_name; /* Protobuf: the field that is missing */
    int64_t failed_name_length;
} Writer;

typedef struct {
    int separator;
    int is_decimal_plain;
    int ignores_null_fields;
} JsonEncodeOptions;

View *view_new(int kind);
void view_free(View *view);
void writer_free(Writer *writer);
int writer_start(Writer *writer, int64_t row_count);
int writer_grow(Writer *writer, int64_t count);

static inline int writer_room(Writer *writer, int64_t count) {
    return writer->used + count <= writer->capacity ? OK : writer_grow(writer, count);
}

static inline int write_bytes(Writer *writer, const void *bytes, int64_t count) {
    int status = writer_room(writer, count);
    if (status) return status;
    if (count) memcpy(writer->bytes + writer->used, bytes, (size_t)count);
    writer->used += count;
    return OK;
}

static inline int write_byte(Writer *writer, int c) {
    int status = writer_room(writer, 1);
    if (status) return status;
    writer->bytes[writer->used++] = (uint8_t)c;
    return OK;
}

static inline int view_is_null(const View *view, int64_t i) {
    int64_t bit = view->offset + i;
    return view->kind == KIND_NULL || (view->validity && !(view->validity[bit >> 3] >> (bit & 7) & 1));
}

static inline int64_t view_integer(const View *view, int64_t i) {
    switch (view->kind) {
    case KIND_BOOL: return view->values[(view->offset + i) >> 3] >> ((view->offset + i) & 7) & 1;
    case KIND_INT8: return ((const int8_t *)view->values)[view->offset + i];
    case KIND_INT16: return ((const int16_t *)view->values)[view->offset + i];
    case KIND_INT32:
    case KIND_DATE:
    case KIND_TIME32: return ((const int32_t *)view->values)[view->offset + i];
    default: return ((const int64_t *)view->values)[view->offset + i];
    }
}

static inline __int128 view_decimal(const View *view, int64_t i) {
    __int128 value;
    memcpy(&value, view->values + 16 * (view->offset + i), 16);
    return value;
}

static inline const uint8_t *view_bytes(const View *view, int64_t i, int64_t *length) {
    const int32_t *offsets = view->offsets + view->offset + i;
    *length = offsets[1] - offsets[0];
    return view->values + offsets[0];
}

/* The text of scalars, in JSON and CSV. */
int write_integer(Writer *writer, int64_t value);
int write_double(Writer *writer, double value);
int write_float(Writer *writer, float value);
int write_decimal(Writer *writer, __int128 value, int scale, int is_plain);
int write_date(Writer *writer, int64_t days);
int write_time(Writer *writer, int64_t value, int fraction_digits);
int write_timestamp(Writer *writer, int64_t value, int fraction_digits, int separator, int is_zoned);
int write_base64(Writer *writer, const uint8_t *bytes, int64_t length);

#include "avro.h"
#include "csv.h"
#include "protobuf.h"

int avro_encode(const View *rows, const AvroPlan *plan, const uint8_t *header, int64_t header_size, int64_t row_count,
                Writer *writer);

int protobuf_encode(const View *rows, const ProtoPlan *plan, const uint8_t *header, int64_t header_size,
                    int64_t row_count, Writer *writer);

int csv_encode(const View *rows, const CsvOptions *options, int64_t row_count, Writer *writer);
int json_encode(const View *rows, const JsonEncodeOptions *options, int64_t row_count, Writer *writer);

#endif
