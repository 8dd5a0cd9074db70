# cython: language_level=3
"""Arrow schema to native columns, native columns to Arrow arrays. The decoders in between are C without the GIL.

Runs on executors. Invariant: a decoder reads the values one by one out of the Arrow buffer, and gives for each row
the index of its value. A value that fails leaves nothing in the columns.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

import sys

import pyarrow as pa

from penstock.formats._avro cimport AvroNode, AvroPlan, set_plan
from penstock.formats._columns cimport *
from penstock.formats._csv cimport CsvOptions, set_marks
from penstock.formats._decode cimport *
from penstock.formats._protobuf cimport ProtoField, ProtoMessage, ProtoPlan, set_proto_plan


cdef extern from "blocks.h":
    void block_free(void *block)
    int64_t blocks_kept_bytes()


cdef extern from "text.h":
    int text_start()


BYTE_ORDER = sys.byteorder

if text_start() != OK:
    raise MemoryError("no memory for the C locale")

REASONS = {
    BAD_SYNTAX: "the text is not valid here",
    BAD_UTF8: "the bytes are not UTF-8",
    TOO_DEEP: "the value nests deeper than 1,000 levels",
    TRAILING: "the value has ended, and more bytes follow",
    NOT_AN_OBJECT: "the value is not an object",
    TRUNCATED: "the value ends too early",
    BAD_ROW: "the row has a wrong number of fields",
    WRONG_TYPE: "the value has another type",
    OUT_OF_RANGE: "the value is out of the type's range",
    NOT_INTEGRAL: "the number is not whole",
    BAD_NUMBER: "the text is not a number of this type",
    BAD_BOOLEAN: "the text is neither true nor false",
    BAD_DATE: "the text is not a date (yyyy-MM-dd)",
    BAD_TIME: "the text is not a time (HH:mm:ss.fraction)",
    BAD_TIMESTAMP: "the text is not a timestamp in the format's standard",
    BAD_BASE64: "the text is not base64",
    LONE_SURROGATE: "the text has half a surrogate pair, which is not a character",
    MISSING_FIELD: "the field is missing",
    UNEXPECTED_NULL: "the field is null or missing, and is declared NOT NULL",
    BAD_ROW_FIELD: "the row has a wrong number of elements",
    REPEATED_KEY: "a map has the same key twice",
    TEXT_NOT_UTF8: "the text is not UTF-8",
    NOT_QUOTABLE: (
        "the text needs quotes, and 'csv.disable-quote-character' is set. It has a delimiter or line break, has a "
        "blank or control character at an end, or begins with # or a byte order mark"
    ),
    HAS_ELEMENT_DELIMITER: "an element's text has the array element delimiter",
    AMBIGUOUS_TEXT: (
        "the text would read back as another value (empty, the null literal, or without its blanks because "
        "'csv.trim-spaces' is set)"
    ),
    IS_NULL_LITERAL: "the text equals 'csv.null-literal', and would read back as null",
    BAD_UNION_INDEX: "a union's index is not one of its types",
    BAD_ENUM_INDEX: "an enum's index is not one of its symbols",
    BAD_BOOLEAN_BYTE: "a boolean's byte is neither 0 nor 1",
    BAD_VARINT: "a number has more than the 64 bits of a long",
    BAD_INT: "a number has more than the 32 bits of the schema's int",
    BAD_LENGTH: "a length is negative",
    TOO_MANY_EMPTY: "arrays have more elements without bytes than the record has bytes, and more than 100,000",
    BAD_TAG: "a field's number or wire type is not valid",
    BAD_GROUP_END: "a group does not end where it should",
    TOO_DEEP_MESSAGE: "messages nest deeper than 100 levels",
    MISSING_REQUIRED: "a required field is missing",
    BAD_YEAR: "Protobuf has timestamps of the years 1 to 9999 only",
    UNKNOWN_ENUM_NAME: "the text or number is not a value of the field's enum",
    BAD_NANOS: "the nanoseconds are not part of a second (0 to 999,999,999)",
}

cdef dict FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
cdef int SCHEMA_DEPTH_MAX = 100

cdef list SIMPLE_KINDS = [
    (pa.null(), KIND_NULL, 0),
    (pa.bool_(), KIND_BOOL, 0),
    (pa.int8(), KIND_INT8, 1),
    (pa.int16(), KIND_INT16, 2),
    (pa.int32(), KIND_INT32, 4),
    (pa.int64(), KIND_INT64, 8),
    (pa.float32(), KIND_FLOAT, 4),
    (pa.float64(), KIND_DOUBLE, 8),
    (pa.string(), KIND_STRING, 0),
    (pa.binary(), KIND_BINARY, 0),
    (pa.date32(), KIND_DATE, 4),
]


PRESENCE_KEY = b"penstock.presence"
"""In the metadata of the last field (binary) of a struct: JSON fills it with one bit for each other field, the
lowest first. A bit is set if the object has the field, also if it is null there."""


# -- schema to columns ---------------------------------------------------------------------------------------

cdef Column *new_column(int kind) except NULL:
    cdef Column *column = column_new(kind)
    if column == NULL:
        raise MemoryError()
    return column


cdef int set_name(Column *column, str name) except -1:
    cdef bytes encoded = name.encode()
    cdef uint8_t *copy = <uint8_t *>malloc(len(encoded) + 1)
    if copy == NULL:
        raise MemoryError()
    memcpy(copy, <const char *>encoded, len(encoded) + 1)
    column.name = copy
    column.name_length = <int32_t>len(encoded)
    column.is_name_plain = b'"' not in encoded and b"\\" not in encoded
    return 0


cdef int add_children(Column *column, list fields, int depth) except -1:
    cdef int i
    column.children = <Column **>calloc(len(fields) or 1, sizeof(Column *))
    if column.children == NULL:
        raise MemoryError()
    for i, field in enumerate(fields):
        column.children[i] = build_column(field, depth + 1)
        column.children[i].parent = column
        column.child_count = i + 1
    return 0


cdef int fill_column(Column *column, object field, int depth) except -1:
    arrow_type = field.type
    column.nullable = field.nullable
    set_name(column, field.name)
    if column.kind == KIND_DECIMAL:
        column.width, column.precision, column.scale = 16, arrow_type.precision, arrow_type.scale
    elif column.kind == KIND_TIME32 or column.kind == KIND_TIME64 or column.kind == KIND_TIMESTAMP:
        column.width = 4 if column.kind == KIND_TIME32 else 8
        column.fraction_digits = FRACTION_DIGITS[arrow_type.unit]
        column.is_zoned = column.kind == KIND_TIMESTAMP and arrow_type.tz is not None
    elif column.kind == KIND_LIST:
        add_children(column, [arrow_type.value_field], depth)
    elif column.kind == KIND_MAP:
        add_children(column, [arrow_type.key_field, arrow_type.item_field], depth)
    elif column.kind == KIND_STRUCT:
        fields = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
        add_children(column, fields, depth)
        if fields:
            column.has_presence = PRESENCE_KEY in (fields[len(fields) - 1].metadata or {})
        if column_index_names(column):
            raise MemoryError()
    else:
        for simple, kind, width in SIMPLE_KINDS:
            if column.kind == kind:
                column.width = width
    if column_reserve(column, 1):
        raise MemoryError()
    return 0


def kind_of(arrow_type):
    """Return the kind number of an Arrow type; TypeError where there is none."""
    for simple, kind, width in SIMPLE_KINDS:
        if arrow_type.equals(simple):
            return kind
    types = pa.types
    for test, kind in (
        (types.is_decimal128, KIND_DECIMAL),
        (types.is_time32, KIND_TIME32),
        (types.is_time64, KIND_TIME64),
        (types.is_timestamp, KIND_TIMESTAMP),
        (types.is_list, KIND_LIST),
        (types.is_map, KIND_MAP),
        (types.is_struct, KIND_STRUCT),
    ):
        if test(arrow_type):
            return kind
    raise TypeError(f"no native column for {arrow_type}")


cdef Column *build_column(object field, int depth) except NULL:
    if depth > SCHEMA_DEPTH_MAX:
        raise TypeError("the schema nests too deep")
    cdef Column *column = new_column(kind_of(field.type))
    try:
        fill_column(column, field, depth)
    except BaseException:
        column_free(column)
        raise
    return column


cdef class _Rows:
    """Owns a tree of columns for one decode."""

    cdef Column *root

    def __cinit__(self, schema, int64_t capacity):
        cdef int i
        self.root = build_column(pa.field("", pa.struct(list(schema)), nullable=False), 0)
        if column_reserve(self.root, capacity):
            raise MemoryError()
        for i in range(self.root.child_count):
            if column_reserve(self.root.children[i], capacity):
                raise MemoryError()

    def __dealloc__(self):
        column_free(self.root)


# -- columns to arrays ---------------------------------------------------------------------------------------

cdef class _Memory:
    """A block of memory that an Arrow buffer points into."""

    cdef void *block

    def __dealloc__(self):
        free(self.block)


cdef class _Block:
    """A block of blocks.h that an Arrow buffer points into."""

    cdef void *block

    def __dealloc__(self):
        block_free(self.block)


cdef object take_buffer(void **block, int64_t size):
    """Hand a block over to an Arrow buffer."""
    cdef _Block memory
    if block[0] == NULL:
        return pa.py_buffer(b"")
    memory = _Block()
    memory.block = block[0]
    block[0] = NULL
    return pa.foreign_buffer(<uintptr_t>memory.block, size, base=memory)


cdef int64_t count_nulls(Column *column):
    cdef int64_t i, valid = 0
    cdef int64_t whole = column.length >> 3
    for i in range(whole):
        valid += popcount8(column.validity[i])
    for i in range(whole << 3, column.length):
        valid += (column.validity[i >> 3] >> (i & 7)) & 1
    return column.length - valid


cdef inline int popcount8(uint8_t byte):
    cdef int value = byte
    value = value - ((value >> 1) & 0x55)
    value = (value & 0x33) + ((value >> 2) & 0x33)
    return (value + (value >> 4)) & 0x0F


cdef object take_array(Column *column, object arrow_type):
    """Turn a column into an Arrow array that owns its memory."""
    cdef int64_t length = column.length
    if column.kind == KIND_NULL:
        return pa.nulls(length)
    cdef int64_t nulls = count_nulls(column)
    validity = take_buffer(<void **>&column.validity, (length + 7) // 8) if nulls else None
    if column.kind == KIND_STRUCT:
        children = [take_array(column.children[i], arrow_type.field(i).type) for i in range(column.child_count)]
        return pa.Array.from_buffers(arrow_type, length, [validity], nulls, children=children)
    if column.kind == KIND_LIST or column.kind == KIND_MAP:
        return take_nested(column, arrow_type, validity, nulls)
    if column.kind == KIND_STRING or column.kind == KIND_BINARY:
        used = column.offsets[length]
        offsets = take_buffer(<void **>&column.offsets, 4 * (length + 1))
        buffers = [validity, offsets, take_buffer(<void **>&column.values, used)]
        return pa.Array.from_buffers(arrow_type, length, buffers, nulls)
    size = (length + 7) // 8 if column.kind == KIND_BOOL else length * column.width
    return pa.Array.from_buffers(arrow_type, length, [validity, take_buffer(<void **>&column.values, size)], nulls)


cdef object take_nested(Column *column, object arrow_type, object validity, int64_t nulls):
    cdef int64_t length = column.length
    offsets = take_buffer(<void **>&column.offsets, 4 * (length + 1))
    if column.kind == KIND_LIST:
        child = take_array(column.children[0], arrow_type.value_type)
    else:
        entries_type = pa.struct([arrow_type.key_field, arrow_type.item_field])
        keys = take_array(column.children[0], arrow_type.key_type)
        items = take_array(column.children[1], arrow_type.item_type)
        child = pa.Array.from_buffers(entries_type, len(keys), [None], 0, children=[keys, items])
    return pa.Array.from_buffers(arrow_type, length, [validity, offsets], nulls, children=[child])


cdef str path_of(const Column *column):
    """Name a column as `a.b[].c`; a map's value is `{}`."""
    parts = []
    while column != NULL and column.parent != NULL:
        if column.parent.kind == KIND_LIST:
            parts.append("[]")
        elif column.parent.kind == KIND_MAP:
            parts.append("{}" if column == column.parent.children[1] else "{key}")
        else:
            parts.append("." + column.name[:column.name_length].decode())
        column = column.parent
    return "".join(reversed(parts)).lstrip(".")


