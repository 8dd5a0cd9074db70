"""How fast the formats are, alone, on one core: python -m benchmarks.formats [values per batch].

Small: values of about 107 bytes in JSON with five typed columns. Wide: 27 columns with rows, arrays and maps,
for Avro and Protobuf. Changelogs: updates of the small rows, of which two columns change. CPU time, median of
30 rounds.
"""

from __future__ import annotations

import functools
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from penstock.formats import ROW_KIND, Format, format_of, metadata_column
from penstock.formats.avro.schema import schema_of
from penstock.formats.protobuf.schema import type_for
from penstock.options.parse_table import format_spec
from penstock.options.table_spec import FormatSpec

ROUNDS = 30
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("user", pa.string()),
        ("amount", pa.float64()),
        ("ts", pa.timestamp("us")),
        ("ok", pa.bool_()),
    ]
)

PROTOBUF_COLUMNS = COLUMNS.set(3, pa.field("ts", pa.timestamp("us", "UTC")))
"""Without the local time, because Protobuf has no type for it."""


_POINT = pa.struct([("x", pa.float64()), ("y", pa.float64()), ("label", pa.string())])
WIDE_COLUMNS = pa.schema(
    [
        *((f"id{i}", pa.int64()) for i in range(6)),
        *((f"name{i}", pa.string()) for i in range(6)),
        *((f"amount{i}", pa.float64()) for i in range(4)),
        *((f"count{i}", pa.int32()) for i in range(3)),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("place", _POINT),
        ("owner", pa.struct([("name", pa.string()), ("age", pa.int32()), ("home", _POINT)])),
        ("numbers", pa.list_(pa.int64())),
        ("tags", pa.list_(pa.string())),
        ("points", pa.list_(_POINT)),
        ("attributes", pa.map_(pa.string(), pa.string())),
    ]
)


def wide_rows(count: int) -> pa.RecordBatch:
    """Rows of WIDE_COLUMNS."""

    def point(i: int) -> dict[str, object]:
        return {"x": i * 0.5, "y": -i * 0.25, "label": f"point-{i % 100}"}

    rows = [
        {
            **{f"id{n}": i * 1_000 + n for n in range(6)},
            **{f"name{n}": f"name-{n}-{i % 1000:06d}" for n in range(6)},
            **{f"amount{n}": i * 0.01 + n for n in range(4)},
            **{f"count{n}": i % 100 for n in range(3)},
            "ok": i % 3 == 0,
            "at": 1_767_225_600_000_000 + i,
            "place": point(i),
            "owner": {"name": f"owner-{i}", "age": i % 90, "home": point(i + 1)},
            "numbers": [i, i + 1, i + 2],
            "tags": ["red", "green", f"tag-{i % 7}"],
            "points": [point(i), point(i + 2)],
            "attributes": {"a": "first", "b": f"second-{i % 10}", "c": "third"},
        }
        for i in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=WIDE_COLUMNS)


def sample(count: int) -> list[bytes]:
    """Make JSON values with one field more than the columns."""
    chance = random.Random(1)  # noqa: S311 - data to measure with
    return [
        json.dumps(
            {
                "id": i,
                "user": f"user-{i % 1000:06d}",
                "amount": round(chance.random() * 1000, 2),
                "ts": f"2026-01-{i % 28 + 1:02d} 10:{i % 60:02d}:{i % 59:02d}.{i % 1000:03d}",
                "ok": i % 3 == 0,
                "x": "",
            }
        ).encode()
        for i in range(count)
    ]


def rate(action: Callable[[], object], count: int) -> float:
    """Measure million values a second of CPU time."""
    seconds = []
    for _ in range(ROUNDS):
        before = time.process_time()
        action()
        seconds.append(time.process_time() - before)
    return count / statistics.median(seconds) / 1e6


