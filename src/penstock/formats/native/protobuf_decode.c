/* Protobuf values to typed columns, by plan.
 *
 * A message is read in two steps. read_fields() walks over its bytes: it appends the elements of lists to their
 * columns, and stores the last value of every other field in a slot. finish_message() then fills the columns from
 * the slots. So the last occurrence of a field counts, the occurrences of a message are merged, a field of a oneof
 * clears the others, and every message is read once. A value of n bytes costs memory in proportion to n and to the
 * schema, and time in proportion to n, the schema and the depth (at most 100).
 *
 * Fields without a column are checked too, because google.protobuf does not accept a message with a broken part.
 */
#include "protobuf_wire.h"

#include <stdio.h>

#include "text.h"

/* Returned instead of a status: the field with this wire type is unknown. */
#define IS_UNKNOWN (-1)

typedef struct {
    const ProtoMessage *message;
    const ProtoField *fields;
    Column *column; /* NULL: the message is only checked */
    Slot *slots;
    uint64_t stamp;
    int has_unknown;
    int unread_count; /* messages and maps without a column, which are to be checked */
} Frame;

static int read_message(Reader *reader, int32_t index, Column *column);

static inline Column *column_of(const Frame *frame, const ProtoField *field) {
    return frame->column && field->target >= 0 ? frame->column->children[field->target] : NULL;
}

static inline int is_set(const Frame *frame, int32_t index) { return frame->slots[index].stamp == frame->stamp; }

/* -- single messages ----------------------------------------------------------------------------------- */

/* Reads the bytes of one occurrence as a message. */
static int read_part(Reader *reader, int32_t message, const uint8_t *at, int64_t length, Column *column) {
    const uint8_t *at_before = reader->at, *end_before = reader->end;
    reader->at = at;
    reader->end = at + length;
    int status = read_message(reader, message, column);
    reader->at = at_before;
    reader->end = end_before;
    return status;
}

/* Checks an occurrence that does not count: required fields may be missing in it. */
static int check_part(Reader *reader, int32_t message, const uint8_t *at, int64_t length) {
    reader->partial_depth++;
    int status = read_part(reader, reader->plan->messages[message].checked, at, length, NULL);
    reader->partial_depth--;
    return status;
}

/* Checks all occurrences in a slot; *total becomes the sum of their lengths. */
static int check_parts(Reader *reader, int32_t message, const Slot *slot, int64_t *total) {
    *total = 0;
    for (Segment part = slot->first;; part = reader->segments[part.next]) {
        int status = check_part(reader, message, part.at, part.length);
        if (status) return status;
        *total += part.length;
        if (part.next < 0) return OK;
    }
}

/* Several occurrences of a message are one message: the one whose bytes are theirs, one after the other. */
static int read_merged(Reader *reader, const ProtoField *field, const Slot *slot, Column *column) {
    int64_t total, used = 0;
    int status = check_parts(reader, field->message, slot, &total);
    if (status) return status;
    uint8_t *bytes = malloc((size_t)total + 1);
    if (!bytes) return NO_MEMORY;
    for (Segment part = slot->first;; part = reader->segments[part.next]) {
        if (part.length) memcpy(bytes + used, part.at, (size_t)part.length);
        used += part.length;
        if (part.next < 0) break;
    }
    if (!reader->merged_depth) reader->merged_position = slot->first.at - reader->start;
    reader->merged_depth++;
    status = read_part(reader, field->message, bytes, total, column);
    reader->merged_depth--;
    free(bytes);
    return status;
}

/* Appends a message to its column: a row, or a timestamp. `slot` NULL is an empty message. */
static int append_message(Reader *reader, const ProtoField *field, const Slot *slot, Column *column) {
    int status;
    if (slot && slot->first.next >= 0) {
        status = read_merged(reader, field, slot, column);
    } else {
        const uint8_t *at = slot ? slot->first.at : reader->end;
        status = read_part(reader, field->message, at, slot ? slot->first.length : 0, column);
    }
    if (status && !reader->output->column) reader->output->column = column;
    if (status || !column || column->kind != KIND_STRUCT) return status;
    if ((status = column_make_room(column))) return status;
    column_set_valid(column);
    return OK;
}