cdef str time_kind(const Column *column):
    """Name the kind of a column of dates or times, "" for others."""
    if column == NULL:
        return ""
    if column.kind == KIND_TIMESTAMP:
        return "timestamp with zone" if column.is_zoned else "timestamp"
    if column.kind == KIND_DATE:
        return "date"
    return "time" if column.kind == KIND_TIME32 or column.kind == KIND_TIME64 else ""


# -- decoders ------------------------------------------------------------------------------------------------

cdef class _Input:
    """An Arrow binary array, held while C reads it."""

    cdef Values values
    cdef object array
    cdef object buffers

    def __cinit__(self, array):
        if not array.type.equals(pa.binary()):
            raise TypeError(f"values must be binary, not {array.type}")
        self.array = array
        self.buffers = array.buffers()
        self.values.offset = array.offset
        self.values.length = len(array)
        self.values.validity = self.address(0)
        self.values.offsets = <const int32_t *>self.address(1)
        self.values.bytes = self.address(2)
        if self.values.offsets == NULL:
            self.values.length = 0

    cdef uint8_t *address(self, int index):
        buffer = self.buffers[index]
        return NULL if buffer is None else <uint8_t *><uintptr_t>buffer.address


cdef class _Result:
    """Owns what a decoder gives beside the rows."""

    cdef Output output

    def __dealloc__(self):
        output_free(&self.output)

    cdef object finish(self, int status, _Rows rows, object schema, int64_t value_count):
        """Return (columns, row count, value indices or None, failures, ignored count)."""
        cdef int64_t i
        if status != OK:
            raise MemoryError(
                "no memory for the decoded rows, or a column of them has more than 2 GiB or 2,147,483,647 elements"
            )
        cdef int64_t count = self.output.row_count
        failures = [self.failure(&self.output.failures[i]) for i in range(self.output.failure_count)]
        columns = [take_array(rows.root.children[i], schema.field(i).type) for i in range(rows.root.child_count)]
        return columns, count, self.indices(value_count), failures, self.output.ignored_count

    cdef object failure(self, Failure *failure):
        path = "" if failure.column == NULL else path_of(failure.column)
        text = None if failure.text.length == 0 else bytes(failure.text.bytes[:failure.text.length])
        reason = REASONS[failure.reason]
        if failure.reason == MISSING_REQUIRED:
            reason = f"{reason}: '{text.decode(errors='replace')}'"
        return failure.row, reason, failure.position, path, text, time_kind(failure.column)

    cdef object indices(self, int64_t value_count):
        cdef int64_t i
        cdef int64_t count = self.output.row_count
        if count == value_count:
            for i in range(count):
                if self.output.value_indices[i] != i:
                    break
            else:
                return None
        buffer = take_buffer(<void **>&self.output.value_indices, 4 * count)
        return pa.Array.from_buffers(pa.int32(), count, [None, buffer])


