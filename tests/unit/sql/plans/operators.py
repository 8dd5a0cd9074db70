"""The real operators of penstock.changelog for the operators of a plan, without Spark.

Runs in tests only. penstock.sql.run and penstock.spark do the same over DataFrames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.append_join import AppendJoin
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import KEY, LEFT, RIGHT, SIDE, Join
from penstock.changelog.operators.keep_values import KeepValues
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.over.calls import parse_over_calls
from penstock.changelog.operators.over.operator import Over
from penstock.changelog.operators.sessions import Sessions
from penstock.changelog.operators.slices import Slices as SliceRows
from penstock.changelog.operators.sort_by_time import SortByTime
from penstock.changelog.operators.temporal_join import CLOCK
from penstock.changelog.operators.top_n import TopN
from penstock.changelog.operators.window_join import WindowJoin as PairsOfWindows
from penstock.changelog.operators.window_totals import WindowTotals as TotalsOfWindows
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.nodes import Input, Stateful
from penstock.sql.plan.operators import (
    END_OF,
    START_OF,
    Aggregation,
    Deduplication,
    KeptValues,
    MultiJoin,
    Normalization,
    OverRows,
    RegularJoin,
    SessionRows,
    Slices,
    TimeSort,
    Top,
    VersionJoin,
    WindowJoin,
    WindowTotals,
)
from penstock.sql.run._operators import is_append_join

_TYPES = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
}
_SIDE_AND_CLOCK = [pa.field(SIDE, pa.int8()), pa.field(CLOCK, pa.int64())]


def arrow_type(kind: FlinkType) -> pa.DataType:
    """Return the type of a column in Arrow."""
    if kind.name == "ROW":
        return pa.struct([(each.name, arrow_type(each.type)) for each in kind.fields])
    if kind.name == "ARRAY":
        return pa.list_(arrow_type(kind.elements[0]))
    return _TYPES[kind.name]


def arrow_columns(given: Input) -> list[pa.Field]:
    """Return the columns of an operator's input, by their labels."""
    return [pa.field(label, arrow_type(column.type)) for label, column in given.columns]


def operator_of(node: Stateful, *, only_inserts: bool) -> Operator:  # noqa: C901, PLR0911 - one for each
    """Return the operator that keeps a state. `only_inserts`: whether its rows have no kinds."""
    operator = node.operator
    fields = arrow_columns(node.inputs[0])
    columns, waiting = pa.schema(fields), pa.schema([*_SIDE_AND_CLOCK, *fields])
    match operator:
        case Aggregation():
            return Aggregate(columns, operator.keys, tuple(parse_calls(dict(operator.calls))))
        case Deduplication():
            keep: Any = "last" if operator.keep_last else "first"
            return Deduplicate(columns, operator.keys, operator.order_by, keep)
        case Top():
            top = TopN(columns, operator.keys, operator.order_by, operator.count, operator.rank, only_inserts)
            return replace(top, skipped=operator.skipped)
        case KeptValues():
            return KeepValues(columns, operator.keys, operator.values)
        case RegularJoin():
            made = _join(operator, node.inputs)
            return _append_join(made) if is_append_join(node, None) else made
        case MultiJoin():
            return _multi_join(operator, node.inputs)
        case Normalization():
            return Normalize(columns, operator.keys, ("__offset",), source="__partition")
        case OverRows():
            frame: Any = operator.frame
            preceding = operator.preceding
            if preceding is not None and frame == "range":
                preceding *= 1_000
            calls = tuple(parse_over_calls(dict(operator.calls)))
            delay_us = 1_000 * max(0, operator.delay_ms - 1)
            return Over(
                waiting, operator.keys, operator.time, operator.order_by, calls, frame, preceding, delay_us
            )
        case SessionRows():
            delay_us = 1_000 * max(0, operator.delay_ms - 1)
            names, gap_us = (START_OF, END_OF), 1_000 * operator.gap_ms
            return Sessions(waiting, operator.keys, operator.time, gap_us, names, delay_us)
        case TimeSort():
            return SortByTime(waiting, operator.time, operator.order_by, 1_000 * operator.delay_ms)
        case VersionJoin() | Slices() | WindowJoin() | WindowTotals():
            raise NotImplementedError(type(operator).__name__)


