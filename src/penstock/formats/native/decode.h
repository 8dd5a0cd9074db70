/* Input and output of every decoder: Arrow binary values in, rows and failures out. */
#ifndef PENSTOCK_FORMATS_DECODE_H
#define PENSTOCK_FORMATS_DECODE_H

#include "columns.h"

/* An Arrow binary array as it lies in memory. `validity` may be NULL. */
typedef struct {
    const uint8_t *bytes;
    const int32_t *offsets;
    const uint8_t *validity;
    int64_t offset;
    int64_t length;
} Values;

#define FAILED_TEXT_MAX 48

/* The beginning of a text that could not be converted; length 0 without such a text. */
typedef struct {
    uint8_t bytes[FAILED_TEXT_MAX];
    int32_t length;
} FailedText;

typedef struct {
    int32_t row; /* index of the value */
    int32_t reason;
    int64_t position; /* byte of the value */
    const Column *column; /* NULL: the value as a whole */
    FailedText text;
} Failure;

typedef struct {
    int32_t *value_indices; /* for every row, the index of its value */
    int64_t row_count;
    int64_t row_capacity;
    Failure *failures;
    int64_t failure_count;
    int64_t failure_capacity;
    int64_t ignored_count; /* values dropped because parse errors are ignored */
    int64_t position;      /* of the current error */
    const Column *column;
    FailedText text;
} Output;

/* Stores position and column of the current error. */
static inline void output_fail(Output *output, int64_t position, const Column *column) {
    output->position = position;
    output->column = column;
    output->text.length = 0;
}

/* Stores the text of the current error. */
static inline void output_text(Output *output, const uint8_t *text, int64_t length) {
    output->text.length = (int32_t)(length < FAILED_TEXT_MAX ? length : FAILED_TEXT_MAX);
    memcpy(output->text.bytes, text, (size_t)output->text.length);
}

static inline int values_is_null(const Values *values, int64_t i) {
    int64_t bit = values->offset + i;
    return values->validity && !(values->validity[bit >> 3] >> (bit & 7) & 1);
}

static inline const uint8_t *values_at(const Values *values, int64_t i, int64_t *length) {
    const int32_t *offsets = values->offsets + values->offset + i;
    *length = offsets[1] - offsets[0];
    return values->bytes + offsets[0];
}

int output_add_row(Output *output, int64_t value_index);
int output_add_failure(Output *output, int64_t value_index, int reason);
void output_free(Output *output);

typedef struct {
    int fail_on_missing_field;
    int ignore_parse_errors;
    int separator;       /* between date and time */
    int64_t header_size; /* bytes before the JSON */
    int is_one_object;   /* an array of several objects, or of none, is an error */
} JsonOptions;

#include "avro.h"
#include "csv.h"
#include "protobuf.h"

int avro_decode(Column *root, const AvroPlan *plans, const int32_t *plan_of_value, int64_t header_size,
                const Values *values, Output *output);
void confluent_ids(const Values *values, int32_t *ids);
/* Where the message after Confluent's header begins. -1: no value, -2: no header, -3: its message indexes are broken. */
int32_t message_start(const Values *values, int64_t i, const uint8_t **value);

/* `starts` has for each value where its message begins, `plan_of_value` its plan, or -1 to leave the value out. */
int protobuf_decode(Column *root, const ProtoPlan *plans, int64_t plan_count, const int32_t *plan_of_value,
                    const int32_t *starts, const Values *values, Output *output);

int csv_decode(Column *root, const CsvOptions *options, const Values *values, Output *output);
int json_decode(Column *root, const JsonOptions *options, const Values *values, Output *output);

#endif