def decode_json(
    array, schema, *, bint fail_on_missing_field, bint ignore_parse_errors, str separator, int64_t header_size=0,
    bint is_one_object=False,
):
    """Decode JSON values; see the module's type stub."""
    cdef JsonOptions options
    cdef _Input values = _Input(array)
    cdef _Rows rows = _Rows(schema, values.values.length)
    cdef _Result result = _Result()
    cdef int status
    options.fail_on_missing_field = fail_on_missing_field
    options.ignore_parse_errors = ignore_parse_errors
    options.separator = ord(separator)
    options.header_size = header_size
    options.is_one_object = is_one_object
    with nogil:
        status = json_decode(rows.root, &options, &values.values, &result.output)
    return result.finish(status, rows, schema, values.values.length)


def decode_csv(array, schema, dialect, targets):
    """Decode CSV values; see the module's type stub."""
    cdef CsvOptions options
    cdef _Input values = _Input(array)
    cdef _Rows rows = _Rows(schema, values.values.length)
    cdef _Result result = _Result()
    cdef int status, i
    cdef bytes packed = b"".join(int(target).to_bytes(4, BYTE_ORDER, signed=True) for target in targets)
    set_marks(&options, dialect)
    options.allow_comments = dialect.allow_comments
    options.ignore_parse_errors = dialect.ignore_parse_errors
    options.trim_spaces = dialect.trim_spaces
    options.ignore_trailing_unmappable = dialect.ignore_trailing_unmappable
    options.allow_trailing_comma = dialect.allow_trailing_comma
    options.fail_on_missing_columns = dialect.fail_on_missing_columns
    options.empty_string_as_null = dialect.empty_string_as_null
    options.is_decimal_plain = 0
    options.field_count = len(targets)
    options.targets = <const int32_t *><const char *>packed
    with nogil:
        status = csv_decode(rows.root, &options, &values.values, &result.output)
    return result.finish(status, rows, schema, values.values.length)


