#include "columns.h"

#include "blocks.h"

#define CAPACITY_MIN 64
#define BYTES_MAX INT32_MAX

Column *column_new(int kind) {
    Column *column = calloc(1, sizeof(Column));
    if (!column) return NULL;
    column->kind = kind;
    return column;
}

void column_free(Column *column) {
    if (!column) return;
    for (int i = 0; i < column->child_count; i++) column_free(column->children[i]);
    free(column->children);
    block_free(column->validity);
    block_free(column->values);
    block_free(column->offsets);
    free(column->name_slots);
    free((void *)column->name);
    free(column);
}

static int has_offsets(const Column *column) {
    return column->kind == KIND_STRING || column->kind == KIND_BINARY || column->kind == KIND_LIST ||
           column->kind == KIND_MAP;
}

static uint32_t hash_name(const uint8_t *name, int64_t length) {
    uint32_t hash = 2166136261u;
    for (int64_t i = 0; i < length; i++) hash = (hash ^ name[i]) * 16777619u;
    return hash;
}

int column_index_names(Column *column) {
    uint32_t slots = 8;
    while (slots < 2u * (uint32_t)column->child_count) slots *= 2;
    column->name_slots = calloc(slots, sizeof(int32_t));
    if (!column->name_slots) return NO_MEMORY;
    column->name_mask = slots - 1;
    for (int i = 0; i < column->child_count - column->has_presence; i++) {
        const Column *child = column->children[i];
        if (child->name_length > column->name_length_max) column->name_length_max = child->name_length;
        uint32_t slot = hash_name(child->name, child->name_length) & column->name_mask;
        while (column->name_slots[slot]) slot = (slot + 1) & column->name_mask;
        column->name_slots[slot] = i + 1;
    }
    return OK;
}

int column_find(const Column *column, const uint8_t *name, int64_t length) {
    if (length > column->name_length_max) return -1;
    uint32_t slot = hash_name(name, length) & column->name_mask;
    while (column->name_slots[slot]) {
        int index = column->name_slots[slot] - 1;
        const Column *child = column->children[index];
        if (child->name_length == length && memcmp(child->name, name, (size_t)length) == 0) return index;
        slot = (slot + 1) & column->name_mask;
    }
    return -1;
}

static int resize(void **block, int64_t bytes) {
    void *larger = block_resize(*block, bytes);
    if (!larger) return NO_MEMORY;
    *block = larger;
    return OK;
}

int column_reserve(Column *column, int64_t capacity) {
    if (capacity <= column->capacity && column->validity) return OK;
    if (capacity < CAPACITY_MIN) capacity = CAPACITY_MIN;
    capacity = (capacity + 63) & ~(int64_t)63;
    int64_t old = column->capacity;
    if (resize((void **)&column->validity, capacity / 8)) return NO_MEMORY;
    memset(column->validity + old / 8, 0, (size_t)((capacity - old) / 8));
    if (has_offsets(column)) {
        if (resize((void **)&column->offsets, (capacity + 1) * (int64_t)sizeof(int32_t))) return NO_MEMORY;
        if (old == 0) column->offsets[0] = 0;
    }
    if (column->kind == KIND_BOOL) {
        if (resize((void **)&column->values, capacity / 8)) return NO_MEMORY;
        memset(column->values + old / 8, 0, (size_t)((capacity - old) / 8));
    } else if (column->width) {
        if (resize((void **)&column->values, capacity * column->width)) return NO_MEMORY;
    }
    column->capacity = capacity;
    return OK;
}

int column_grow(Column *column) { return column_reserve(column, column->capacity * 2); }

int column_grow_bytes(Column *column, int64_t needed) {
    /* The limit of Arrow's 32-bit offsets. Incoming batches are far smaller. */
    if (needed > BYTES_MAX) return NO_MEMORY;
    int64_t capacity = column->bytes_capacity * 2;
    if (capacity < needed) capacity = needed;
    if (capacity < 16 * CAPACITY_MIN) capacity = 16 * CAPACITY_MIN;
    if (resize((void **)&column->values, capacity)) return NO_MEMORY;
    column->bytes_capacity = capacity;
    return OK;
}

