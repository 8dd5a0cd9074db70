"""Notes of queries beside their checkpoints (`penstock-sql/query.json`), without Spark.

Invariant: the script never changes, because a release has recorded its notes.
"""

from __future__ import annotations

from pathlib import Path

from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateTable, CreateView, Insert
from penstock.sql.run import _checkpoints as checkpoints
from penstock.sql.run.catalog import Table, View

_SCRIPT = """
CREATE TABLE orders (
  id INT, shop STRING, qty INT, cost AS qty * 2, ts TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE VIEW totals (shop, total) AS SELECT shop, SUM(qty) -- the sum
  FROM orders GROUP BY shop;
CREATE TABLE `große` (shop STRING, total BIGINT) WITH ('connector' = 'print');
INSERT INTO `große` (shop, total) SELECT shop, total FROM totals WHERE shop <> 'é' AND total >= 1.50;
"""
_FILE = "penstock-sql/query.json"


def _now() -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the query of the script, its definitions, and the states of its operators."""
    source = Source(_SCRIPT)
    query, definitions = "", {}
    for parsed in parse_script(_SCRIPT):
        statement = parsed.statement
        if isinstance(statement, CreateTable):
            definitions[statement.name.parts[-1]] = checkpoints.definition_of(Table(statement, source))
        elif isinstance(statement, CreateView):
            definitions[statement.name.parts[-1]] = checkpoints.definition_of(View(statement, source))
        elif isinstance(statement, Insert):
            query = checkpoints.described(statement, ("default_database", statement.table.parts[-1]))
    return query, definitions, {}


def text(folder: Path, shared: frozenset[str] = frozenset()) -> str:
    """Return the note that this version writes."""
    checkpoints.note(str(folder), checkpoints.QueryNote(*_now(), shared))
    return (folder / _FILE).read_text()


def shared_reads(folder: Path, noted: str) -> frozenset[str] | None:
    """Return the joins whose sides have one read in a checkpoint with this note."""
    _restore(folder, noted)
    return checkpoints.shared_reads(str(folder))


def is_same_query(folder: Path, noted: str) -> bool:
    """Return whether the script continues from a checkpoint with this note, as the query that made it."""
    _restore(folder, noted)
    try:
        checkpoints.compare(str(folder), *_now(), may_change=False)
    except ValueError:
        return False
    return True


def _restore(folder: Path, noted: str) -> None:
    for file, contents in ((_FILE, noted), ("offsets/0", ""), ("commits/0", "")):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(contents)