/* -- step one: the fields of a message ------------------------------------------------------------------ */

/* Sets a field: in a oneof it clears the others. */
static int clear_others(Reader *reader, Frame *frame, int32_t index) {
    for (int32_t i = frame->fields[index].next_in_oneof; i >= 0 && i != index; i = frame->fields[i].next_in_oneof) {
        if (!is_set(frame, i)) continue;
        frame->slots[i].stamp = 0;
        if (frame->fields[i].message < 0) continue;
        int64_t total;
        int status = check_parts(reader, frame->fields[i].message, &frame->slots[i], &total);
        if (status) return status;
    }
    return OK;
}

/* Reads the occurrence of a message or of a map's entry; *at and *length become its content. */
static int read_content(Reader *reader, const ProtoField *field, uint32_t tag, const uint8_t **at, int64_t *length) {
    if (field->type != PROTO_GROUP) return read_sized(reader, at, length);
    *at = reader->at;
    int status = skip_group(reader, tag >> 3, reader->depth);
    if (status) return status;
    *length = reader->group_end - *at;
    return OK;
}

static int read_number(Reader *reader, const ProtoField *field, uint64_t *bits) {
    int status;
    switch (WIRE_OF_TYPE[field->type]) {
    case WIRE_VARINT:
        status = read_varint(reader, bits);
        *bits = status ? 0 : value_of_varint(field->type, *bits);
        return status;
    case WIRE_32:
        status = read_fixed(reader, 4, bits);
        if (field->type == PROTO_SFIXED32) *bits = (uint64_t)(int64_t)(int32_t)*bits;
        return status;
    default:
        return read_fixed(reader, 8, bits);
    }
}

static inline int is_text(const ProtoField *field) { return field->type == PROTO_STRING || field->type == PROTO_BYTES; }

static inline int is_dropped(Reader *reader, const ProtoField *field, uint64_t bits) {
    return field->flags & PROTO_CLOSED_ENUM && find_value(reader->plan, field, (int32_t)bits) < 0;
}

static int read_text(Reader *reader, const ProtoField *field, Column *column, Segment *text) {
    int status = read_sized(reader, &text->at, &text->length);
    if (status) return status;
    text->next = -1;
    if (!(field->flags & PROTO_CHECKS_UTF8) || is_utf8(text->at, text->length)) return OK;
    return fail(reader, TEXT_NOT_UTF8, column);
}

static int read_singular(Reader *reader, Frame *frame, int32_t index, uint32_t tag) {
    const ProtoField *field = &frame->fields[index];
    if ((tag & 7) != WIRE_OF_TYPE[field->type]) return IS_UNKNOWN;
    Slot *slot = &frame->slots[index];
    const uint8_t *at;
    int64_t length;
    uint64_t bits;
    int status;
    if (field->message >= 0) {
        if ((status = read_content(reader, field, tag, &at, &length))) return status;
        if (!column_of(frame, field) && slot->stamp != frame->stamp) frame->unread_count++;
        if ((status = add_segment(reader, slot, frame->stamp, at, length))) return status;
    } else if (is_text(field)) {
        if ((status = read_text(reader, field, column_of(frame, field), &slot->first))) return status;
    } else {
        if ((status = read_number(reader, field, &bits))) return status;
        if (is_dropped(reader, field, bits)) {
            frame->has_unknown = 1;
            return OK;
        }
        slot->bits = bits;
        slot->first.at = reader->at;
    }
    slot->stamp = frame->stamp;
    return field->next_in_oneof < 0 ? OK : clear_others(reader, frame, index);
}

static int append_value(Reader *reader, const ProtoField *field, Column *column, uint64_t bits, const Segment *text);

static int read_packed(Reader *reader, Frame *frame, const ProtoField *field, Column *element) {
    const uint8_t *bytes, *behind, *end = reader->end;
    int64_t length;
    uint64_t bits;
    int status = read_sized(reader, &bytes, &length);
    if (status) return status;
    behind = reader->at;
    reader->at = bytes;
    reader->end = behind;
    while (status == OK && reader->at < behind) {
        if ((status = read_number(reader, field, &bits))) break;
        if (is_dropped(reader, field, bits)) {
            frame->has_unknown = 1;
        } else if (element) {
            status = append_value(reader, field, element, bits, NULL);
        }
    }
    reader->end = end;
    return status;
}