void column_truncate(Column *column, int64_t length) {
    /* Bits after the new end are cleared, because an append only sets bits. A struct that failed in the middle has
     * children that are longer than itself, so children are cut even where the length stays. */
    for (int64_t i = length; i < column->length; i++) column->validity[i >> 3] &= (uint8_t)~(1u << (i & 7));
    if (column->length > length) column->length = length;
    int64_t child_length = length;
    if (column->kind == KIND_LIST || column->kind == KIND_MAP) {
        child_length = column->offsets ? column->offsets[length] : 0;
    }
    for (int i = 0; i < column->child_count; i++) column_truncate(column->children[i], child_length);
}

int column_append_null(Column *column) {
    int status = column_make_room(column);
    if (status) return status;
    int64_t at = column->length;
    if (has_offsets(column)) {
        column->offsets[at + 1] = column->offsets[at];
    } else if (column->width) {
        memset(column->values + at * column->width, 0, (size_t)column->width);
    } else if (column->kind == KIND_BOOL) {
        column->values[at >> 3] &= (uint8_t)~(1u << (at & 7));
    } else if (column->kind == KIND_STRUCT) {
        for (int i = 0; i < column->child_count; i++) {
            status = column_append_null(column->children[i]);
            if (status) return status;
        }
    }
    if (column->nullable) {
        column->length++;
    } else {
        /* A placeholder under a null struct, because the column is declared NOT NULL. */
        column_set_valid(column);
    }
    return OK;
}

int column_append_integer(Column *column, int64_t value) {
    switch (column->kind) {
    case KIND_INT8:
        if (value < INT8_MIN || value > INT8_MAX) return OUT_OF_RANGE;
        return column_append_i8(column, (int8_t)value);
    case KIND_INT16:
        if (value < INT16_MIN || value > INT16_MAX) return OUT_OF_RANGE;
        return column_append_i16(column, (int16_t)value);
    case KIND_INT32:
    case KIND_DATE:
    case KIND_TIME32:
        if (value < INT32_MIN || value > INT32_MAX) return OUT_OF_RANGE;
        return column_append_i32(column, (int32_t)value);
    default:
        return column_append_i64(column, value);
    }
}

static uint64_t hash_bytes(const uint8_t *bytes, int64_t length, uint64_t seed) {
    uint64_t hash = seed ^ (uint64_t)length;
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
        bytes += 8;
        length -= 8;
    }
    for (; length > 0; length--, bytes++) hash = (hash ^ *bytes) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 32;
}

static int is_same_key(const Column *keys, int64_t a, int64_t b) {
    int32_t length = keys->offsets[a + 1] - keys->offsets[a];
    if (length != keys->offsets[b + 1] - keys->offsets[b]) return 0;
    /* Without a byte in any key there is no memory, which memcmp may not be given. */
    return !length || memcmp(keys->values + keys->offsets[a], keys->values + keys->offsets[b], (size_t)length) == 0;
}

/* Marks in *drops every entry whose key comes again later; NULL without such an entry. */
int column_repeated_keys(const Column *keys, int64_t first, uint8_t **drops) {
    int64_t count = keys->length - first;
    *drops = NULL;
    if (count < 2) return OK;
    int64_t slots = 4;
    while (slots < 2 * count) slots *= 2;
    int64_t *table = calloc((size_t)slots, sizeof(int64_t));
    if (!table) return NO_MEMORY;
    /* The seed prevents a sender from choosing keys that all have the same slot. */
    uint64_t seed = (uint64_t)(uintptr_t)table * 0x9e3779b97f4a7c15ULL;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *key = keys->values + keys->offsets[first + i];
        int64_t length = keys->offsets[first + i + 1] - keys->offsets[first + i];
        int64_t slot = (int64_t)(hash_bytes(key, length, seed) & (uint64_t)(slots - 1));
        while (table[slot] && !is_same_key(keys, first + table[slot] - 1, first + i)) slot = (slot + 1) & (slots - 1);
        if (table[slot]) {
            if (!*drops && !(*drops = calloc((size_t)count, 1))) {
                free(table);
                return NO_MEMORY;
            }
            (*drops)[table[slot] - 1] = 1;
        }
        table[slot] = i + 1;
    }
    free(table);
    return OK;
}
