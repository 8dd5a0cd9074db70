"""Which inputs of operators may come in packages: those of a read of their own, of a table of the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.sql.emit.select import Query
from penstock.sql.emit.spark_sql import FrameNode
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.plan.nodes import Scan, Stateful
from penstock.sql.plan.nodes import Source as Read
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.run import _planned
from penstock.sql.run._planned import Planner
from penstock.sql.run._scans import ScanRead
from penstock.sql.run.catalog import Table
from penstock.sql.run.settings import MODE, Settings
from tests.unit.sql.declared import TOPIC
from tests.unit.sql.planning import PlanOnly, RecordedViews, catalog_of

JOIN = "SELECT x.a, y.b FROM t AS x JOIN t AS y ON x.k = y.k"
OTHER_ROWS = "SELECT x.a, y.a FROM t AS x JOIN t AS y ON x.k = y.k"
TOP = (
    "SELECT a, k FROM (SELECT a, k, ROW_NUMBER() OVER (PARTITION BY a ORDER BY k) AS n FROM {}) WHERE n <= 2"
)


class Frame:
    """A view of Spark."""

    isStreaming = True
    columns = ("a", "k")
    schema = StructType([StructField(name, IntegerType()) for name in ("a", "k")])


class Views(RecordedViews):
    def table(self, parts: tuple[str, ...]) -> Any:
        return Frame() if parts == ("of_spark",) else None

    def named(self, frame: Any) -> str:
        return str(frame)


class Offering(PlanOnly):
    """A planner that offers the inputs of its operators."""

    opened_reads: int = 0

    def scan(self, node: Scan) -> str:
        return Planner.scan(self, node)

    def _opened(self, table: Table, source: Read, read: ScanRead) -> str:
        self.opened_reads += 1
        return f"v{self.opened_reads}"

    def made(self, node: FrameNode, queries: Sequence[Query]) -> str:
        if isinstance(node, Stateful):
            self._offer_inputs(node, ["frame"] * len(node.inputs))
        return super().made(node, queries)


NEW, BEGUN, SHARED = None, frozenset[str](), frozenset(["1-join"])
JSON, CSV = "'format' = 'json'", "'format' = 'csv'"
THIRD = f"{JOIN} UNION ALL SELECT a, b FROM t"
HINTED = "SELECT x.a, y.b FROM t /*+ OPTIONS('scan.idle-timeout' = '5 s') */ AS x JOIN t AS y ON x.k = y.k"
LEFT = "SELECT x.a, y.b FROM t AS x JOIN u AS y ON x.k = y.k"


@pytest.mark.parametrize(
    ("query", "given", "known", "reads", "offered"),
    [
        (JOIN, JSON, NEW, 2, ["shared", "shared"]),
        (OTHER_ROWS, JSON, NEW, 1, ["shared", "shared"]),
        (JOIN, CSV, NEW, 1, ["shared", "shared"]),
        (JOIN, JSON, SHARED, 2, ["shared", "shared"]),
        (JOIN, JSON, BEGUN, 2, ["own", "own"]),
        (OTHER_ROWS, JSON, BEGUN, 1, []),
        (JOIN, CSV, BEGUN, 1, []),
        (LEFT, JSON, NEW, 2, ["own", "own"]),
        (HINTED, JSON, NEW, 2, ["own", "own"]),
        (THIRD, JSON, NEW, 3, ["own", "own"]),
        (TOP.format("t"), CSV, NEW, 1, ["own"]),
        (TOP.format("of_spark"), CSV, NEW, 0, []),
    ],
)
def test_which_reads_come_in_packages(
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    given: str,
    known: frozenset[str] | None,
    reads: int,
    offered: list[str],
) -> None:
    """A checkpoint keeps the number of its sources: one in place of two is for new queries."""
    found: list[str] = []

    def side(*given: Any, **_: Any) -> str:
        return "own" if given[-1] is None else "shared"

    monkeypatch.setattr(_planned, "packed_side", side)
    monkeypatch.setattr(_planned, "offer", lambda _, side: found.append(side))
    monkeypatch.setattr(_planned, "watermark_count", lambda _: 0)
    assert (plan_insert(query, given, lambda: known), found) == (reads, offered)


@pytest.mark.parametrize(
    ("query", "is_asked"), [(JOIN, True), (LEFT, False), (THIRD, False), (TOP.format("t"), False)]
)
def test_a_join_asks_the_checkpoint_only_where_one_read_is_possible(
    monkeypatch: pytest.MonkeyPatch, query: str, is_asked: bool
) -> None:
    """Its folder may be one that cannot be read, and that the query does not need."""
    asked: list[str] = []

    def known() -> None:
        asked.append(query)

    monkeypatch.setattr(_planned, "packed_side", lambda *_, **__: None)
    monkeypatch.setattr(_planned, "watermark_count", lambda _: 0)
    plan_insert(query, JSON, known)
    assert bool(asked) is is_asked


def plan_insert(query: str, given: str, known: Callable[[], frozenset[str] | None]) -> int:
    """Plan an INSERT. Return how many reads it opens."""
    table = f"(k INT, a INT, b INT) WITH ('connector' = 'kafka', {TOPIC}, {given})"
    catalog = catalog_of(f"CREATE TABLE t {table}; CREATE TABLE u {table}")
    views: Any = Views()
    warnings: list[str] = []
    planner = Offering(catalog, Settings({MODE: "streaming"}), views, lambda: "", warnings.append, {})
    planner.made_of, planner.known_shared = [], known
    traits = TraitsOf()
    planner.query(planner.plan(Fragment(query), Source(query), traits, is_insert=True), traits)
    return planner.opened_reads
