"""Harnesses of the formats: what a decoder makes of hostile values, and what an encoder writes of the rows.

Runs in the processes that fuzz. The first three bytes of an input choose columns, options and which rows are
written. The rest is a value. Invariants that are checked, beside those of the sanitizers:

- values decoded together give what each gives alone;
- the arrays are valid for Arrow, and each value gives rows, a failure, or nothing;
- rows encoded together give what each gives alone;
- what is written, read and written again has the same bytes. (Null and empty text may be one in CSV.)
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.formats import _native, _native_encode
from penstock.formats.avro._plan import reading_plan as avro_reading_plan
from penstock.formats.avro._plan import writing_plan as avro_writing_plan
from penstock.formats.avro.schema import parse_schema, schema_of
from penstock.formats.csv import CsvFormat
from penstock.formats.native_rows import check_schema
from penstock.formats.protobuf._plan import reading_plan, writing_plan
from tests.fuzz import shapes
from tests.fuzz.harness import mutated
from tests.fuzz.memory import exact_batch, exact_values, plain
from tests.parity import protobuf_fuzz
from tests.parity.protobuf_reference import MessageReader

SHAPES = 32
DATA = Path(__file__).parents[1] / "data" / "cdc"
Decode: TypeAlias = "Callable[[pa.Array], _native.Decoded]"
Encode: TypeAlias = Callable[[pa.RecordBatch], pa.Array]


class FormatHarness:
    """Decodes the value of an input, beside others and alone, and encodes the rows."""

    covers: tuple[str, ...] = ()
    words: tuple[bytes, ...] = ()

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.schemas: list[pa.Schema] = []

    def seeds(self) -> list[bytes]:
        """Return rows of each schema, as the encoder writes them."""
        found = []
        for index, schema in enumerate(self.schemas):
            for row in range(3):
                rows = shapes.rows(self.chance, schema, 1)
                head = bytes((index, row, 0))
                try:
                    found += [head + one for one in self.encoder(schema, 0)(rows).to_pylist()]
                except (_native_encode.RowFailed, SchemaError):
                    found.append(head)
        return found

    def mutated(self, chance: random.Random, data: bytes, other: bytes) -> bytes:
        """Change the value, and now and then what is done with it."""
        head = data[:3]
        if chance.random() < 0.2:
            head = bytes((head[0] if chance.random() < 0.7 else chance.randrange(256), *chance.randbytes(2)))
        return head + mutated(chance, data[3:], other[3:], self.words)

    def check(self, data: bytes) -> None:
        head, value = data[:3].ljust(3, b"\0"), data[3:]
        schema = self.schemas[head[0] % len(self.schemas)]
        values = [value, None, value[: len(value) * (head[2] & 15) // 16], value]
        decode = self.decoder(schema, head[1])
        rows = self._decoded(decode, schema, values)
        if rows.num_rows and len(schema):
            self._encoded(schema, head, rows)

    def _decoded(self, decode: Decode, schema: pa.Schema, values: list[bytes | None]) -> pa.RecordBatch:
        rows, facts = outcome(decode(exact_values(values)), schema, len(values))
        alone = [outcome(decode(exact_values([one])), schema, 1) for one in values]
        wanted = [[plain(one) for one in found.columns] for found, _ in alone]
        together = [plain(one) for one in rows.columns]
        joined = [[value for each in wanted for value in each[i]] for i in range(len(schema))]
        assert repr(together) == repr(joined), f"{together} beside {joined}"
        assert facts == [(at, *each[1:]) for at, (_, found) in enumerate(alone) for each in found]
        return rows

    def _encoded(self, schema: pa.Schema, head: bytes, rows: pa.RecordBatch) -> None:
        encode, decode = self.encoder(schema, head[1]), self.decoder(schema, head[1])
        part = exact_batch(rows).rename_columns(schema.names)
        part = part.slice(head[2] % rows.num_rows) if head[2] & 64 else part
        alone = [encoded(encode, part.slice(at, 1)) for at in range(part.num_rows)]
        good = [at for at, one in enumerate(alone) if one is not None]
        if len(good) < part.num_rows:
            assert encoded(encode, part) is None, "a row that cannot be written was written beside others"
            return
        written = encode(part)
        written.validate(full=True)
        found = written.to_pylist()
        assert found == [one[0] for one in alone if one is not None]
        if self.reads_back(schema):
            again, facts = outcome(decode(exact_values(found)), schema, len(found))
            assert encode(again.rename_columns(part.schema.names)).to_pylist() == found, f"{found} {facts}"

    def reads_back(self, schema: pa.Schema) -> bool:
        """Return whether the decoder reads what the encoder writes."""
        del schema
        return True

    def decoder(self, schema: pa.Schema, choice: int) -> Decode:
        raise NotImplementedError

    def encoder(self, schema: pa.Schema, choice: int) -> Encode:
        raise NotImplementedError


def outcome(decoded: _native.Decoded, schema: pa.Schema, count: int) -> tuple[pa.RecordBatch, list[Any]]:
    """Return the rows, and for each value that gave none why. Check that all values are accounted for."""
    columns, row_count, indices, failures, ignored = decoded
    names = [f"{at}" for at in range(len(schema))]
    fields = [pa.field(name, one.type) for name, one in zip(names, schema, strict=True)]
    rows = (
        pa.RecordBatch.from_arrays(list(columns), schema=pa.schema(fields)) if fields else pa.record_batch({})
    )
    rows.validate(full=True)
    assert not fields or rows.num_rows == row_count
    of_rows = list(range(row_count)) if indices is None else indices.to_pylist()
    assert of_rows == sorted(of_rows), of_rows
    assert not {one[0] for one in failures} & set(of_rows), "a value gave rows and a failure"
    assert all(0 <= at < count for at in (*of_rows, *(one[0] for one in failures)))
    assert ignored + len(failures) <= count
    return rows, list(failures)


def encoded(encode: Encode, rows: pa.RecordBatch) -> list[bytes] | None:
    """Return what is written, or None if a row cannot be written."""
    try:
        written: list[bytes] = encode(rows).to_pylist()
    except _native_encode.RowFailed:
        return None
    return written


class Json(FormatHarness):
    """JSON."""

    covers = (
        *(
            "formats/_native.pyx",
            "formats/_native_encode.pyx",
            "formats/native/blocks.c",
            "formats/native/columns.c",
            "formats/native/text.c",
        ),
        *("formats/native/decode.c", "formats/native/encode.c"),
        *("formats/native/json_decode.c", "formats/native/json_encode.c"),
    )
    words = (
        *(
            b'"f0":',
            b'"f1":',
            b'"g0":',
            b'{"f0":',
            b"null",
            b"true",
            b"false",
            b"[]",
            b"{}",
            b"[",
            b"{",
            b"}",
            b"]",
        ),
        *(
            b"\\u00e9",
            b"\\ud83d\\ude00",
            b"\\ud83d",
            b"\\\\",
            b'\\"',
            b"1e400",
            b"-0",
            b"0.1e-7",
            b"\xef\xbb\xbf",
        ),
        *(
            b'"2024-02-29"',
            b'"12:00:00.5"',
            b'"2024-02-29 12:00:00.123"',
            b'"2024-02-29T12:00:00Z"',
            b'"Zm9v"',
        ),
        *(b'"NaN"', b'"Infinity"', b"123456789012345678901234567890", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80"),
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.schemas = [shapes.columns(self.chance, depth=3) for _ in range(SHAPES)]

    def seeds(self) -> list[bytes]:
        texts = json.loads((DATA / "debezium-json.json").read_text())
        recorded = [bytes(3) + one.encode()[:2_000] for one in _texts(texts)][:200]
        return super().seeds() + recorded

    def decoder(self, schema: pa.Schema, choice: int) -> Decode:
        return partial(
            _native.decode_json,
            schema=schema,
            fail_on_missing_field=bool(choice & 1),
            ignore_parse_errors=bool(choice & 2),
            separator="T" if choice & 4 else " ",
            header_size=0,
            is_one_object=bool(choice & 32),
        )

    def encoder(self, schema: pa.Schema, choice: int) -> Encode:
        return partial(
            _native_encode.encode_json,
            separator="T" if choice & 4 else " ",
            decimal_as_plain_number=bool(choice & 64),
            ignore_null_fields=bool(choice & 128) and not choice & 1,
        )


def _texts(given: Any) -> list[str]:
    """Return the texts in recorded JSON that are JSON objects themselves."""
    if isinstance(given, str):
        return [given] if given.startswith("{") else []
    parts = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return [text for part in parts for text in _texts(part)]


class Csv(FormatHarness):
    """CSV."""

    covers = ("formats/native/csv_decode.c", "formats/native/csv_encode.c")
    words = (
        *(
            b",",
            b'"',
            b'""',
            b"\\",
            b";",
            b"\n",
            b"\r\n",
            b"#",
            b"null",
            b" ",
            b"\xef\xbb\xbf",
            b"true",
            b"NaN",
        ),
        *(b"2024-02-29", b"12:00:00", b"2024-02-29 12:00:00.123", b"Zm9v", b"1e400", b"\xed\xa0\x80"),
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        while len(self.schemas) < SHAPES:
            schema = shapes.columns(self.chance, depth=1, has_maps=False)
            check_schema("csv", schema, has_maps=False)
            self.schemas.append(schema)

    def _encoded(self, schema: pa.Schema, head: bytes, rows: pa.RecordBatch) -> None:
        # With 'csv.empty-string-as-null' an empty text is not read back, as the option says.
        if not head[1] & 32:
            super()._encoded(schema, head, rows)

    def dialect(self, choice: int) -> CsvFormat:
        """Return options that contradict each other in nothing."""
        made = CsvFormat(
            ignore_parse_errors=bool(choice & 1),
            trim_spaces=bool(choice & 2),
            ignore_trailing_unmappable=bool(choice & 4),
            allow_trailing_comma=bool(choice & 8),
            fail_on_missing_columns=bool(choice & 16),
            empty_string_as_null=bool(choice & 32),
        )
        if choice & 64:
            made = replace(made, escape=b"\\", null_literal=b"null", allow_comments=True)
        if choice & 128:
            made = replace(made, delimiter="\u00e9".encode(), quote=b"" if choice & 64 else b"'")
        return made

    def decoder(self, schema: pa.Schema, choice: int) -> Decode:
        dialect, targets = self.dialect(choice), list(range(len(schema)))
        return partial(_native.decode_csv, schema=schema, dialect=dialect, targets=targets)

    def encoder(self, schema: pa.Schema, choice: int) -> Encode:
        return partial(_native_encode.encode_csv, dialect=self.dialect(choice))


class Avro(FormatHarness):
    """Avro, in the schema that columns give, and in one with unions, enums and other numbers."""

    covers = ("formats/native/avro_decode.c", "formats/native/avro_encode.c")
    words = (b"\0", b"\2", b"\1", b"\x80\x01", b"\xff" * 9 + b"\x01", b"\x01\x10", b"\x03\x04", bytes(16))
    other = json.dumps({
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "BB", "C"]}},
            {"name": "u", "type": ["null", "string"]},
            {"name": "x", "type": {"type": "fixed", "name": "F", "size": 7}},
            {"name": "skipped", "type": {"type": "map", "values": ["E", {"type": "array", "items": "F"}]}},
            {"name": "n", "type": {"type": "array", "items": ["int", "null"]}},
            {"name": "m", "type": {"type": "map", "values": "float"}},
            {"name": "d", "type": {"type": "fixed", "name": "D", "size": 9, "logicalType": "decimal",
                                   "precision": 20, "scale": 4}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    })  # fmt: skip
    of_other = pa.schema(
        [
            ("e", pa.string()),
            ("u", pa.string()),
            ("x", pa.binary()),
            ("n", pa.list_(pa.int64())),
            ("m", pa.map_(pa.string(), pa.float64())),
            ("d", pa.decimal128(24, 4)),
            ("t", pa.timestamp("ms", "UTC")),
        ]
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._plans: dict[int, Any] = {}
        while len(self.schemas) < SHAPES:
            schema = shapes.columns(self.chance, depth=3)
            try:
                parsed = parse_schema(schema_of(schema))
                reading, writing = avro_reading_plan(parsed, schema), avro_writing_plan(parsed, schema)
            except SchemaError:
                continue
            self._plans[id(schema)] = (reading, writing)
            self.schemas.append(schema)
        of_table = avro_writing_plan(parse_schema(schema_of(self.of_other)), self.of_other)
        self._plans[id(self.of_other)] = (
            avro_reading_plan(parse_schema(self.other), self.of_other),
            of_table,
        )
        self.schemas += [self.of_other] * 8

    def decoder(self, schema: pa.Schema, choice: int) -> Decode:
        plan, _ = self._plans[id(schema)]

        def decode(values: pa.Array) -> _native.Decoded:
            chosen = pa.repeat(pa.scalar(-1 if choice & 7 == 7 else 0, pa.int32()), len(values))
            return _native.decode_avro(values, schema, [plan], chosen, 5 if choice & 128 else 0)

        return decode

    def encoder(self, schema: pa.Schema, choice: int) -> Encode:
        _, plan = self._plans[id(schema)]
        return partial(_native_encode.encode_avro, plan=plan, header=bytes(5) if choice & 128 else b"")

    def reads_back(self, schema: pa.Schema) -> bool:
        return schema is not self.of_other  # it is written in the schema of its columns


class Protobuf(FormatHarness):
    """Protobuf's bytes, in random message types. Google's package says what each value is."""

    covers = ("formats/native/protobuf_decode.c", "formats/native/protobuf_encode.c")
    words = (
        b"\x08\x01",
        b"\x12\x00",
        b"\x0b\x0c",
        b"\xff" * 9 + b"\x01",
        b"\x1a\x02",
        b"\x80\x80\x00",
        bytes(8),
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._made = protobuf_fuzz.Fuzz(seed)
        self._types: dict[int, Any] = {}
        while len(self.schemas) < SHAPES:
            descriptor = self._made._descriptor()
            schema = pa.schema(self._made._columns(descriptor, 0))
            self._types[id(schema)] = descriptor
            self.schemas.append(schema)

    def seeds(self) -> list[bytes]:
        found = []
        for index, schema in enumerate(self.schemas):
            found += [
                bytes((index, 0, 0)) + self._made._message(self._types[id(schema)], 0) for _ in range(6)
            ]
        return found

    def check(self, data: bytes) -> None:
        head, value = data[:3].ljust(3, b"\0"), data[3:]
        schema = self.schemas[head[0] % len(self.schemas)]
        values: list[bytes | None] = [value, value[: len(value) * (head[2] & 15) // 16], value]
        decode = self.decoder(schema, head[1])
        rows = self._decoded(decode, schema, values)
        reader = MessageReader(self._types[id(schema)], schema, reads_defaults=bool(head[1] & 1))
        columns, positions, _ = reader.read([value, values[1] or b"", value])
        assert len(positions) == (rows.num_rows if len(schema) else len(positions)), f"{len(positions)} rows"
        for found, wanted in zip(rows.columns, columns, strict=True):
            mine = [protobuf_fuzz.plain(one) for one in found]
            assert repr(mine) == repr([protobuf_fuzz.plain(one) for one in wanted]), mine
        self._written(schema, rows)

    def _written(self, schema: pa.Schema, rows: pa.RecordBatch) -> None:
        try:
            plan = writing_plan(self._types[id(schema)], schema, "nil")
        except SchemaError:
            return
        if rows.num_rows and len(schema):
            part = exact_batch(rows).rename_columns(schema.names)
            encoded(partial(_native_encode.encode_protobuf, plan=plan, header=b"head"), part)

    def decoder(self, schema: pa.Schema, choice: int) -> Decode:
        plan = reading_plan(self._types[id(schema)], schema, reads_defaults=bool(choice & 1))

        def decode(values: pa.Array) -> _native.Decoded:
            zeros = pa.repeat(pa.scalar(0, pa.int32()), len(values))
            return _native.decode_protobuf(values, schema, [plan], zeros, zeros)

        return decode


class Confluent:
    """Confluent's headers: the id of a schema, and the indexes of a Protobuf message."""

    covers = ("formats/native/avro_decode.c", "formats/native/protobuf_decode.c", "formats/_native.pyx")
    words = (b"\0\0\0\0\1", b"\0\0\0\0\1\0", b"\0\0\0\0\1\4\2\0", b"\xff" * 9 + b"\x01", b"\xfe\xff\x03")

    def __init__(self, seed: int) -> None:
        del seed

    def seeds(self) -> Sequence[bytes]:
        return self.words

    def mutated(self, chance: random.Random, data: bytes, other: bytes) -> bytes:
        return mutated(chance, data, other, self.words)

    def check(self, data: bytes) -> None:
        values = [data, None, data[:5], data[: len(data) // 2], b"", data]
        array = exact_values(values)
        assert _native.schema_ids(array).to_pylist() == [_schema_id(one) for one in values]
        codes, starts, headers = _native.message_headers(array)
        for value, code, start in zip(values, codes.to_pylist(), starts.to_pylist(), strict=True):
            wanted = _message_start(value)
            if wanted < 0:
                assert code == wanted, (value, code, wanted)
            else:
                assert (start, headers[code]) == (wanted, (value or b"")[:wanted])


def _schema_id(value: bytes | None) -> int:
    if not value:
        return -1
    if len(value) < 5 or value[0] or value[1] & 0x80:
        return -2
    return int.from_bytes(value[1:5], "big")


def _message_start(value: bytes | None) -> int:
    """Follow Confluent's format: the number of indexes and the indexes as zigzag varints. 0 alone is [0]."""
    if not value:
        return -1
    if len(value) <= 5 or value[0]:
        return -2
    at, count, is_first = 5, 1, True
    while count:
        bits, end = _varint(value, at)
        if end < 0:
            return -3
        at, count = end, count - 1
        if is_first:
            if bits & 1 or bits >> 1 > 100:
                return -3
            count, is_first = bits >> 1, False
    return at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    bits = 0
    for index, byte in enumerate(value[at : at + 5]):
        bits |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return bits, at + index + 1
    return 0, -1
