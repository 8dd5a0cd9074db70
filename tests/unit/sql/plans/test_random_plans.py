"""Random plans over random histories: every pass keeps the rows, every trait holds, every cut gives one table.

A plan that a pass refuses has no rows to compare.
"""

from __future__ import annotations

from typing import get_args

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from penstock.errors import SqlError
from penstock.sql.passes.planned import PASSES
from penstock.sql.plan import nodes
from penstock.sql.plan.nodes import Output
from penstock.sql.plan.show import shown
from tests.examples import examples
from tests.unit.sql.plans.checked import check_batch, check_stream
from tests.unit.sql.plans.histories import History, histories
from tests.unit.sql.plans.random_plans import COVERED, pass_context, plans

MADE_BY_PASSES = (
    *(nodes.Rank, nodes.Stateful, nodes.MarkedWindows, nodes.PlainTimes, nodes.TimedChanges),
    nodes.Upserts,
)
NOT_COVERED = {
    nodes.AsOfJoin: "the versions of a key have no oracle here",
    nodes.TableFunction: "only Spark runs it",
}
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
def cases(draw: st.DrawFn) -> Case:
    plan, names = draw(plans())
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
