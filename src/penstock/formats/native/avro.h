/* The plan for Avro's binary encoding: the writer's schema, with the table's column for each field.
 *
 * avro/_plan.py makes a plan once for each schema. Nodes lie in one array and refer to each other by index, so the
 * plan of a recursive schema is recursive too.
 */
#ifndef PENSTOCK_FORMATS_AVRO_H
#define PENSTOCK_FORMATS_AVRO_H

#include <stdint.h>

/* Kept in step with OPS in avro/_plan.py. */
enum {
    AVRO_NULL,
    AVRO_BOOLEAN,
    AVRO_INT,
    AVRO_LONG,
    AVRO_FLOAT,
    AVRO_DOUBLE,
    AVRO_BYTES,
    AVRO_STRING,
    AVRO_FIXED,
    AVRO_ENUM,
    AVRO_ARRAY,
    AVRO_MAP,
    AVRO_UNION,
    AVRO_RECORD,
    AVRO_DECIMAL_BYTES,
    AVRO_DECIMAL_FIXED,
    AVRO_MISMATCH /* the column cannot hold the writer's type: an error when a value has it */
};

typedef struct {
    int32_t op;
    int32_t target;      /* of a record's field: index among the columns of its record, -1 for none */
    int32_t first_child; /* into AvroPlan.children */
    int32_t child_count;
    int64_t size;       /* bytes of a fixed, symbols of an enum */
    int64_t multiplier; /* from the writer's unit of time to the column's */
    int64_t divisor;
    int32_t scale;        /* of the writer's decimals */
    int32_t null_branch;  /* of a union, when writing: -1 none */
    int32_t value_branch; /* when writing: -1 none */
    int32_t first_symbol; /* into AvroPlan.symbol_offsets */
} AvroNode;

typedef struct {
    const AvroNode *nodes;
    const int32_t *children; /* node indices */
    const uint8_t *symbols;
    const int32_t *symbol_offsets;
} AvroPlan; /* node 0 is the root, a record */

#endif