def decode_avro(array, schema, plans, plan_of_value, int64_t header_size):
    """Decode Avro values; see the module's type stub."""
    cdef _Input values = _Input(array)
    cdef _Rows rows = _Rows(schema, values.values.length)
    cdef _Result result = _Result()
    cdef _Memory memory = _Memory()
    cdef AvroPlan *native
    cdef const int32_t *chosen
    cdef int status, i
    if sizeof(AvroNode) != 56:
        raise SystemError("avro/_plan.py packs nodes in another layout than avro.h")
    memory.block = calloc(len(plans) + 1, sizeof(AvroPlan))
    native = <AvroPlan *>memory.block
    if native == NULL:
        raise MemoryError()
    for i, plan in enumerate(plans):
        set_plan(&native[i], plan)
    buffer = plan_of_value.buffers()[1]
    chosen = <const int32_t *><uintptr_t>buffer.address + <int64_t>plan_of_value.offset
    with nogil:
        status = avro_decode(rows.root, native, chosen, header_size, &values.values, &result.output)
    return result.finish(status, rows, schema, values.values.length)


def decode_protobuf(array, schema, plans, plan_of_value, starts):
    """Decode Protobuf values; see the module's type stub."""
    cdef _Input values = _Input(array)
    cdef _Rows rows = _Rows(schema, values.values.length)
    cdef _Result result = _Result()
    cdef _Memory memory = _Memory()
    cdef ProtoPlan *native
    cdef const int32_t *chosen = integers(plan_of_value)
    cdef const int32_t *begins = integers(starts)
    cdef int64_t plan_count = len(plans)
    cdef int status, i
    if sizeof(ProtoField) != 48 or sizeof(ProtoMessage) != 32:
        raise SystemError("protobuf/_plan.py packs messages or fields in another layout than protobuf.h")
    memory.block = calloc(plan_count + 1, sizeof(ProtoPlan))
    native = <ProtoPlan *>memory.block
    if native == NULL:
        raise MemoryError()
    for i, plan in enumerate(plans):
        set_proto_plan(&native[i], plan)
    with nogil:
        status = protobuf_decode(
            rows.root, native, plan_count, chosen, begins, &values.values, &result.output
        )
    return result.finish(status, rows, schema, values.values.length)


