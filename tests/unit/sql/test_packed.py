"""Inputs of operators that a task which reads a topic can compute, so that they need no rows of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sql.emit.arrow import ArrowPlan
from penstock.sql.plan.nodes import Stateful
from penstock.sql.plan.rewrite import nodes_in
from penstock.sql.run._packed import is_quick, scan_of
from tests.judges.nexmark import scripts
from tests.unit.sql.planning import How, catalog_of, planned


@pytest.mark.parametrize("name", ["q15", "q17", "q18", "q19", "q20"])
def test_operators_of_nexmark_can_have_packages(name: str, tmp_path: Path) -> None:
    events = scripts.events_of("b:1", "t", {"scan.bounded.mode": "latest-offset"})
    query = "\n".join(line.partition("--")[0] for line in scripts.query_of(name, tmp_path).splitlines())
    views, _, insert = query.partition("CREATE TABLE nexmark_q")
    select = insert[insert.index("SELECT", insert.index("INSERT")) :].strip().rstrip(";")
    found = planned(select, How(is_insert=True, catalog=catalog_of(f"{events};\n{views}")))
    inputs = [rows for node in nodes_in(found.plan) if isinstance(node, Stateful) for rows in node.inputs]
    assert inputs
    for rows in inputs:
        assert scan_of(rows.node) is not None
        plan = ArrowPlan(is_utc=True)
        labels = [label for label, _ in rows.columns]
        values = plan.rows(rows.node, [column for _, column in rows.columns])
        assert all(map(is_quick, plan.query(dict(zip(labels, values, strict=True))).values()))
