"""Random plans over random histories: every pass keeps the rows, every trait holds, every cut gives one table.

A plan that a pass refuses has no rows to compare.
"""

from __future__ import annotations

from collections import Counter
from typing import get_args

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from penstock.errors import SqlError
from penstock.sql.passes.planned import PASSES
from penstock.sql.plan import nodes
from penstock.sql.plan.expressions import AggregateCall, Column
from penstock.sql.plan.nodes import Output
from penstock.sql.plan.rewrite import columns_of, nodes_in, with_new_columns
from penstock.sql.plan.show import shown
from penstock.sql.plan.types import BIGINT
from penstock.sql.plan.windows import Spans
from tests.examples import examples
from tests.unit.sql.plans.checked import check_batch, check_passes, check_stream
from tests.unit.sql.plans.histories import EVENTS, History, histories
from tests.unit.sql.plans.random_plans import (
    COVERED,
    SPANS,
    Parts,
    compared,
    joins_of_ended_windows,
    joins_of_many,
    output,
    pass_context,
    plans,
)

MADE_BY_PASSES = (*(nodes.Rank, nodes.Stateful, nodes.MarkedWindows, nodes.PlainTimes, nodes.Upserts),)
NOT_COVERED = {
    nodes.AsOfJoin: "the versions of a key have no oracle here",
    nodes.TableFunction: "only Spark runs it",
}
OVER_AT_ONCE = tuple(each for each in SPANS if each.kind != "SESSION")
FEW = settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


class Case:
    """A plan, what happens in its sources, and the batch after which the query is started again."""

    def __init__(self, plan: Output, history: History, restart: int) -> None:
        self.plan, self.history, self.restart = plan, history, restart

    def __repr__(self) -> str:
        happenings = "\n".join(map(str, self.history.happenings))
        return f"\n{shown(self.plan)}\n{happenings}\n{self.history.static}\nrestart {self.restart}"


@st.composite
def cases(draw: st.DrawFn, drawn: st.SearchStrategy[tuple[Output, frozenset[str]]] | None = None) -> Case:
    plan, names = draw(plans() if drawn is None else drawn)
    return Case(plan, draw(histories(names)), draw(st.integers(0, 6)))


@FEW
@given(cases())
def test_stream_equals_batch_in_any_micro_batches(case: Case) -> None:
    try:
        for count in (40, 4, 1):
            check_stream(case.plan, case.history, count, case.restart)
    except SqlError as error:
        event(f"refused: {str(error)[:60]}")
    else:
        event("runs")


@settings(FEW, max_examples=examples(100))
@given(cases(joins_of_ended_windows()))
def test_groups_of_windows_that_end_together_find_their_partners_in_any_micro_batches(case: Case) -> None:
    for count in (40, 4, 1):
        check_stream(case.plan, case.history, count, case.restart)
    kinds = {_operator_name(each) for each in nodes_in(check_passes(case.plan, case.history))}
    event(str(sorted(kinds & {"WindowJoin", "WindowTotals"})))


@settings(FEW, max_examples=examples(100))
@given(cases(joins_of_many()))
def test_joins_by_equal_values_give_one_table_in_any_micro_batches(case: Case) -> None:
    try:
        for count in (40, 4, 1):
            check_stream(case.plan, case.history, count, case.restart)
    except SqlError as error:
        event(f"refused: {str(error)[:60]}")
    else:
        event("runs")


def test_many_joins_by_equal_values_are_one_join() -> None:
    taken = operators_taken(joins_of_many())
    assert taken["MultiJoin"] > 5
    assert taken["RegularJoin"] > 5, "some have other values, or a condition between them"


def most_of_windows(spans: Spans) -> Output:
    """Return the groups of each window with the most rows, as Nexmark's q5 finds them."""
    parts = Parts()
    rows = parts.scan(EVENTS)
    assert isinstance(rows, nodes.Watermark)
    windows, bounds = parts.windowed(rows, spans, rows.column)
    count, by = parts.count(), parts.keys(bounds["window_start"], bounds["window_end"], columns_of(rows)[0])
    groups = nodes.Aggregate(windows, by, (count,))
    copies: dict[Column, Column] = {}

    def copied(column: Column) -> Column:
        return copies.setdefault(column, parts.column(column.name, column.type))

    again, own = with_new_columns(groups, copied), parts.keys(*(copied(each.column) for each in by[:2]))
    most = AggregateCall("MAX", (copied(count.column),), count.column.type)
    totals = nodes.Aggregate(
        again, own, (nodes.AggregateOutput(parts.column("m", BIGINT), most), parts.count())
    )
    pairs = [compared("=", one.column, other.column) for one, other in zip(by[:2], own, strict=True)]
    conditions = (*pairs, compared(">=", count.column, totals.calls[0].column))
    return output(nodes.Join(groups, totals, nodes.JoinKind.INNER, conditions))


@settings(FEW, max_examples=examples(50))
@given(st.sampled_from(OVER_AT_ONCE), histories(frozenset({"events"})), st.integers(0, 6))
def test_groups_with_the_most_rows_of_their_window_are_read_once(
    spans: Spans, history: History, restart: int
) -> None:
    plan = most_of_windows(spans)
    for count in (40, 4, 1):
        check_stream(plan, history, count, restart)
    kinds = Counter(map(_operator_name, nodes_in(check_passes(plan, history))))
    assert kinds["WindowTotals"] == 1


def test_many_joins_of_groups_of_windows_keep_no_rows() -> None:
    assert operators_taken(joins_of_ended_windows())["WindowJoin"] > 5


def operators_taken(drawn: st.SearchStrategy[tuple[Output, frozenset[str]]]) -> Counter[str]:
    """Return how often the passes take each operator in 40 plans."""
    taken: Counter[str] = Counter()

    @settings(FEW, max_examples=40, derandomize=True, database=None)
    @given(drawn)
    def draw(made: tuple[Output, frozenset[str]]) -> None:
        plan, context = made[0], pass_context()
        for each in PASSES:
            plan = each(plan, context)
        taken.update(map(_operator_name, nodes_in(plan.input)))

    draw()
    return taken


def _operator_name(node: nodes.Node) -> str:
    return type(node.operator).__name__ if isinstance(node, nodes.Stateful) else ""


@FEW
@given(cases())
def test_passes_over_a_batch_keep_its_rows(case: Case) -> None:
    try:
        check_batch(case.plan, case.history)
    except SqlError as error:
        event(f"refused: {str(error)[:60]}")


def test_most_plans_are_not_refused() -> None:
    runs = []

    @settings(FEW, max_examples=40, derandomize=True, database=None)
    @given(plans())
    def draw(drawn: tuple[Output, frozenset[str]]) -> None:
        plan, context = drawn[0], pass_context()
        try:
            for each in PASSES:
                plan = each(plan, context)
        except SqlError:
            runs.append(False)
        else:
            runs.append(True)

    draw()
    assert sum(runs) > len(runs) / 2


def test_each_kind_of_node_is_covered() -> None:
    known = {*COVERED, *MADE_BY_PASSES, *NOT_COVERED}
    assert known == {*get_args(nodes.Node)}