cdef const int32_t *integers(object array):
    """Return where the numbers of an int32 array without nulls are."""
    return <const int32_t *><uintptr_t>array.buffers()[1].address + <int64_t>array.offset


def message_headers(array):
    """Find Confluent's headers of Protobuf values; see the module's type stub."""
    cdef _Input values = _Input(array)
    cdef int64_t i, length, known = 0, count = len(array)
    cdef int32_t start
    cdef const uint8_t *value
    cdef const uint8_t *before = NULL
    cdef _Memory codes = _Memory(), starts = _Memory()
    cdef int32_t *code_of
    cdef int32_t *start_of
    cdef int32_t code = -1
    codes.block = calloc(count + 1, sizeof(int32_t))
    starts.block = calloc(count + 1, sizeof(int32_t))
    code_of = <int32_t *>codes.block
    start_of = <int32_t *>starts.block
    if code_of == NULL or start_of == NULL:
        raise MemoryError()
    found = {}
    for i in range(values.values.length):
        start = message_start(&values.values, i, &value)
        if start < 0:
            code_of[i] = start
            continue
        start_of[i] = start
        if before == NULL or known != start or memcmp(before, value, start) != 0:
            code = found.setdefault(value[:start], len(found))
            before, known = value, start
        code_of[i] = code
    buffers = [pa.foreign_buffer(<uintptr_t>one.block, 4 * count, base=one) for one in (codes, starts)]
    arrays = [pa.Array.from_buffers(pa.int32(), count, [None, buffer]) for buffer in buffers]
    return arrays[0], arrays[1], list(found)


def schema_ids(array):
    """Return the id in Confluent's header of each value: -1 for no value, -2 for no such header."""
    cdef _Input values = _Input(array)
    cdef _Memory memory = _Memory()
    cdef int64_t count = len(array)
    memory.block = calloc(count + 1, sizeof(int32_t))
    if memory.block == NULL:
        raise MemoryError()
    if values.values.length:
        confluent_ids(&values.values, <int32_t *>memory.block)
    buffer = pa.foreign_buffer(<uintptr_t>memory.block, 4 * count, base=memory)
    return pa.Array.from_buffers(pa.int32(), count, [None, buffer])


def check_schema(schema):
    """Raise TypeError for a schema that the native columns cannot hold."""
    _Rows(schema, 0)


def kept_bytes():
    """Return the size of the free blocks that are kept for the columns to come."""
    return blocks_kept_bytes()
