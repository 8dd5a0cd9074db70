"""The decoders in C, what they read and what they give."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from penstock.formats._avro cimport AvroPlan
from penstock.formats._columns cimport Column
from penstock.formats._csv cimport CsvOptions
from penstock.formats._protobuf cimport ProtoPlan


cdef extern from "decode.h":
    ctypedef struct Values:
        const uint8_t *bytes
        const int32_t *offsets
        const uint8_t *validity
        int64_t offset
        int64_t length

    ctypedef struct FailedText:
        uint8_t bytes[48]
        int32_t length

    ctypedef struct Failure:
        int32_t row
        int32_t reason
        int64_t position
        const Column *column
        FailedText text

    ctypedef struct Output:
        int32_t *value_indices
        int64_t row_count
        Failure *failures
        int64_t failure_count
        int64_t ignored_count

    ctypedef struct JsonOptions:
        int fail_on_missing_field
        int ignore_parse_errors
        int separator
        int64_t header_size
        int is_one_object

    void output_free(Output *output)
    int avro_decode(
        Column *root, const AvroPlan *plans, const int32_t *plan_of_value, int64_t header_size,
        const Values *values, Output *output
    ) nogil
    int protobuf_decode(
        Column *root, const ProtoPlan *plans, int64_t plan_count, const int32_t *plan_of_value, const int32_t *starts,
        const Values *values, Output *output
    ) nogil
    void confluent_ids(const Values *values, int32_t *ids) nogil
    int32_t message_start(const Values *values, int64_t i, const uint8_t **value) nogil
    int csv_decode(Column *root, const CsvOptions *options, const Values *values, Output *output) nogil
    int json_decode(Column *root, const JsonOptions *options, const Values *values, Output *output) nogil
