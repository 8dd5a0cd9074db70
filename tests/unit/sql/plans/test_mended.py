"""Plans for which random plans have found a mistake, each as small as it was found."""

from __future__ import annotations

import pytest

from penstock.sql.plan.expressions import (
    AggregateCall,
    Call,
    Expression,
    Literal,
    OverCall,
    QueryCall,
    QueryKind,
    SortItem,
)
from penstock.sql.plan.hidden import KIND, OFFSET, PARTITION
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Filter,
    Join,
    JoinKind,
    Limit,
    Node,
    Over,
    OverOutput,
    Project,
    Sort,
    Watermark,
)
from penstock.sql.plan.rewrite import columns_of
from penstock.sql.plan.types import BIGINT, BOOLEAN, NULL
from penstock.sql.plan.windows import Spans
from tests.unit.sql.plans.batch import NoTimeError
from tests.unit.sql.plans.checked import check_stream
from tests.unit.sql.plans.histories import (
    ACCOUNTS,
    CLICKS,
    EVENTS,
    SECOND_US,
    START_US,
    TIME,
    Happening,
    History,
)
from tests.unit.sql.plans.random_plans import SPANS, Parts, call, compared, number, output, same

TUMBLE, SESSION = SPANS[0], SPANS[3]


def event_of(seconds: int, k: int | None = 1, v: int | None = 1, *, source: str = "events") -> Happening:
    row = {"k": k, "v": v, "s": "a", "ts": START_US + seconds * SECOND_US, PARTITION: 0, OFFSET: seconds}
    return source, (row,)


def account_of(kind: str, number: int, seconds: int) -> Happening:
    row = {"id": number, "k": 1, "v": 1, "ts": START_US + seconds * SECOND_US, KIND: kind}
    return "accounts", (row,)


def check(node: Node, *happenings: Happening) -> None:
    history = History(happenings, {"rates": []})
    for count in (1, len(happenings)):
        check_stream(output(node), history, count, 1)


def time_of(node: Node) -> Watermark:
    assert isinstance(node, Watermark)
    return node


def test_key_of_groups_of_windows_is_shown_behind_them() -> None:
    parts = Parts()
    rows = time_of(parts.scan(EVENTS))
    windows, bounds = parts.windowed(rows, TUMBLE, rows.column)
    groups = Aggregate(windows, parts.keys(bounds["window_start"], bounds["window_end"]), ())
    again = Aggregate(groups, parts.keys(*columns_of(groups)), (parts.count(),))
    check(again, event_of(0), event_of(1), event_of(20))


def test_condition_on_the_end_of_a_session_waits_for_its_end() -> None:
    parts = Parts()
    rows = time_of(parts.scan(EVENTS))
    windows, bounds = parts.windowed(rows, SESSION, rows.column)
    time = START_US + 4 * SECOND_US
    kept = Filter(
        windows,
        (compared(">=", bounds["window_end"], Literal(f"timestamp_micros({time})", TIME, time)),),
    )
    groups = Aggregate(kept, parts.keys(bounds["window_start"], bounds["window_end"]), (parts.count(),))
    check(groups, event_of(0), event_of(1), event_of(2), event_of(20))


def test_largest_end_of_sessions_is_that_of_whole_sessions() -> None:
    parts = Parts()
    rows = time_of(parts.scan(EVENTS))
    windows, bounds = parts.windowed(rows, SESSION, rows.column)
    end = bounds["window_end"]
    largest = AggregateOutput(parts.column("m", end.type), AggregateCall("MIN", (end,), end.type))
    groups = Aggregate(windows, parts.keys(bounds["window_start"], bounds["window_end"]), (largest,))
    check(groups, event_of(0), event_of(1), event_of(20))


@pytest.mark.parametrize("spans", [each for each in SPANS if each.kind != "SESSION"])
def test_row_that_is_displaced_when_its_window_is_over_leaves_the_window(spans: Spans) -> None:
    parts = Parts()
    rows = time_of(parts.scan(EVENTS))
    newest = Limit(Sort(rows, (SortItem(rows.column, is_descending=True),)), 1)
    windows, bounds = parts.windowed(newest, spans, rows.column)
    groups = Aggregate(windows, parts.keys(bounds["window_start"], bounds["window_end"]), (parts.count(),))
    check(groups, *(event_of(each) for each in (1, 30, 60)))


def test_window_over_a_window_of_rows_that_change_keeps_no_row_that_went() -> None:
    parts = Parts()
    rows = time_of(parts.scan(ACCOUNTS))
    windows, bounds = parts.windowed(rows, TUMBLE, rows.column, ())
    groups = Aggregate(windows, parts.keys(*bounds.values()), (parts.count(),))
    again, outer = parts.windowed(groups, SPANS[4], columns_of(groups)[2])
    total = AggregateOutput(
        parts.column("sum", BIGINT), AggregateCall("SUM", (columns_of(groups)[3],), BIGINT)
    )
    made = Aggregate(again, parts.keys(outer["window_end"]), (total,))
    check(made, *(account_of(*each) for each in (("+I", 1, 1), ("+I", 2, 100), ("-D", 1, 1), ("-D", 2, 100))))


