"""Elements without bytes (nulls, empty records): how many a record may have, and what a full column does."""

from __future__ import annotations

import ctypes
import json
from itertools import accumulate
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock.formats import _native
from penstock.formats.avro._plan import AvroPlan, reading_plan
from penstock.formats.avro.schema import parse_schema
from tests.unit.formats.avro.values import decode, record, written

EMPTY_MAX = 100_000
NULLS = {"type": "array", "items": "null"}
EMPTY_RECORDS = {"type": "array", "items": record(name="empty")}
ID = pa.field("id", pa.int64())


def number(value: int) -> bytes:
    """Return a long that is not negative as Avro writes it."""
    bits, written_bytes = value << 1, b""
    while bits > 0x7F:
        written_bytes += bytes([bits & 0x7F | 0x80])
        bits >>= 7
    return written_bytes + bytes([bits])


def greedy_blocks(size: int) -> bytes:
    """Return an array of about `size` bytes whose blocks claim as many elements as bytes follow."""
    blocks: list[bytes] = [b"\0"]
    behind = 1
    while behind < size:
        blocks.append(number(behind))
        behind += len(blocks[-1])
    return b"".join(reversed(blocks))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (NULLS, pa.list_(pa.null())),
        (EMPTY_RECORDS, pa.list_(pa.struct([("a", pa.int64())]))),
        (NULLS, None),
        (EMPTY_RECORDS, None),
    ],
)
def test_blocks_that_each_claim_what_is_left_are_a_bad_record(
    schema: dict[str, Any], kind: pa.DataType | None
) -> None:
    columns = pa.schema([ID] if kind is None else [ID, ("v", kind)])
    value = b"\2" + greedy_blocks(2_000)
    good = b"\2" + number(3) + b"\0"
    found = decode(record(("id", "long"), ("v", schema)), [good, value, good], columns)
    assert [one.value_index for one in found.failures] == [1]
    assert "more elements without bytes than the record has bytes" in found.failures[0].reason
    assert found.rows["id"].to_pylist() == [1, 1]


@pytest.mark.parametrize(
    "columns", [pa.schema([ID]), pa.schema([ID, ("v", pa.map_(pa.string(), pa.list_(pa.null())))])]
)
def test_all_arrays_of_a_record_count_together(columns: pa.Schema) -> None:
    schema = record(("id", "long"), ("v", {"type": "map", "values": NULLS}))
    for shares, is_good in (([EMPTY_MAX // 4] * 4, True), ([EMPTY_MAX // 4] * 4 + [1], False)):
        entries = b"".join(b"\2" + bytes([65 + i]) + number(n) + b"\0" for i, n in enumerate(shares))
        found = decode(schema, [b"\2" + number(len(shares)) + entries + b"\0"], columns)
        assert (found.row_count, len(found.failures)) == ((1, 0) if is_good else (0, 1))


def test_honest_nulls_are_read_and_each_record_has_its_own_bound() -> None:
    schema = record(("id", "long"), ("v", NULLS))
    columns = pa.schema([ID, ("v", pa.list_(pa.null()))])
    values = written(schema, *({"id": 1, "v": [None] * n} for n in (EMPTY_MAX, EMPTY_MAX + 1, EMPTY_MAX, 5)))
    found = decode(schema, values, columns)
    assert [len(v) for v in found.rows["v"].to_pylist()] == [EMPTY_MAX, EMPTY_MAX, 5]
    assert [one.value_index for one in found.failures] == [1]


def test_a_large_record_may_have_an_empty_element_for_each_byte() -> None:
    schema = record(("text", "string"), ("v", NULLS))
    columns = pa.schema([("v", pa.list_(pa.null()))])
    size = len(written(schema, {"text": "x" * 150_000, "v": [None] * 150_000})[0])
    rows = [{"text": "x" * 150_000, "v": [None] * n} for n in (size, size + 1)]
    values = written(schema, *rows)
    assert [len(value) for value in values] == [size, size]
    found = decode(schema, values, columns)
    assert [len(v) for v in found.rows["v"].to_pylist()] == [size]
    assert [one.value_index for one in found.failures] == [1]


# -- a full column ---------------------------------------------------------------------------------------


class Column(ctypes.Structure):
    """The beginning of Column in native/columns.h, up to what the test reads and sets."""

    _fields_: ClassVar[Any] = [
        *(
            (name, ctypes.c_int)
            for name in ("kind", "nullable", "width", "precision", "scale", "digits", "zoned")
        ),
        *((name, ctypes.c_int64) for name in ("length", "capacity")),
        *((name, ctypes.c_void_p) for name in ("validity", "values")),
        ("bytes_capacity", ctypes.c_int64),
        ("offsets", ctypes.POINTER(ctypes.c_int32)),
        ("name", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("name_length", "is_name_plain")),
        ("parent", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
        ("child_count", ctypes.c_int),
        ("has_presence", ctypes.c_int),
        ("name_slots", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("name_mask", "name_length_max")),
    ]


class Plan(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        (n, ctypes.c_char_p) for n in ("nodes", "children", "symbols", "symbol_offsets")
    ]


class Values(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("bytes", ctypes.c_char_p),
        ("offsets", ctypes.c_void_p),
        ("validity", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("length", ctypes.c_int64),
    ]


KIND_NULL, KIND_LIST, KIND_STRUCT = 0, 15, 17
OK, NO_MEMORY = 0, 1
LAST = 2**31 - 1


def parent_of(kind: int, child: Column) -> Column:
    children = (ctypes.POINTER(Column) * 1)(ctypes.pointer(child))
    column = Column(kind=kind, nullable=1, children=ctypes.addressof(children), child_count=1)
    column.keep = children  # ctypes does not keep what an address points to
    return column


def native_decode(root: Column, plan: AvroPlan, values: list[bytes]) -> int:
    """Run avro_decode() of the compiled module. Return its status."""
    library = ctypes.CDLL(_native.__file__)
    ends = [0, *accumulate(map(len, values))]
    offsets = (ctypes.c_int32 * len(ends))(*ends)
    given = Values(bytes=b"".join(values), offsets=ctypes.addressof(offsets), length=len(values))
    plans = Plan(plan.nodes, plan.children, plan.symbols, plan.symbol_offsets)
    output = ctypes.create_string_buffer(1024)
    status: int = library.avro_decode(
        ctypes.byref(root),
        ctypes.byref(plans),
        (ctypes.c_int32 * len(values))(),
        ctypes.c_int64(0),
        ctypes.byref(given),
        output,
    )
    library.output_free(output)
    return status


@pytest.mark.parametrize(("before", "status"), [(LAST - 2, OK), (LAST - 1, NO_MEMORY), (LAST + 5, NO_MEMORY)])
def test_a_batch_with_more_elements_than_offsets_can_say_is_an_error(before: int, status: int) -> None:
    """Nulls have no memory that a test has to fill, so it only says that the column has so many of them."""
    plan = reading_plan(
        parse_schema(json.dumps(record(("v", NULLS)))), pa.schema([("v", pa.list_(pa.null()))])
    )
    nulls = Column(kind=KIND_NULL, nullable=1, length=before, capacity=2**33)
    lists = parent_of(KIND_LIST, nulls)
    root = parent_of(KIND_STRUCT, lists)
    assert native_decode(root, plan, [b"\2\0", b"\2\0"]) == status
    ends = lists.offsets[: lists.length + 1]
    assert ends == sorted(ends)
    assert lists.length == min(2, max(0, LAST - before))
