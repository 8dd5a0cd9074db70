"""What is in the topics before the cases of the probe run, and what has to be in them afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.judge import Record

Check = Callable[[list[Record]], None]


def _values(count: int) -> list[Record]:
    return [
        Record(f"v{each}".encode(), f"{each}".encode(), (("n", f"{each}".encode()),), partition=each % 3)
        for each in range(count)
    ]


def _item(number: int) -> bytes:
    price = f"{number / 4:.2f}"
    row = {
        "id": number,
        "name": f"n{number}",
        "price": price,
        "tags": ["a", "b"],
        "at": "2026-11-26 10:00:00Z",
    }
    return json.dumps(row).encode()


def _changes() -> list[Record]:
    """Creates, updates and deletes of ten keys. Each key stays in its partition."""
    records = []
    for key in range(10):
        first, second = ({"id": key, "name": f"{word} {key}"} for word in ("first", "second"))
        steps: list[tuple[str, Any, Any]] = [("c", None, first), ("u", first, second)]
        if key % 3 == 0:
            steps.append(("d", second, None))
        for operation, before, after in steps:
            body = {"before": before, "after": after, "op": operation, "ts_ms": 1}
            records.append(Record(json.dumps(body).encode(), str(key).encode(), partition=key % 3))
    return records


INPUTS: dict[str, list[Record]] = {
    "in": _values(300),
    "fixed": _values(300),
    "json": [Record(_item(each), partition=each % 3) for each in range(100)],
    "cdc": _changes(),
    "cdc-upsert": [],
    "waves": [],
    "stream-in": [],
    "once-in": [],
    "again-in": [],
    "stop-in": [],
    "group": [],
    "moved-in": [],
    "moved": [],
    "own-in": [],
    "continuous-in": [],
}


def each_once(count: int) -> Check:
    """Return the check that a topic has v0, v1 and so on, each once."""

    def check(records: list[Record]) -> None:
        found = Counter(record.value or b"" for record in records)
        wanted = Counter(f"v{each}".encode() for each in range(count))
        lost, doubled = list((wanted - found).elements()), list((found - wanted).elements())
        assert found == wanted, f"lost {len(lost)} {lost[:5]}, too many {len(doubled)} {doubled[:5]}"

    return check


def _equal(rows: list[Any], wanted: list[Any]) -> None:
    found = sorted(rows, key=str)
    assert found == sorted(wanted, key=str), f"expected {wanted}, got {found}"


def _json_rows(records: list[Record]) -> None:
    rows = [json.loads(record.value or b"") for record in records]
    _equal([(row["id"], row["s"]["b"]) for row in rows], [(each, [each, each + 1]) for each in range(20)])


def _last_of(records: list[Record], key: str, columns: tuple[str, ...]) -> list[Any]:
    """Return the table that an upsert topic holds."""
    last: dict[Any, Any] = {}
    for record in records:
        last[json.loads(record.key or b"")[key]] = json.loads(record.value) if record.value else None
    return [tuple(row[column] for column in columns) for row in last.values() if row is not None]


def _groups(modulus: int) -> list[Any]:
    members = {group: [each for each in range(100) if each % modulus == group] for group in range(modulus)}
    return [(group, len(each), sum(each)) for group, each in members.items()]


def _table_of(modulus: int) -> Check:
    return lambda records: _equal(_last_of(records, "g", ("g", "n", "total")), _groups(modulus))


def _made(records: list[Record]) -> None:
    _equal([json.loads(record.value or b"")["id"] for record in records], list(range(50)))


def _dear(records: list[Record]) -> None:
    rows = [json.loads(record.value or b"") for record in records]
    _equal([(row["id"], row["name"]) for row in rows], [(each, f"n{each}!") for each in range(80, 100)])


OUTPUTS: dict[str, dict[str, Check]] = {
    "batch write": {"batch-write": each_once(100)},
    "batch write exactly-once": {"batch-once": each_once(100)},
    "json write": {"json-write": _json_rows},
    "stream write": {"stream": each_once(200)},
    "stream write exactly-once": {"once": each_once(200)},
    "a planned batch comes again": {"again": each_once(400)},
    "foreachBatch exactly-once": {"foreach": each_once(300)},
    "aggregate": {"aggregate": _table_of(7)},
    "sql without micro-batches": {"sql-continuous": _dear},
    "sql stream": {"sql": _table_of(3), "made": _made},
    "stop after the batch": {"stop": each_once(300)},
    "continuous exactly-once": {"continuous": each_once(300)},
    "write_batch without data sources": {"mapped": each_once(300)},
    "write_batch that fails": {"failing": each_once(100)},
    "Spark's own connector and back": {"own": each_once(400)},
}
"""For each case the topics that it writes, and what an independent consumer has to see in them."""
