"""Measure the formats alone, on one core: python -m benchmarks.formats [values per batch].

Values of about 107 bytes with five typed columns. CPU time, median of 30.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from penstock.formats import Format, format_of
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
    print(f"{name:<8} {size:6.0f} bytes a value   decode {decoded:6.2f} M/s   encode {encoded:6.2f} M/s")


def main(count: int) -> None:
    """Measure the formats. Protobuf makes Python objects, so it gets a tenth of the values."""
    values = pa.array(sample(count), pa.binary())
    rows = format_of(FormatSpec("json")).decoder(COLUMNS).decode(values).rows
    report("json", format_of(FormatSpec("json")), values, rows)
    for name, options in (("csv", {}), ("avro", {"avro.schema": schema_of(COLUMNS)})):
        made = format_of(format_spec(options, name))
        report(name, made, made.encoder(COLUMNS).encode(rows), rows)
    zoned = rows.slice(0, max(1, len(values) // 10)).cast(PROTOBUF_COLUMNS)
    made = protobuf()
    report("protobuf", made, made.encoder(PROTOBUF_COLUMNS).encode(zoned), zoned)


def protobuf() -> Format:
    """Make the format with a message made of the columns."""
    made = type_for(PROTOBUF_COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.desc"
        path.write_bytes(made.files)
        options = {"protobuf.descriptor-file": str(path), "protobuf.message-class-name": made.full_name}
        return format_of(format_spec(options, "protobuf"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