static int read_repeated(Reader *reader, Frame *frame, int32_t index, uint32_t tag) {
    const ProtoField *field = &frame->fields[index];
    Column *column = column_of(frame, field), *element = column ? column->children[0] : NULL;
    int wire = (int)(tag & 7), status;
    Slot slot = {.first = {.next = -1}, .last = -1};
    uint64_t bits = 0;
    if (wire != WIRE_OF_TYPE[field->type]) {
        int can_be_packed = WIRE_OF_TYPE[field->type] != WIRE_BYTES && field->type != PROTO_GROUP;
        return wire == WIRE_BYTES && can_be_packed ? read_packed(reader, frame, field, element) : IS_UNKNOWN;
    }
    if (field->message >= 0) {
        if ((status = read_content(reader, field, tag, &slot.first.at, &slot.first.length))) return status;
        return append_message(reader, field, &slot, element);
    }
    if (is_text(field)) {
        if ((status = read_text(reader, field, element, &slot.first))) return status;
    } else {
        if ((status = read_number(reader, field, &bits))) return status;
        if (is_dropped(reader, field, bits)) {
            frame->has_unknown = 1;
            return OK;
        }
    }
    return element ? append_value(reader, field, element, bits, &slot.first) : OK;
}

static int read_entry(Reader *reader, Frame *frame, int32_t index, uint32_t tag) {
    const uint8_t *at;
    int64_t length;
    if ((tag & 7) != WIRE_BYTES) return IS_UNKNOWN;
    int status = read_sized(reader, &at, &length);
    if (status) return status;
    if (!column_of(frame, &frame->fields[index]) && !is_set(frame, index)) frame->unread_count++;
    return add_segment(reader, &frame->slots[index], frame->stamp, at, length);
}

static int read_fields(Reader *reader, Frame *frame) {
    int32_t expected = 0;
    while (reader->at < reader->end) {
        uint32_t tag;
        int status = read_tag(reader, &tag);
        if (status) return status;
        int32_t index = find_field(frame->fields, frame->message->field_count, (int32_t)(tag >> 3), &expected);
        if (index < 0) {
            status = IS_UNKNOWN;
        } else if (frame->fields[index].flags & PROTO_MAP) {
            status = read_entry(reader, frame, index, tag);
        } else if (frame->fields[index].flags & PROTO_REPEATED) {
            status = read_repeated(reader, frame, index, tag);
        } else {
            status = read_singular(reader, frame, index, tag);
        }
        if (status == IS_UNKNOWN) {
            frame->has_unknown = 1;
            status = skip_value(reader, tag, reader->depth);
        }
        if (status) return status;
    }
    return OK;
}

/* -- values to columns ---------------------------------------------------------------------------------- */

static int append_enum(Reader *reader, const ProtoField *field, Column *column, int32_t number) {
    const ProtoPlan *plan = reader->plan;
    int32_t found = find_value(plan, field, number);
    if (found >= 0) {
        const int32_t *offsets = plan->symbol_offsets + plan->enum_symbols[field->first_value + found];
        return column_append_bytes(column, plan->symbols + offsets[0], offsets[1] - offsets[0]);
    }
    /* A number without a name comes from a newer schema. Its digits keep it apart, and can be written. */
    char digits[16];
    int length = snprintf(digits, sizeof(digits), "%d", (int)number);
    return column_append_bytes(column, (const uint8_t *)digits, length);
}

static int append_floating(const ProtoField *field, Column *column, uint64_t bits) {
    float narrow;
    double wide;
    if (field->type == PROTO_FLOAT) {
        uint32_t low = (uint32_t)bits;
        memcpy(&narrow, &low, 4);
        return column->kind == KIND_FLOAT ? column_append_float(column, narrow) : column_append_double(column, narrow);
    }
    memcpy(&wide, &bits, 8);
    return column_append_double(column, wide);
}