def test_changed_row_without_its_time_stops_a_window_over_its_table() -> None:
    """A deleted row without its old columns would stay in its window."""
    parts = Parts()
    rows = time_of(parts.scan(ACCOUNTS))
    windows, bounds = parts.windowed(rows, TUMBLE, rows.column)
    groups = Aggregate(windows, parts.keys(bounds["window_start"], bounds["window_end"]), (parts.count(),))
    _, (row,) = account_of("+I", 1, 1)
    with pytest.raises(NoTimeError):
        check(groups, ("accounts", ({**row, "ts": None},)))


def test_column_in_a_filter_of_over_is_read() -> None:
    parts = Parts()
    rows = time_of(parts.scan(EVENTS))
    key, *_ = columns_of(rows)
    is_null: Call = call("IS NULL", "({0} IS NULL)", (key,), BOOLEAN)
    count = AggregateCall("COUNT", (), BIGINT, condition=is_null)
    made = OverOutput(parts.column("n", BIGINT), OverCall(count, (), (SortItem(rows.column),), None))
    counted = Aggregate(Over(rows, (made,)), parts.keys(made.column), (parts.count(),))
    check(counted, event_of(0), event_of(1, None), event_of(20))


@pytest.mark.parametrize("side", [0, 1])
def test_semi_join_with_a_condition_of_one_side(side: int) -> None:
    parts = Parts()
    left, right = parts.scan(EVENTS), parts.scan(CLICKS)
    own = columns_of((left, right)[side])[1]
    conditions = (compared("=", columns_of(left)[0], columns_of(right)[0]), compared("<", own, number(2)))
    node = Join(left, right, JoinKind.SEMI, conditions)
    check(
        node, event_of(0), event_of(1, v=3), event_of(1, source="clicks"), event_of(2, v=3, source="clicks")
    )


@pytest.mark.parametrize("is_negated", [False, True])
def test_query_in_a_query(is_negated: bool) -> None:
    parts = Parts()
    innermost, inner, outer = (parts.scan(each) for each in (EVENTS, CLICKS, EVENTS))
    keys = [columns_of(each)[0] for each in (innermost, inner, outer)]
    node: Node = Project(innermost, same((keys[0],)))
    for rows, own, key in ((inner, keys[1], keys[0]), (outer, keys[2], keys[1])):
        query: Expression = QueryCall(QueryKind.IN, node, (key,), (own,))
        if is_negated:
            query = call("NOT", "(NOT {0})", (query,), BOOLEAN)
        node = Project(Filter(rows, (query,)), same((own,)))
    check(node, event_of(0), event_of(1, 2, source="clicks"), event_of(2, 2), event_of(2, source="clicks"))


def test_null_is_not_in_a_query_only_if_the_query_has_no_row() -> None:
    parts = Parts()
    inner, outer = (parts.scan(each) for each in (CLICKS, EVENTS))
    key = columns_of(inner)[0]
    has_key = call("NOT", "(NOT {0})", (call("IS NULL", "({0} IS NULL)", (key,), BOOLEAN),), BOOLEAN)
    query = QueryCall(QueryKind.IN, Filter(inner, (has_key,)), (key,), (Literal("NULL", NULL),))
    node = Filter(outer, (call("NOT", "(NOT {0})", (query,), BOOLEAN),))
    check(node, event_of(0), event_of(1, source="clicks"), event_of(2))


def test_groups_that_show_the_end_of_an_inner_window_come_when_the_outer_one_is_over() -> None:
    parts = Parts()
    rows, others = (time_of(parts.scan(each)) for each in (EVENTS, CLICKS))
    inner, bounds = parts.windowed(rows, SPANS[0], rows.column)
    of_inner = parts.keys(*bounds.values())
    groups = Aggregate(inner, of_inner, (parts.count(),))
    _, end, time = (each.column for each in of_inner)
    outer, of_outer = parts.windowed(groups, SPANS[4], time)
    keys = parts.keys(of_outer["window_start"], of_outer["window_end"], end)
    left = Aggregate(outer, keys, (parts.count(),))
    windows, own = parts.windowed(others, SPANS[0], others.column)
    by = parts.keys(own["window_start"], own["window_end"])
    right = Aggregate(windows, by, (parts.count(),))
    node = Join(left, right, JoinKind.INNER, (compared("=", keys[2].column, by[1].column),))
    check(
        node,
        *(event_of(each, source=source) for each in (0, 9, 14, 40) for source in ("events", "clicks")),
    )


@pytest.mark.parametrize("watermark", [6, 7])
def test_start_of_a_slice_may_be_behind_the_watermark(watermark: int) -> None:
    parts = Parts()
    rows = time_of(parts.scan(EVENTS))
    windows, bounds = parts.windowed(rows, SPANS[-1], rows.column)
    groups = Aggregate(windows, parts.keys(bounds["window_start"], bounds["window_end"]), (parts.count(),))
    assert rows.delay_ms is not None
    newest = rows.delay_ms // 1_000 + watermark
    # A row is late by the watermark of the batch before the last one.
    check(groups, event_of(newest), event_of(newest), event_of(watermark + 1))
