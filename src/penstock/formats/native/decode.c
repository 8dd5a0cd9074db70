#include "decode.h"

#include "blocks.h"

int output_add_row(Output *output, int64_t value_index) {
    if (output->row_count == output->row_capacity) {
        int64_t capacity = output->row_capacity ? 2 * output->row_capacity : 1024;
        int32_t *larger = block_resize(output->value_indices, capacity * (int64_t)sizeof(int32_t));
        if (!larger) return NO_MEMORY;
        output->value_indices = larger;
        output->row_capacity = capacity;
    }
    output->value_indices[output->row_count++] = (int32_t)value_index;
    return OK;
}

int output_add_failure(Output *output, int64_t value_index, int reason) {
    if (output->failure_count == output->failure_capacity) {
        int64_t capacity = output->failure_capacity ? 2 * output->failure_capacity : 16;
        Failure *larger = realloc(output->failures, (size_t)capacity * sizeof(Failure));
        if (!larger) return NO_MEMORY;
        output->failures = larger;
        output->failure_capacity = capacity;
    }
    Failure *failure = &output->failures[output->failure_count++];
    failure->row = (int32_t)value_index;
    failure->reason = reason;
    failure->position = output->position;
    failure->column = output->column;
    failure->text = output->text;
    return OK;
}

void output_free(Output *output) {
    block_free(output->value_indices);
    free(output->failures);
    memset(output, 0, sizeof(*output));
}