static int append_value(Reader *reader, const ProtoField *field, Column *column, uint64_t bits, const Segment *text) {
    int status;
    switch (field->type) {
    case PROTO_STRING:
    case PROTO_BYTES:
        if (field->type == PROTO_STRING && !(field->flags & PROTO_CHECKS_UTF8) && !is_utf8(text->at, text->length)) {
            return fail(reader, TEXT_NOT_UTF8, column);
        }
        return column_append_bytes(column, text->at, text->length);
    case PROTO_BOOL:
        return column_append_bool(column, bits != 0);
    case PROTO_FLOAT:
    case PROTO_DOUBLE:
        return append_floating(field, column, bits);
    case PROTO_ENUM:
        if (column->kind == KIND_STRING) return append_enum(reader, field, column, (int32_t)bits);
        break;
    case PROTO_UINT64:
    case PROTO_FIXED64:
        if (column->kind == KIND_DECIMAL) return column_append_i128(column, (__int128)bits);
        if (bits > INT64_MAX) return fail(reader, OUT_OF_RANGE, column);
        break;
    default:
        break;
    }
    status = column_append_integer(column, (int64_t)bits);
    return status == OK || status == NO_MEMORY ? status : fail(reader, status, column);
}

static int append_default(Reader *reader, const ProtoField *field, Column *column) {
    const ProtoPlan *plan = reader->plan;
    if (field->message >= 0) {
        reader->partial_depth++;
        int status = append_message(reader, field, NULL, column);
        reader->partial_depth--;
        return status;
    }
    Segment text = {.next = -1};
    if (is_text(field)) {
        const int32_t *offsets = plan->symbol_offsets + field->default_text;
        text.at = plan->symbols + offsets[0];
        text.length = offsets[1] - offsets[0];
    }
    return append_value(reader, field, column, (uint64_t)field->default_bits, &text);
}

static int append_absent(Reader *reader, const Frame *frame, const ProtoField *field, Column *column) {
    /* The message of an entry without a value is there, and empty. */
    if (field && field->message >= 0 && frame->message->flags & PROTO_IS_ENTRY) {
        return append_message(reader, field, NULL, column);
    }
    if (field && field->flags & PROTO_GIVES_DEFAULT) return append_default(reader, field, column);
    return column->nullable ? column_append_null(column) : fail(reader, UNEXPECTED_NULL, column);
}

static int finish_list(const ProtoField *field, Column *column) {
    int64_t length = column->children[0]->length;
    int status = column_make_room(column);
    if (status) return status;
    if (length == column->offsets[column->length] && !(field->flags & PROTO_GIVES_DEFAULT)) {
        return column_append_null(column);
    }
    return column_finish_list(column, length);
}

/* -- maps ------------------------------------------------------------------------------------------------ */

typedef struct {
    uint64_t bits;
    Segment text; /* of the key */
    const uint8_t *at;
    int64_t length;
    int64_t order;
} Entry;

static int compare_order(const Entry *a, const Entry *b) { return (a->order > b->order) - (a->order < b->order); }

static int compare_signed(const void *a, const void *b) {
    int64_t x = (int64_t)((const Entry *)a)->bits, y = (int64_t)((const Entry *)b)->bits;
    return x == y ? compare_order(a, b) : x < y ? -1 : 1;
}

static int compare_unsigned(const void *a, const void *b) {
    uint64_t x = ((const Entry *)a)->bits, y = ((const Entry *)b)->bits;
    return x == y ? compare_order(a, b) : x < y ? -1 : 1;
}

static int compare_texts(const void *a, const void *b) {
    const Segment *x = &((const Entry *)a)->text, *y = &((const Entry *)b)->text;
    int64_t length = x->length < y->length ? x->length : y->length;
    int found = length ? memcmp(x->at, y->at, (size_t)length) : 0;
    if (found) return found;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return compare_order(a, b);
}

static int is_same_key(const ProtoField *key, const Entry *a, const Entry *b) {
    if (!is_text(key)) return a->bits == b->bits;
    return a->text.length == b->text.length &&
           (!a->text.length || memcmp(a->text.at, b->text.at, (size_t)a->text.length) == 0);
}

static int open_frame(Reader *reader, Frame *frame, int32_t index, Column *column);
static void close_frame(Reader *reader, int64_t segment_count);

