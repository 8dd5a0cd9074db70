"""CsvOptions, shared by the decoder and the encoder."""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef extern from "csv.h":
    ctypedef struct Mark:
        const uint8_t *bytes
        int64_t length

    ctypedef struct CsvOptions:
        Mark delimiter
        Mark quote
        Mark escape
        Mark element_delimiter
        Mark null_literal
        int has_null_literal
        int allow_comments
        int ignore_parse_errors
        int trim_spaces
        int ignore_trailing_unmappable
        int allow_trailing_comma
        int fail_on_missing_columns
        int empty_string_as_null
        int is_decimal_plain
        int field_count
        const int32_t *targets


cdef inline void set_mark(Mark *mark, bytes text):
    """Point a mark at a text. The caller keeps the text alive."""
    mark.bytes = <const uint8_t *><const char *>text
    mark.length = len(text)


cdef inline void set_marks(CsvOptions *options, object dialect):
    """Point the marks into a CsvFormat. The caller keeps it alive."""
    set_mark(&options.delimiter, dialect.delimiter)
    set_mark(&options.quote, dialect.quote)
    set_mark(&options.escape, dialect.escape)
    set_mark(&options.element_delimiter, dialect.element_delimiter)
    set_mark(&options.null_literal, dialect.null_literal or b"")
    options.has_null_literal = dialect.null_literal is not None
