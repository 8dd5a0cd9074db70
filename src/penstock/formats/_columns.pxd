"""Columns in C, their kinds, and the reasons for which a value or a row fails: shared by decoders and encoders."""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef extern from "columns.h":
    enum:
        OK
        NO_MEMORY
        KIND_NULL, KIND_BOOL, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_FLOAT, KIND_DOUBLE
        KIND_DECIMAL, KIND_STRING, KIND_BINARY, KIND_DATE, KIND_TIME32, KIND_TIME64, KIND_TIMESTAMP
        KIND_LIST, KIND_MAP, KIND_STRUCT
        BAD_SYNTAX, BAD_UTF8, TOO_DEEP, TRAILING, NOT_AN_OBJECT, TRUNCATED, BAD_ROW
        WRONG_TYPE, OUT_OF_RANGE, NOT_INTEGRAL, BAD_NUMBER, BAD_BOOLEAN, BAD_DATE, BAD_TIME, BAD_TIMESTAMP
        BAD_BASE64, LONE_SURROGATE, MISSING_FIELD, UNEXPECTED_NULL, BAD_ROW_FIELD, REPEATED_KEY, TEXT_NOT_UTF8
        NOT_QUOTABLE, HAS_ELEMENT_DELIMITER, AMBIGUOUS_TEXT, IS_NULL_LITERAL
        BAD_UNION_INDEX, BAD_ENUM_INDEX, BAD_BOOLEAN_BYTE, BAD_VARINT, BAD_INT, BAD_LENGTH, TOO_MANY_EMPTY
        BAD_TAG, BAD_GROUP_END, TOO_DEEP_MESSAGE, MISSING_REQUIRED, BAD_NANOS, BAD_YEAR, UNKNOWN_ENUM_NAME

    ctypedef struct Column:
        int kind
        int nullable
        int width
        int precision
        int scale
        int fraction_digits
        int is_zoned
        int64_t length
        int64_t capacity
        uint8_t *validity
        uint8_t *values
        int64_t bytes_capacity
        int32_t *offsets
        const uint8_t *name
        int32_t name_length
        int is_name_plain
        Column *parent
        Column **children
        int child_count
        int has_presence

    Column *column_new(int kind)
    void column_free(Column *column)
    int column_index_names(Column *column)
    int column_reserve(Column *column, int64_t capacity)