/* Reads the key of an entry. An entry with an unknown field does not count in google.protobuf: *counts becomes 0. */
static int read_key(Reader *reader, int32_t message, const Segment *part, Entry *entry, int *counts) {
    const uint8_t *at_before = reader->at, *end_before = reader->end;
    int64_t segment_count = reader->segment_count;
    Frame frame;
    int status = open_frame(reader, &frame, message, NULL);
    if (status) return status;
    reader->at = part->at;
    reader->end = part->at + part->length;
    *entry = (Entry){.at = part->at, .length = part->length, .text = {.next = -1}};
    status = read_fields(reader, &frame);
    if (status == OK && frame.message->field_count && frame.fields[0].number == 1 && is_set(&frame, 0)) {
        entry->bits = frame.slots[0].bits;
        entry->text = frame.slots[0].first;
        if (!is_text(&frame.fields[0])) entry->text.length = 0;
    }
    *counts = !frame.has_unknown;
    close_frame(reader, segment_count);
    reader->at = at_before;
    reader->end = end_before;
    return status;
}

/* Sorts entries by key. Of equal keys the last entry is the last one. */
static void sort_entries(const ProtoField *key, Entry *entries, int64_t count) {
    int (*compare)(const void *, const void *) = compare_signed;
    if (is_text(key)) compare = compare_texts;
    if (key->type == PROTO_UINT64 || key->type == PROTO_FIXED64) compare = compare_unsigned;
    for (int64_t i = 1; i < count; i++) {
        if (compare(&entries[i - 1], &entries[i]) > 0) {
            qsort(entries, (size_t)count, sizeof(Entry), compare);
            return;
        }
    }
}

static int append_entries(Reader *reader, const ProtoField *field, const ProtoField *key, const Entry *entries,
                          int64_t count, Column *column) {
    for (int64_t i = 0; i < count; i++) {
        const Entry *entry = &entries[i];
        int is_replaced = i + 1 < count && is_same_key(key, entry, entry + 1);
        int status = is_replaced
                         ? check_part(reader, field->message, entry->at, entry->length)
                         : read_part(reader, field->message, entry->at, entry->length, column);
        if (status) return status;
    }
    return OK;
}

/* Appends the entries of a map in the order of their keys, so that reading again gives the same rows. */
static int append_map(Reader *reader, const ProtoField *field, const Slot *slot, Column *column) {
    const ProtoField *key = reader->plan->fields + reader->plan->messages[field->message].first_field;
    int64_t capacity = 1, count = 0;
    int status = OK, counts;
    for (int64_t next = slot->first.next; next >= 0; next = reader->segments[next].next) capacity++;
    Entry *entries = malloc((size_t)capacity * sizeof(Entry));
    if (!entries) return NO_MEMORY;
    Segment part = slot->first;
    for (int64_t i = 0; i < capacity && status == OK; i++) {
        status = read_key(reader, field->message, &part, &entries[count], &counts);
        if (status == OK && counts) {
            entries[count].order = i;
            count++;
        } else if (status == OK) {
            status = check_part(reader, field->message, part.at, part.length);
        }
        if (part.next >= 0) part = reader->segments[part.next];
    }
    if (status == OK) {
        sort_entries(key, entries, count);
        status = append_entries(reader, field, key, entries, count, column);
    }
    free(entries);
    return status;
}

/* -- step two: the columns of a message ------------------------------------------------------------------ */

static int finish_column(Reader *reader, Frame *frame, int32_t index, Column *column) {
    if (index < 0) return append_absent(reader, frame, NULL, column);
    const ProtoField *field = &frame->fields[index];
    const Slot *slot = &frame->slots[index];
    int status = OK;
    if (field->flags & PROTO_REPEATED) return finish_list(field, column);
    if (field->flags & PROTO_MAP) {
        if (is_set(frame, index)) status = append_map(reader, field, slot, column);
        return status ? status : finish_list(field, column);
    }
    if (!is_set(frame, index)) return append_absent(reader, frame, field, column);
    if (field->message >= 0) return append_message(reader, field, slot, column);
    reader->at = slot->first.at; /* for the position of an error */
    return append_value(reader, field, column, slot->bits, &slot->first);
}

