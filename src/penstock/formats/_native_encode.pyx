# cython: language_level=3
"""Arrow rows to bytes, one value for each row. The encoders are C without the GIL.

Runs on executors. Invariant: a row is written completely, or named in the error that stops the batch.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

import json

import pyarrow as pa

from penstock.formats._avro cimport AvroPlan, set_plan
from penstock.formats._columns cimport *
from penstock.formats._csv cimport CsvOptions, set_marks
from penstock.formats._protobuf cimport ProtoField, ProtoMessage, ProtoPlan, set_proto_plan

from penstock.formats._native import REASONS, kind_of


cdef extern from "blocks.h":
    void block_free(void *block)


cdef extern from "encode.h":
    ctypedef struct View:
        int kind
        int scale
        int fraction_digits
        int is_zoned
        int64_t offset
        const uint8_t *validity
        const uint8_t *values
        const int32_t *offsets
        const uint8_t *label
        int32_t label_length
        int branch
        View **children
        int child_count
        View *parent

    ctypedef struct Writer:
        uint8_t *bytes
        int64_t used
        int32_t *offsets
        int64_t failed_row
        const View *failed_view
        const uint8_t *failed_name
        int64_t failed_name_length

    ctypedef struct JsonEncodeOptions:
        int separator
        int is_decimal_plain
        int ignores_null_fields

    View *view_new(int kind)
    void view_free(View *view)
    void writer_free(Writer *writer)
    int avro_encode(
        const View *rows, const AvroPlan *plan, const uint8_t *header, int64_t header_size, int64_t row_count,
        Writer *writer
    ) nogil
    int protobuf_encode(
        const View *rows, const ProtoPlan *plan, const uint8_t *header, int64_t header_size, int64_t row_count,
        Writer *writer
    ) nogil
    int csv_encode(const View *rows, const CsvOptions *options, int64_t row_count, Writer *writer) nogil
    int json_encode(const View *rows, const JsonEncodeOptions *options, int64_t row_count, Writer *writer) nogil


cdef dict FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class RowFailed(Exception):
    """A row cannot be encoded: `row`, `reason`, `path` of the column. Becomes a RowError."""

    def __init__(self, row, reason, path):
        super().__init__(f"row {row}, column {path}: {reason}")
        self.row, self.reason, self.path = row, reason, path


# -- arrays to views -----------------------------------------------------------------------------------------

cdef int set_label(View *view, bytes label) except -1:
    cdef uint8_t *copy = <uint8_t *>malloc(len(label) + 1)
    if copy == NULL:
        raise MemoryError()
    memcpy(copy, <const char *>label, len(label) + 1)
    view.label = copy
    view.label_length = <int32_t>len(label)
    return 0


cdef int add_views(View *view, list children, _Views keeper, object label) except -1:
    cdef int i
    view.children = <View **>calloc(len(children) or 1, sizeof(View *))
    if view.children == NULL:
        raise MemoryError()
    for i, (name, array) in enumerate(children):
        view.children[i] = build_view(array, keeper, label)
        view.children[i].parent = view
        view.child_count = i + 1
        set_label(view.children[i], label(name))
    return 0


cdef const uint8_t *address(object buffer):
    if buffer is None:
        return NULL
    return <const uint8_t *><uintptr_t>buffer.address


cdef int fill_view(View *view, object array, _Views keeper, object label) except -1:
    arrow_type = array.type
    buffers = array.buffers()
    keeper.keep(array, buffers)
    view.offset = array.offset
    if view.kind == KIND_NULL:
        return 0
    view.validity = address(buffers[0])
    if view.kind == KIND_STRUCT:
        names = [arrow_type.field(i).name for i in range(arrow_type.num_fields)]
        add_views(view, [(name, array.field(i)) for i, name in enumerate(names)], keeper, label)
    elif view.kind == KIND_LIST:
        view.offsets = <const int32_t *>address(buffers[1])
        add_views(view, [("[]", array.values)], keeper, label)
    elif view.kind == KIND_MAP:
        view.offsets = <const int32_t *>address(buffers[1])
        add_views(view, [("{key}", array.keys), ("{}", array.items)], keeper, label)
    elif view.kind == KIND_STRING or view.kind == KIND_BINARY:
        view.offsets = <const int32_t *>address(buffers[1])
        view.values = address(buffers[2])
    else:
        view.values = address(buffers[1])
    if view.kind == KIND_DECIMAL:
        view.scale = arrow_type.scale
    elif view.kind == KIND_TIME32 or view.kind == KIND_TIME64 or view.kind == KIND_TIMESTAMP:
        view.fraction_digits = FRACTION_DIGITS[arrow_type.unit]
        view.is_zoned = view.kind == KIND_TIMESTAMP and arrow_type.tz is not None
    return 0


cdef View *build_view(object array, _Views keeper, object label) except NULL:
    cdef View *view = view_new(kind_of(array.type))
    if view == NULL:
        raise MemoryError()
    try:
        fill_view(view, array, keeper, label)
    except BaseException:
        view_free(view)
        raise
    return view


cdef class _Views:
    """Owns the views of one batch, and holds its buffers."""

    cdef View *root
    cdef list held

    def __cinit__(self, rows, label):
        self.held = []
        self.root = view_new(KIND_STRUCT)
        if self.root == NULL:
            raise MemoryError()
        add_views(self.root, list(zip(rows.schema.names, rows.columns)), self, label)

    def __dealloc__(self):
        view_free(self.root)

    cdef keep(self, array, buffers):
        self.held.append((array, buffers))

    cdef object path_of(self, const View *view, object rows):
        """Name a view's column as `a.b[].c`."""
        parts = []
        while view != NULL and view.parent != NULL:
            index = 0
            while view.parent.children[index] != view:
                index += 1
            parts.append(index)
            view = view.parent
        return column_path(rows.schema, parts[::-1])


