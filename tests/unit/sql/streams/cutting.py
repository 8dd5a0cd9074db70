"""Streams, and queries over them that are cut, without Spark."""

from __future__ import annotations

from penstock.sql.query.rows import Feature, Relation, Rows
from penstock.sql.query.steps import Step
from tests.unit.sql.fake_binder import FakeBinder, translated

TUMBLE = "TABLE(TUMBLE(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR))"
SOURCE = Feature("TableSourceScan", "", 0)
STREAMS = {
    "t": Relation("`t`", Rows(has_place=True), ("ltz", 5_000)),
    "u": Relation("`u`"),
    "c": Relation("`c`", Rows(SOURCE, frozenset({"i"}), is_together=True), ("ltz", 1_000)),
}


def cut(query: str, **parts: str) -> tuple[list[Step], Rows, str]:
    binder = FakeBinder(STREAMS)
    binder.parts = parts
    found = translated(query, binder)
    assert found.batch_only == ()
    return binder.steps, found.rows, found.sql
