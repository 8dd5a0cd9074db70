/* The plan for Protobuf's wire format: message types with all of their fields, and the column of each wanted field.
 *
 * protobuf/_plan.py makes a plan once for each message type and schema. Messages, fields and enums lie in arrays and
 * refer to each other by index, so the plan of a recursive message type is recursive too.
 */
#ifndef PENSTOCK_FORMATS_PROTOBUF_H
#define PENSTOCK_FORMATS_PROTOBUF_H

#include <stdint.h>

/* Types of fields: the numbers of FieldDescriptorProto.Type. */
enum {
    PROTO_DOUBLE = 1,
    PROTO_FLOAT,
    PROTO_INT64,
    PROTO_UINT64,
    PROTO_INT32,
    PROTO_FIXED64,
    PROTO_FIXED32,
    PROTO_BOOL,
    PROTO_STRING,
    PROTO_GROUP,
    PROTO_MESSAGE,
    PROTO_BYTES,
    PROTO_UINT32,
    PROTO_ENUM,
    PROTO_SFIXED32,
    PROTO_SFIXED64,
    PROTO_SINT32,
    PROTO_SINT64
};

/* Flags of fields. Kept in step with _Flag in protobuf/_plan.py. */
enum {
    PROTO_REPEATED = 1,
    PROTO_MAP = 2,          /* REPEATED is not set */
    PROTO_CHECKS_UTF8 = 4,  /* text that is not UTF-8 makes the message invalid, also where the field has no column */
    PROTO_CLOSED_ENUM = 8,  /* a number that the enum does not have is an unknown field */
    PROTO_GIVES_DEFAULT = 16, /* an absent field gives its default (lists and maps: empty), not null */
    PROTO_IS_REQUIRED = 32,
    PROTO_HAS_REQUIRED = 64, /* of messages and maps: required fields are in them, at any depth */
    PROTO_IS_PACKED = 128,
    PROTO_HAS_PRESENCE = 256 /* zero is written, because it is not the same as absent */
};

/* Flags of messages. Kept in step with _MessageFlag in protobuf/_plan.py. */
enum {
    PROTO_IS_TIMESTAMP = 1, /* a Timestamp in a timestamp column: the targets are 0 for seconds and 1 for nanos */
    PROTO_IS_ENTRY = 2      /* the entry of a map: the targets are 0 for the key and 1 for the value */
};

typedef struct {
    int32_t number;
    int32_t type;
    int32_t flags;
    int32_t target;      /* index among the columns of its message, -1 for none */
    int32_t message;     /* of messages, groups and maps: index of their type, else -1 */
    int32_t first_value; /* of enums: into ProtoPlan.enum_numbers, sorted by number to read and by name to write */
    int32_t value_count;
    int32_t next_in_oneof; /* the fields of a oneof form a ring of indices in their message; -1 for others */
    int32_t name;          /* into ProtoPlan.symbol_offsets */
    int32_t default_text;  /* of texts and bytes: likewise */
    int64_t default_bits;  /* of numbers, as in Slot.bits */
} ProtoField;

typedef struct {
    int32_t first_field; /* into ProtoPlan.fields, sorted by number */
    int32_t field_count;
    int32_t first_column; /* into ProtoPlan.columns: for each column the index of its field, -1 for none */
    int32_t column_count;
    int32_t required_count;
    int32_t flags;
    int32_t checked; /* the same type without columns, to check messages that do not become rows */
    int32_t padding;
} ProtoMessage;

typedef struct {
    const ProtoMessage *messages;
    const ProtoField *fields;
    const int32_t *columns;
    const int32_t *enum_numbers;
    const int32_t *enum_symbols; /* for each number: its name, into symbol_offsets */
    const uint8_t *symbols;
    const int32_t *symbol_offsets;
    int32_t field_count_max; /* the largest number of fields of a message */
} ProtoPlan; /* message 0 is the root */

#endif
