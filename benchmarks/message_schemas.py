"""Measure how fast the schemas of Debezium's JSON messages are found, and their rows are read.

`python -m benchmarks.message_schemas` prints both for 100,000 messages of two schemas. It needs no broker.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa

from penstock.cdc.messages import message_format

COUNT = 100_000
_OPTIONS = {"format": "debezium-json", "debezium-json.schema-include": "true"}


def _envelope(names: list[str]) -> dict[str, Any]:
    row = [{"type": "int64", "optional": name != "id", "field": name} for name in names]
    structs = [
        {"type": "struct", "fields": row, "optional": True, "name": "shop.public.goods.Value", "field": each}
        for each in ("before", "after")
    ]
    operation = {"type": "string", "optional": False, "field": "op"}
    return {"type": "struct", "fields": [*structs, operation], "name": "shop.public.goods.Envelope"}


def messages() -> pa.Array:
    """Return messages of two schemas, mixed."""
    made = []
    for names in ([f"c{number}" for number in range(8)], [f"c{number}" for number in range(9)]):
        columns = ["id", *names]
        schema = json.dumps(_envelope(columns), separators=(",", ":"))
        made.append((columns, schema))
    values = []
    for number in range(COUNT):
        columns, schema = made[number % 2]
        row = json.dumps(dict.fromkeys(columns, number), separators=(",", ":"))
        values.append(f'{{"schema":{schema},"payload":{{"before":null,"after":{row},"op":"c"}}}}'.encode())
    return pa.array(values, pa.binary())


def main() -> None:
    """Print the seconds of both steps."""
    values = messages()
    keys = pa.nulls(COUNT, pa.binary())
    made = message_format(_OPTIONS)
    begun = time.perf_counter()
    found = made.schemas(keys, values)
    seconds = time.perf_counter() - begun
    print(f"{COUNT:,} messages, {values.nbytes / 1e6:.0f} MB, {len(found.texts)} schemas: {seconds:.2f} s")
    columns = made.source(found.texts[1]).columns
    begun = time.perf_counter()
    rows = made.changes(keys, values, columns)
    print(f"{rows.rows.num_rows:,} rows: {time.perf_counter() - begun:.2f} s")


if __name__ == "__main__":
    main()
