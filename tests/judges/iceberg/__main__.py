"""Let Iceberg's own reader in Java read what penstock wrote: `python -m tests.judges.iceberg --python PATH`.

PATH is the Python of an environment with a PySpark for which Iceberg has a JAR, such as 4.1.4 (`make
versions` makes one). Random histories of changes go into tables, with position deletes, with files that are
written again and with both. Java reads each table as a whole and by a filter on its key. Runs by hand: the
JAR is fetched. Invariant: the exit status is 0 only if each table was right after its last batch.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from penstock.targets import IcebergTable, _iceberg_changes, _iceberg_deletes
from penstock.targets.batch import DELETED, Batch
from tests.judges.debezium.hunt import say

JAR = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
_READER = Path(__file__).with_name("reader.py")
_KEYS, _BATCHES = 3000, 25
_COLUMNS = pa.schema(
    [("id", pa.int64()), ("part", pa.string()), ("at", pa.timestamp("us", "UTC")), ("text", pa.string())]
)
_SMALL_BYTES = (0, 20_000, 8 << 20)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--tables", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-iceberg-") as name:
        folder = Path(name)
        expected = dict(_written(folder, given.tables, random.Random(given.seed)))
        command = [given.python, str(_READER), JAR, *expected]
        answer = subprocess.run(command, capture_output=True, check=True, text=True)
        found = json.loads(answer.stdout.splitlines()[-1])
    wrong = [path for path, rows in expected.items() if found[path] != {"all": rows, "one by one": rows}]
    say(f"{len(expected) - len(wrong)} of {len(expected)} tables right")
    sys.exit(bool(wrong))


def _written(folder: Path, tables: int, chance: random.Random) -> Iterator[tuple[str, list[list[object]]]]:
    """Write tables. Yield the file of metadata of each one, and its rows."""
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/t"}
    with SqlCatalog("judge", **properties) as catalog:
        catalog.create_namespace("shop")
        for number in range(tables):
            target = IcebergTable(f"shop.t{number}", "judge", properties)
            rows = dict[tuple[int, str], str]()
            with (
                mock.patch.object(_iceberg_changes, "SMALL_BYTES", _SMALL_BYTES[number % 3]),
                mock.patch.object(_iceberg_deletes, "_MANIFESTS_AT_MOST", chance.choice([1, 3, 20])),
                mock.patch.object(_iceberg_deletes, "_DATA_MANIFESTS_AT_MOST", chance.choice([2, 5, 100])),
            ):
                for batch_id in range(_BATCHES):
                    target.apply(_batch(batch_id, rows, chance))
            table = catalog.load_table(f"shop.t{number}")
            deletes = {one.file_path for task in table.scan().plan_files() for one in task.delete_files}
            say(f"{len(rows)} rows, {len(deletes)} files with deletes")
            yield table.metadata_location, sorted([*key, text] for key, text in rows.items())


def _batch(batch_id: int, rows: dict[tuple[int, str], str], chance: random.Random) -> Batch:
    """Return a batch of changes, and apply it to the rows."""
    first = not batch_id
    keys = {
        (chance.randrange(_KEYS), chance.choice(["a", "é", "x" * 30]))
        for _ in range(5 * _KEYS if first else chance.choice([0, 1, 100, _KEYS]))
    }
    changes = []
    for key in sorted(keys):
        is_deleted = not first and chance.random() < 0.3
        text = None if is_deleted else f"{batch_id}-{chance.random()}"
        changes.append((*key, 1_000_000 * key[0], text, is_deleted))
        if text is None:
            rows.pop(key, None)
        else:
            rows[key] = text
    schema = _COLUMNS.append(pa.field(DELETED, pa.bool_(), nullable=False))
    columns = zip(*changes, strict=True) if changes else [[]] * len(schema)
    arrays = [pa.array(each, column.type) for each, column in zip(columns, schema, strict=True)]
    return Batch("query-1", batch_id, ("id", "part", "at"), pa.table(arrays, schema=schema))


if __name__ == "__main__":
    main()