/* Checks the messages and maps that have no column. */
static int check_unread(Reader *reader, Frame *frame) {
    for (int32_t i = 0; i < frame->message->field_count; i++) {
        const ProtoField *field = &frame->fields[i];
        if (field->message < 0 || field->flags & PROTO_REPEATED || !is_set(frame, i) || column_of(frame, field)) continue;
        /* Only required fields need the occurrences together. */
        int is_partial = reader->partial_depth || !(field->flags & PROTO_HAS_REQUIRED), status;
        int64_t total;
        if (is_partial) {
            status = check_parts(reader, field->message, &frame->slots[i], &total);
        } else if (field->flags & PROTO_MAP) {
            status = append_map(reader, field, &frame->slots[i], NULL);
        } else {
            status = append_message(reader, field, &frame->slots[i], NULL);
        }
        if (status) return status;
    }
    return OK;
}

static int check_required(Reader *reader, const Frame *frame) {
    const ProtoPlan *plan = reader->plan;
    for (int32_t i = 0; i < frame->message->field_count; i++) {
        if (!(frame->fields[i].flags & PROTO_IS_REQUIRED) || is_set(frame, i)) continue;
        const int32_t *offsets = plan->symbol_offsets + frame->fields[i].name;
        fail(reader, MISSING_REQUIRED, frame->column);
        output_text(reader->output, plan->symbols + offsets[0], offsets[1] - offsets[0]);
        return MISSING_REQUIRED;
    }
    return OK;
}

/* The message of a map's entry without a value is there, and empty: its required fields are missing. */
static int check_absent_value(Reader *reader, const Frame *frame) {
    if (!(frame->message->flags & PROTO_IS_ENTRY) || reader->partial_depth) return OK;
    for (int32_t i = 0; i < frame->message->field_count; i++) {
        const ProtoField *field = &frame->fields[i];
        if (!(field->flags & PROTO_HAS_REQUIRED) || is_set(frame, i)) continue;
        int status = append_message(reader, field, NULL, NULL);
        if (status) return status;
    }
    return OK;
}

static int finish_timestamp(Reader *reader, const Frame *frame) {
    static const int64_t units[] = {1, 0, 0, 1000, 0, 0, 1000000, 0, 0, 1000000000};
    int64_t parts[2] = {0, 0}, per_second = units[frame->column->fraction_digits], value;
    for (int32_t i = 0; i < frame->message->field_count; i++) {
        int32_t target = frame->fields[i].target;
        if (target >= 0 && target < 2 && is_set(frame, i)) parts[target] = (int64_t)frame->slots[i].bits;
    }
    if (parts[1] < 0 || parts[1] >= 1000000000) return fail(reader, BAD_NANOS, frame->column);
    int64_t fraction = parts[1] / (1000000000 / per_second);
    if (parts[0] < 0) { /* count from the next second: the first nanoseconds of int64 begin within a second */
        parts[0] += 1;
        fraction -= per_second;
    }
    if (__builtin_mul_overflow(parts[0], per_second, &value) || __builtin_add_overflow(value, fraction, &value)) {
        return fail(reader, OUT_OF_RANGE, frame->column);
    }
    return column_append_i64(frame->column, value);
}

static int finish_message(Reader *reader, Frame *frame) {
    int status;
    if (frame->message->required_count && !reader->partial_depth && (status = check_required(reader, frame))) return status;
    if (frame->unread_count && (status = check_unread(reader, frame))) return status;
    if (!frame->column) return check_absent_value(reader, frame);
    if (frame->message->flags & PROTO_IS_TIMESTAMP) return finish_timestamp(reader, frame);
    const int32_t *columns = reader->plan->columns + frame->message->first_column;
    for (int32_t i = 0; i < frame->message->column_count; i++) {
        if ((status = finish_column(reader, frame, columns[i], frame->column->children[i]))) return status;
    }
    return OK;
}

/* -- messages ---------------------------------------------------------------------------------------------- */