def report(name: str, made: Format, values: pa.Array, rows: pa.RecordBatch) -> None:
    """Print one line."""
    decoder, encoder = made.decoder(rows.schema), made.encoder(rows.schema)
    first = values[:1000]
    size = sum(len(value.as_py()) for value in first) / len(first)
    decoded = rate(lambda: decoder.decode(values), len(values))
    encoded = rate(lambda: encoder.encode(rows), len(values))
    print(f"{name:<15} {size:6.0f} bytes a value   decode {decoded:6.2f} M/s   encode {encoded:6.2f} M/s")


def changelog_values(count: int) -> dict[str, list[bytes]]:
    """Make one update for each row, in the form of each tool."""
    rows = [json.loads(value) for value in sample(count)]
    olds = [{**row, "amount": row["amount"] + 1, "user": None} for row in rows]
    both = list(zip(olds, rows, strict=True))
    changed = [{"amount": old["amount"], "user": None} for old in olds]
    around = {"database": "shop", "table": "goods", "ts": 1_767_225_600}
    messages = {
        "debezium-json": [
            {"before": old, "after": new, "source": around, "op": "u", "ts_ms": 1} for old, new in both
        ],
        "ogg-json": [
            {"table": "shop.goods", "op_type": "U", "before": old, "after": new} for old, new in both
        ],
        "maxwell-json": [
            {**around, "type": "update", "data": new, "old": old}
            for new, old in zip(rows, changed, strict=True)
        ],
        "canal-json": [
            {**around, "type": "UPDATE", "data": [new], "old": [old]}
            for new, old in zip(rows, changed, strict=True)
        ],
    }
    return {name: [json.dumps(one).encode() for one in each] for name, each in messages.items()}


def report_changelogs(count: int) -> None:
    """Print a line for each format, and for `json` with the same bytes and fields."""
    row = pa.struct(list(COLUMNS))
    kind = metadata_column(ROW_KIND)
    for name, messages in changelog_values(count).items():
        values = pa.array(messages, pa.binary())
        found = format_of(FormatSpec(name)).decoder(COLUMNS, [*COLUMNS.names, kind])
        has_both = name in ("debezium-json", "ogg-json")
        of = pa.list_(row) if name == "canal-json" else row
        fields = [("before", of), ("after", of)] if has_both else [("data", of), ("old", of)]
        operation = {"debezium-json": "op", "ogg-json": "op_type"}.get(name, "type")
        plain = format_of(FormatSpec("json")).decoder(pa.schema([*fields, (operation, pa.string())]))
        size = sum(map(len, messages)) / count
        rates = [rate(functools.partial(each.decode, values), count) for each in (found, plain)]
        print(
            f"{name:<15} {size:6.0f} bytes a value   decode {rates[0]:6.2f} M/s   as json {rates[1]:6.2f} M/s"
        )


def main(count: int) -> None:
    """Measure the formats."""
    values = pa.array(sample(count), pa.binary())
    rows = format_of(FormatSpec("json")).decoder(COLUMNS).decode(values).rows
    report("json", format_of(FormatSpec("json")), values, rows)
    for name, options in (("csv", {}), ("avro", {"avro.schema": schema_of(COLUMNS)})):
        made = format_of(format_spec(options, name))
        report(name, made, made.encoder(COLUMNS).encode(rows), rows)
    zoned = rows.cast(PROTOBUF_COLUMNS)
    made = protobuf(PROTOBUF_COLUMNS)
    report("protobuf", made, made.encoder(PROTOBUF_COLUMNS).encode(zoned), zoned)
    wide = wide_rows(max(1, count // 10))
    made = format_of(format_spec({"avro.schema": schema_of(WIDE_COLUMNS)}, "avro"))
    report("avro, wide", made, made.encoder(WIDE_COLUMNS).encode(wide), wide)
    made = protobuf(WIDE_COLUMNS)
    report("protobuf, wide", made, made.encoder(WIDE_COLUMNS).encode(wide), wide)
    report_changelogs(count)


def protobuf(columns: pa.Schema) -> Format:
    """Make the format with a message made of the columns."""
    made = type_for(columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.desc"
        path.write_bytes(made.files)
        options = {"protobuf.descriptor-file": str(path), "protobuf.message-class-name": made.full_name}
        return format_of(format_spec(options, "protobuf"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