def _join(operator: RegularJoin, inputs: Sequence[Input]) -> Join:
    left, right = map(arrow_columns, inputs)
    kinds = {field.name: field.type for field in left}
    keys = [pa.field(f"{KEY}{index}", kinds[one]) for index, (one, _) in enumerate(operator.on)]
    of_sides = [
        field.with_name(prefix + field.name)
        for prefix, fields in ((LEFT, left), (RIGHT, right))
        for field in fields
    ]
    names = [(field.name, (LEFT + field.name,)) for field in left]
    if operator.how not in ("semi", "anti"):
        names += [(field.name, (RIGHT + field.name,)) for field in right]
    how: Any = operator.how
    return Join(pa.schema([pa.field(SIDE, pa.int8()), *keys, *of_sides]), how, tuple(names), operator.on)


def _append_join(join: Join) -> AppendJoin:
    keys = [each for pair in join.on for each in pair]
    names = tuple(each for each in join.names if each[0] not in keys) or join.names
    read = {source for _, (source,) in names}
    columns = [each for each in join.columns if each.name in read or each.name in (SIDE, *join.keys)]
    return AppendJoin(pa.schema(columns), names, join.on)


def _multi_join(operator: MultiJoin, inputs: Sequence[Input]) -> AppendJoin:
    kinds = {label: arrow_type(column.type) for label, column in inputs[0].columns}
    keys = [pa.field(f"{KEY}{index}", kinds[each[0]]) for index, each in enumerate(operator.on)]
    of_keys = {label for key in operator.on for label in key}
    sides = [[each for each in arrow_columns(given) if each.name not in of_keys] for given in inputs]
    sides = sides if any(sides) else [arrow_columns(inputs[0]), *([] for _ in inputs[1:])]
    shown = [(f"#{number} ", field) for number, side in enumerate(sides) for field in side]
    columns = [field.with_name(prefix + field.name) for prefix, field in shown]
    names = tuple((field.name, (prefix + field.name,)) for prefix, field in shown)
    prefixes = tuple(f"#{number} " for number in range(len(inputs)))
    return AppendJoin(pa.schema([pa.field(SIDE, pa.int8()), *keys, *columns]), names, operator.on, prefixes)


def pairs_of_windows(operator: WindowJoin, inputs: Sequence[Input]) -> PairsOfWindows:
    """Return what joins rows of windows that are over."""
    join = _join(RegularJoin(operator.on, operator.how), inputs)
    names = tuple(each for each in join.names if each[0][1] != "k")
    return PairsOfWindows(join.columns, join.how, names)


def totals_of_windows(node: Stateful, operator: WindowTotals) -> TotalsOfWindows:
    """Return what gives rows of windows that are over their aggregates."""
    calls = dict(operator.calls)
    shown = tuple(label for label, _ in node.columns if label not in calls)
    columns = pa.schema(arrow_columns(node.inputs[0]))
    return TotalsOfWindows(columns, shown, operator.keys, tuple(parse_calls(calls)))


def joined_row(
    operator: RegularJoin | MultiJoin | WindowJoin, side: int, row: dict[str, Any]
) -> dict[str, Any]:
    """Return a row of one side in the columns of a join."""
    prefix = f"#{side} " if isinstance(operator, MultiJoin) else (LEFT, RIGHT)[side]
    keys = {f"{KEY}{index}": row[pair[side]] for index, pair in enumerate(operator.on)}
    return {SIDE: side, **keys, **{prefix + name: value for name, value in row.items()}}


def slices_of(operator: Slices, rows: Input) -> SliceRows:
    """Return what puts rows together by slices."""
    lengths = 1_000 * operator.length_ms, 1_000 * operator.offset_ms
    columns, calls = pa.schema(arrow_columns(rows)), tuple(parse_calls(dict(operator.calls)))
    return SliceRows(columns, operator.time, *lengths, operator.keys, calls)
