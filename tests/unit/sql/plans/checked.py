"""Run a random plan in every way, and check what has to hold.

Runs in tests only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.sql.emit.select import short
from penstock.sql.passes.engine.choose import choose_engine
from penstock.sql.passes.planned import PASSES, PASSES_OF_BATCH
from penstock.sql.plan.expressions import Expression, QueryCall, rewritten
from penstock.sql.plan.hidden import KIND
from penstock.sql.plan.nodes import (
    Aggregate,
    Assignment,
    Changelog,
    Join,
    JoinKind,
    Node,
    Output,
    Project,
    Scan,
    Stateful,
    Watermark,
)
from penstock.sql.plan.operators import OverRows, SessionRows, TimeSort
from penstock.sql.plan.rewrite import columns_of, nodes_in, plan_of, transformed, with_expressions
from penstock.sql.plan.show import shown
from penstock.sql.plan.traits import Traits, TraitsOf
from tests.unit.sql.plans.batch import Batch, Row, content
from tests.unit.sql.plans.histories import History
from tests.unit.sql.plans.random_plans import pass_context
from tests.unit.sql.plans.stream import Stream

Table = Counter[tuple[Any, ...]]


class Checks:
    """The table of each node while a plan runs, and the traits of the node that have to hold of it."""

    def __init__(self, traits: TraitsOf) -> None:
        self._traits = traits
        self._tables: dict[str, Table] = {}

    def __call__(self, path: str, node: Node, rows: list[Row], late: int) -> None:
        """Check the rows of a node in one batch, as they come."""
        known = self._traits(node)
        try:
            self._check_times(known, rows, late)
            if known.changelog is Changelog.UPSERT:
                return
            if known.changelog is Changelog.APPEND:
                assert all(row.get(KIND, "+I") == "+I" for row in rows), "append-only rows are taken back"
            if known.is_pairs:
                _check_pairs(rows)
            self._apply(path, node, rows)
        except AssertionError as error:
            raise AssertionError(f"{error}\nof the node\n{shown(node, self._traits)}\nby {rows}") from error

    def _check_times(self, known: Traits, rows: list[Row], late: int) -> None:
        for column, mark in known.times.items():
            for row in rows:
                time = row[short(column)]
                end = None if time is None else time + mark.slice_ms * 1_000
                is_late = end is not None and (end < late if mark.waits else end <= late)
                assert not is_late, f"{column} is behind the watermark {late} that Spark takes for its own"
        for column in known.millisecond_columns:
            times = (row[short(column)] for row in rows)
            assert all(time is None or time % 1_000 == 0 for time in times), f"{column} has microseconds"

    def _apply(self, path: str, node: Node, rows: list[Row]) -> None:
        table = self._tables.setdefault(path, Counter())
        columns = columns_of(node)
        for row in rows:
            apply(table, content(row, columns), row.get(KIND, "+I"))
        key = self._traits(node).key
        if key is not None:
            indices = [index for index, each in enumerate(columns) if each in key]
            assert len(indices) == len(key), f"the key {key} is not shown"
            found = Counter(tuple(row[index] for index in indices) for row in table.elements())
            if _has_full_join(node):
                found.pop(
                    (None,) * len(indices), None
                )  # both sides may have a group of NULL, each without a partner
            assert all(count == 1 for count in found.values()), f"the key {key} is not unique: {table}"


def _has_full_join(node: Node) -> bool:
    return any(
        each.kind is JoinKind.FULL
        if isinstance(each, Join)
        else isinstance(each, Stateful) and getattr(each.operator, "how", "") == "full"
        for each in nodes_in(node)
    )


def apply(table: Table, row: tuple[Any, ...], kind: str) -> None:
    """Apply a change to a table. What is taken back has to be there."""
    if kind in ("+I", "+U"):
        table[row] += 1
        return
    assert table[row] > 0, f"{kind} takes back {row}, which is not there"
    table[row] -= 1
    if not table[row]:
        del table[row]


def _check_pairs(rows: Sequence[Row]) -> None:
    kinds = [row.get(KIND, "+I") for row in rows]
    for index, kind in enumerate(kinds):
        if kind == "-U":
            assert kinds[index + 1 : index + 2] == ["+U"], "-U without its +U"
        if kind == "+U":
            assert index, "+U without its -U"
            assert kinds[index - 1] == "-U", "+U without its -U"


def table_of(rows: Sequence[Row], plan: Output) -> Table:
    """Return rows as a table of the result's columns."""
    return Counter(content(row, plan.columns) for row in rows)


