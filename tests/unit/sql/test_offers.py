"""Which inputs of operators may come in packages: those of a read of their own, of a table of the session."""

from __future__ import annotations

from collections.abc import Sequence
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

    def _opened(self, table: Table, source: Read, *, has_offsets: bool) -> str:
        self.opened_reads += 1
        return f"v{self.opened_reads}"

    def made(self, node: FrameNode, queries: Sequence[Query]) -> str:
        for each in node.inputs if isinstance(node, Stateful) else ():
            self._offer(each, "frame")
        return super().made(node, queries)


@pytest.mark.parametrize(
    ("query", "given", "reads", "offered"),
    [
        (JOIN, "'format' = 'json'", 2, 2),
        (OTHER_ROWS, "'format' = 'json'", 1, 0),
        (JOIN, "'format' = 'csv'", 1, 0),
        (TOP.format("t"), "'format' = 'csv'", 1, 1),
        (TOP.format("of_spark"), "'format' = 'csv'", 0, 0),
    ],
)
def test_only_a_read_for_one_scan_comes_in_packages(
    monkeypatch: pytest.MonkeyPatch, query: str, given: str, reads: int, offered: int
) -> None:
    """Two sources in place of one would have two offsets, and the checkpoint has one."""
    found: list[Any] = []
    monkeypatch.setattr(_planned, "packed_side", lambda *_, **__: "side")
    monkeypatch.setattr(_planned, "offer", lambda *given: found.append(given))
    monkeypatch.setattr(_planned, "watermark_count", lambda _: 0)
    catalog = catalog_of(
        f"CREATE TABLE t (k INT, a INT, b INT) WITH ('connector' = 'kafka', {TOPIC}, {given})"
    )
    views: Any = Views()
    warnings: list[str] = []
    planner = Offering(catalog, Settings({MODE: "streaming"}), views, lambda: "", warnings.append, {})
    planner.made_of = []
    traits = TraitsOf()
    planner.query(planner.plan(Fragment(query), Source(query), traits, is_insert=True), traits)
    assert (planner.opened_reads, len(found)) == (reads, offered)