static int open_frame(Reader *reader, Frame *frame, int32_t index, Column *column) {
    if (reader->depth > DEPTH_MAX) return fail(reader, TOO_DEEP_MESSAGE, column);
    if (!reader->slots[reader->depth]) {
        reader->slots[reader->depth] = calloc((size_t)reader->slot_count + 1, sizeof(Slot));
        if (!reader->slots[reader->depth]) return NO_MEMORY;
    }
    const ProtoMessage *message = &reader->plan->messages[index];
    *frame = (Frame){
        .message = message,
        .fields = reader->plan->fields + message->first_field,
        .column = column,
        .slots = reader->slots[reader->depth],
        .stamp = ++reader->stamp,
    };
    reader->depth++;
    return OK;
}

static void close_frame(Reader *reader, int64_t segment_count) {
    reader->segment_count = segment_count;
    reader->depth--;
}

/* Reads all bytes up to the reader's end as one message, and appends one entry to the column of each field. */
static int read_message(Reader *reader, int32_t index, Column *column) {
    int64_t segment_count = reader->segment_count;
    Frame frame;
    int status = open_frame(reader, &frame, index, column);
    if (status) return status;
    status = read_fields(reader, &frame);
    if (status == OK) status = finish_message(reader, &frame);
    close_frame(reader, segment_count);
    /* The innermost known column, because the readers of numbers do not know their column. */
    if (status && !reader->output->column) reader->output->column = column;
    return status;
}

/* -- values ------------------------------------------------------------------------------------------------ */

static int decode_value(Reader *reader, Column *root, Output *output, int64_t i) {
    int64_t base = root->length;
    int status = read_message(reader, 0, root);
    if (status == OK && (status = column_make_room(root)) == OK) {
        column_set_valid(root);
        return output_add_row(output, i);
    }
    if (status == NO_MEMORY) return status;
    column_truncate(root, base);
    return output_add_failure(output, i, status);
}

int protobuf_decode(Column *root, const ProtoPlan *plans, int64_t plan_count, const int32_t *plan_of_value,
                    const int32_t *starts, const Values *values, Output *output) {
    Reader reader = {.output = output};
    int status = OK;
    for (int64_t i = 0; i < plan_count; i++) {
        if (plans[i].field_count_max > reader.slot_count) reader.slot_count = plans[i].field_count_max;
    }
    for (int64_t i = 0; i < values->length && status == OK; i++) {
        int64_t length;
        const uint8_t *value = values_at(values, i, &length);
        if (values_is_null(values, i) || plan_of_value[i] < 0) continue;
        reader.start = value;
        reader.at = value + starts[i];
        reader.end = value + length;
        reader.plan = &plans[plan_of_value[i]];
        reader.depth = reader.partial_depth = reader.merged_depth = 0;
        reader.segment_count = 0;
        status = decode_value(&reader, root, output, i);
    }
    for (int i = 0; i <= DEPTH_MAX; i++) free(reader.slots[i]);
    free(reader.segments);
    return status;
}

/* -- Confluent's header ------------------------------------------------------------------------------------ */

#define HEADER_BYTES 5
#define INDEXES_MAX 100
#define INDEX_BYTES_MAX 5

static const uint8_t *skip_index(const uint8_t *at, const uint8_t *end) {
    for (int i = 0; i < INDEX_BYTES_MAX && at < end; i++) {
        if (*at++ < 0x80) return at;
    }
    return NULL;
}

int32_t message_start(const Values *values, int64_t i, const uint8_t **value) {
    int64_t length;
    *value = values_at(values, i, &length);
    if (length == 0 || values_is_null(values, i)) return -1;
    if (length <= HEADER_BYTES || (*value)[0] != 0) return -2;
    const uint8_t *at = *value + HEADER_BYTES, *end = *value + length;
    uint64_t bits = 0;
    const uint8_t *behind = skip_index(at, end);
    if (!behind) return -3;
    for (int shift = 0; at < behind; at++, shift += 7) bits |= (uint64_t)(*at & 0x7f) << shift;
    if (bits & 1 || bits >> 1 > INDEXES_MAX) return -3; /* zigzag: an odd number is negative */
    for (uint64_t n = bits >> 1; n > 0; n--) {
        if (!(at = skip_index(at, end))) return -3;
    }
    return (int32_t)(at - *value);
}