def column_path(schema, indices):
    """Name the column that child indices lead to from the root."""
    path, kind = "", None
    for index in indices:
        if kind is None:
            field = schema.field(index)
            path = field.name
        elif pa.types.is_struct(kind):
            field = kind.field(index)
            path += "." + field.name
        elif pa.types.is_list(kind):
            field = kind.value_field
            path += "[]"
        else:
            field = kind.item_field if index else kind.key_field
            path += "{}" if index else "{key}"
        kind = field.type
    return path


# -- encoders ------------------------------------------------------------------------------------------------

cdef class _Block:
    """A block of blocks.h that an Arrow buffer points into."""

    cdef void *block

    def __dealloc__(self):
        block_free(self.block)


cdef object take_buffer(void **block, int64_t size):
    cdef _Block memory = _Block()
    memory.block = block[0]
    block[0] = NULL
    return pa.foreign_buffer(<uintptr_t>memory.block, size, base=memory)


cdef class _Output:
    """Owns what an encoder has written."""

    cdef Writer writer

    def __dealloc__(self):
        writer_free(&self.writer)

    cdef object finish(self, int status, _Views views, object rows):
        if status == NO_MEMORY:
            raise MemoryError("no memory for the encoded values")
        if status != OK:
            if self.writer.failed_view == NULL and status == OUT_OF_RANGE:
                raise RowFailed(self.writer.failed_row, "the batch's values exceed 2 GiB", "")
            reason = REASONS[status]
            if status == MISSING_REQUIRED:
                reason += f": '{self.writer.failed_name[:self.writer.failed_name_length].decode()}'"
            raise RowFailed(self.writer.failed_row, reason, views.path_of(self.writer.failed_view, rows))
        offsets = take_buffer(<void **>&self.writer.offsets, 4 * (rows.num_rows + 1))
        data = take_buffer(<void **>&self.writer.bytes, self.writer.used)
        return pa.Array.from_buffers(pa.binary(), rows.num_rows, [None, offsets, data], 0)


def json_label(name):
    """Return a field's name as JSON writes it before a value."""
    return json.dumps(name, ensure_ascii=False).encode() + b":"


def encode_json(rows, *, str separator, bint decimal_as_plain_number, bint ignore_null_fields):
    """Encode rows as JSON objects; see the module's type stub."""
    cdef JsonEncodeOptions options
    cdef _Views views = _Views(rows, json_label)
    cdef _Output output = _Output()
    cdef int status
    cdef int64_t count = rows.num_rows
    options.separator = ord(separator)
    options.is_decimal_plain = decimal_as_plain_number
    options.ignores_null_fields = ignore_null_fields
    with nogil:
        status = json_encode(views.root, &options, count, &output.writer)
    return output.finish(status, views, rows)


def no_label(name):
    """Return b"": formats by position write no names."""
    return b""


def encode_csv(rows, dialect):
    """Encode rows as CSV records; see the module's type stub."""
    cdef CsvOptions options
    cdef _Views views = _Views(rows, no_label)
    cdef _Output output = _Output()
    cdef int status
    cdef int64_t count = rows.num_rows
    set_marks(&options, dialect)
    options.is_decimal_plain = not dialect.is_decimal_scientific
    options.trim_spaces = dialect.trim_spaces
    with nogil:
        status = csv_encode(views.root, &options, count, &output.writer)
    return output.finish(status, views, rows)


def encode_avro(rows, plan, bytes header):
    """Encode rows as Avro records; see the module's type stub."""
    cdef AvroPlan native
    cdef _Views views = _Views(rows, no_label)
    cdef _Output output = _Output()
    cdef int status
    cdef int64_t count = rows.num_rows
    cdef const uint8_t *start = <const uint8_t *><const char *>header
    cdef int64_t header_size = len(header)
    set_plan(&native, plan)
    with nogil:
        status = avro_encode(views.root, &native, start, header_size, count, &output.writer)
    return output.finish(status, views, rows)


def encode_protobuf(rows, plan, bytes header):
    """Encode rows as Protobuf messages; see the module's type stub."""
    cdef ProtoPlan native
    cdef _Views views = _Views(rows, no_label)
    cdef _Output output = _Output()
    cdef int status
    cdef int64_t count = rows.num_rows
    cdef const uint8_t *start = <const uint8_t *><const char *>header
    cdef int64_t header_size = len(header)
    if sizeof(ProtoField) != 48 or sizeof(ProtoMessage) != 32:
        raise SystemError("protobuf/_plan.py packs messages or fields in another layout than protobuf.h")
    set_proto_plan(&native, plan)
    with nogil:
        status = protobuf_encode(views.root, &native, start, header_size, count, &output.writer)
    return output.finish(status, views, rows)
