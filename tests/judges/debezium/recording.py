"""Record messages of a real Debezium, and the table that they have to make, for tests without it.

Invariant: `tests/data/cdc/debezium-postgresql.json` has the records in the order of their partition, all with
the rows of the table before the truncate.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import judge
from tests.judges.debezium.hunt import Hunt
from tests.judges.debezium.servers import DEBEZIUM_VERSION

FILE = Path(__file__).parents[2] / "data" / "cdc" / "debezium-postgresql.json"
_TABLE = """SELECT id, name, price::text, flag, (extract(epoch FROM at) * 1000000)::bigint AS at,
    (extract(epoch FROM atz) * 1000000)::bigint AS atz, day - date '1970-01-01' AS day,
    encode(raw, 'base64') AS raw, big, x::text, doc::text, size, extra FROM goods WHERE id >= 0 ORDER BY id"""


def record(hunt: Hunt) -> None:
    """Run a short history without kills, and write what came of it."""
    table = hunt.workload
    hunt.first_snapshot(transactions=2)
    table.snapshot()
    hunt.wait_for_debezium()
    table.change_schema()
    for kind in ("insert", "change", "move", "rotate", "hand over", "delete"):
        table.run_one(kind)
    hunt.wait_for_debezium()
    cursor = table.admin.execute(_TABLE.encode())
    names = [column.name for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    hunt.truncate()
    version = table.admin.info.parameter_status("server_version")
    noted = {
        "recorded": "by python -m tests.judges.debezium --record",
        "versions": {"Debezium": DEBEZIUM_VERSION, "PostgreSQL": version},
        "table": rows,
        "records": [each for each in map(_shown, hunt.records()) if each is not None],
    }
    FILE.write_text(f"{json.dumps(noted, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def _shown(one: judge.Record) -> list[Any] | None:
    """Return partition, offset, key and value; None for the rows that only say what has arrived."""
    key = json.loads(one.key or b"{}")
    if key.get("id", 0) < 0:
        return None
    texts = [None if each is None else each.decode() for each in (one.key, one.value)]
    return [one.partition, one.offset, *texts]