def table_after(plan: Output, history: History, count: int | None = None) -> Table:
    """Return the result over the tables after so many changes, as a batch."""
    return table_of(Batch(history.tables(count), TraitsOf()).rows(plan.input), plan)


def check_passes(plan: Output, history: History) -> Output:
    """Return the plan of what runs. Each pass before the engines are chosen keeps the rows.

    Raises:
        SqlError: the plan is refused.
    """
    context, expected = pass_context(), table_after(plan, history)
    is_logical = True
    for each in PASSES:
        before, plan = plan, each(plan, context)
        is_logical = is_logical and each is not choose_engine
        if is_logical and plan is not before:
            found = table_after(plan, history)
            assert found == expected, difference(
                found, expected, f"{shown(before)}\n\nbecame\n\n{shown(plan)}"
            )
    return plan


def check_batch(plan: Output, history: History) -> None:
    """Check that each pass over the plan of a batch keeps the rows.

    Raises:
        SqlError: the plan is refused.
    """
    found = transformed(plan, _static)
    assert isinstance(found, Output)
    expected, context = table_after(found, history), pass_context()
    for each in PASSES_OF_BATCH:
        found = each(found, context)
        table = table_after(found, history)
        assert table == expected, difference(table, expected, f"{shown(plan)}\n\nbecame\n\n{shown(found)}")


def _static(node: Node) -> Node:
    """Return a node of a batch. Queries in its expressions are those of a batch too."""

    def value(part: Expression) -> Expression | None:
        return (
            replace(part, plan=transformed(plan_of(part), _static)) if isinstance(part, QueryCall) else None
        )

    if isinstance(node, Scan):
        source = replace(node.source, is_stream=False, changelog=Changelog.APPEND, is_normalized=False)
        return replace(node, source=source)
    if isinstance(node, Watermark):  # the binder makes none in a batch
        columns = zip(columns_of(node), columns_of(node.input), strict=True)
        return Project(node.input, tuple(Assignment(new, old) for new, old in columns))
    return with_expressions(node, lambda each: rewritten(each, value))


def check_stream(plan: Output, history: History, count: int, restart: int) -> None:
    """Check a stream in so many micro-batches, with a restart after one of them, against the batch."""
    running = check_passes(plan, history)
    traits = TraitsOf()
    checks = Checks(traits)
    stream = Stream(running, traits, history.static, checks)
    table: Table = Counter()
    seen, is_waiting = 0, waits(running)
    for index, (size, delta) in enumerate(history.cut(count)):
        if index == restart:
            stream = Stream(check_passes(plan, history), traits, history.static, checks, stream)
        for row in stream.step(delta):
            apply(table, content(row, running.columns), row.get(KIND, "+I"))
        seen += size
        if not is_waiting:
            _check_table(table, plan, running, history, seen)
    for row in stream.finish():
        apply(table, content(row, running.columns), row.get(KIND, "+I"))
    _check_table(table, plan, running, history, None)


def _check_table(table: Table, plan: Output, running: Output, history: History, count: int | None) -> None:
    expected = table_after(plan, history, count)
    assert table == expected, difference(
        table, expected, f"{shown(plan)}\n\nruns as\n\n{shown(running, TraitsOf())}"
    )


def difference(found: Table, expected: Table, where: str) -> str:
    """Return what is wrong with a table."""
    return f"too many {dict(found - expected)}, missing {dict(expected - found)}\n{where}"


def waits(running: Output) -> bool:
    """Return whether rows of a running plan wait for a watermark."""
    traits = TraitsOf()

    def is_waiting(node: Node) -> bool:
        if isinstance(node, Stateful):
            return isinstance(node.operator, (OverRows, SessionRows, TimeSort))
        if isinstance(node, Join):
            return bool(traits(node.left).times and traits(node.right).times)
        return isinstance(node, Aggregate) and traits(node).is_stream

    return any(map(is_waiting, nodes_in(running)))
