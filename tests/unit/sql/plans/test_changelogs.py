"""Changes as rows: TO_CHANGELOG and FROM_CHANGELOG behind it leave the table, whatever the micro-batches are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SqlError
from penstock.sql.plan.nodes import (
    Aggregate,
    Filter,
    FromChangelog,
    Join,
    JoinKind,
    Node,
    Source,
    ToChangelog,
)
from penstock.sql.plan.rewrite import columns_of
from penstock.sql.plan.types import STRING
from tests.examples import examples
from tests.unit.sql.plans.checked import check_passes, check_stream
from tests.unit.sql.plans.histories import ACCOUNTS, EVENTS, USERS, History, histories
from tests.unit.sql.plans.random_plans import KINDS, SPANS, Parts, compared, number, output
from tests.unit.sql.plans.test_random_plans import FEW

SOME = settings(FEW, max_examples=examples(30))
CODES = tuple(zip(KINDS, ("insert", "before", "after", "delete"), strict=True))


def told(parts: Parts, node: Node) -> FromChangelog:
    """Return the table that the changes of rows leave."""
    code = parts.column("op", STRING)
    return FromChangelog(ToChangelog(node, code, CODES), code, tuple((each, kind) for kind, each in CODES))


def plain(parts: Parts, source: Source) -> Node:
    return told(parts, parts.scan(source))


def filtered(parts: Parts, source: Source) -> Node:
    rows = parts.scan(source)
    made = told(parts, rows)
    kept = Filter(made.input, (compared(">", columns_of(rows)[0], number(1)),))
    return FromChangelog(kept, made.column, made.kinds)


def grouped(parts: Parts, source: Source) -> Node:
    rows = parts.scan(source)
    return told(parts, Aggregate(rows, parts.keys(columns_of(rows)[0]), (parts.count(),)))


def of_groups(parts: Parts, source: Source) -> Node:
    rows = plain(parts, source)
    return Aggregate(rows, parts.keys(columns_of(rows)[0]), (parts.count(),))


def twice(parts: Parts, source: Source) -> Node:
    return told(parts, plain(parts, source))


@SOME
@given(histories(frozenset({"events", "accounts", "users"})), st.integers(0, 6))
@pytest.mark.parametrize("source", [EVENTS, ACCOUNTS, USERS], ids=lambda each: each.name)
@pytest.mark.parametrize("shape", [plain, filtered, grouped, of_groups, twice])
def test_changes_as_rows_leave_the_table(
    shape: Callable[[Parts, Source], Node], source: Source, history: History, restart: int
) -> None:
    for count in (40, 4, 1):
        check_stream(output(shape(Parts(), source)), history, count, restart)


@SOME
@given(histories(frozenset({"events"})))
def test_a_window_over_changes_keeps_the_watermark_of_their_rows(history: History) -> None:
    parts = Parts()
    rows = told(parts, parts.scan(EVENTS))
    windows, bounds = parts.windowed(rows, SPANS[0], columns_of(rows)[-1])
    keys = parts.keys(bounds["window_start"], bounds["window_end"])
    for count in (40, 1):
        check_stream(output(Aggregate(windows, keys, (parts.count(),))), history, count, 1)


def test_changes_of_a_join_are_refused() -> None:
    parts = Parts()
    left, right = parts.scan(ACCOUNTS), parts.scan(USERS)
    condition = compared("=", columns_of(left)[0], columns_of(right)[0])
    made = told(parts, Join(left, right, JoinKind.INNER, (condition,)))
    with pytest.raises(SqlError, match="TO_CHANGELOG is not served over Join"):
        check_passes(output(made), History((), {"rates": []}))
