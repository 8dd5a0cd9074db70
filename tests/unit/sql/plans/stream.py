"""A plan over rows that arrive in micro-batches, with a model of what Spark does with the nodes that stay Spark's.

Runs in tests only. Spark's watermark is that of the newest times of the batches before; with several it is the
lowest. Its groups and joins close by the watermark of the batch, and drop rows that are behind the watermark of the
batch before. Invariant: no source gives a late row, so a row that Spark would drop is an error of the plan.

Not covered: VersionJoin, table functions, time to live, the order of tasks, and mistakes of Spark itself: a join of
two times forgets a row exactly when no partner can come any more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.temporal_join import CLOCK, ROW, ROW_CLOCK
from penstock.changelog.operators.window_join import WindowJoin as PairsOfWindows
from penstock.changelog.operators.window_totals import WindowTotals as TotalsOfWindows
from penstock.options.row_filter import parse_row_filter
from penstock.sql.emit.select import short
from penstock.sql.plan.expressions import Column, Expression, Literal, walk
from penstock.sql.plan.hidden import KIND
from penstock.sql.plan.nodes import (
    Aggregate,
    Changelog,
    Join,
    JoinKind,
    Limit,
    Node,
    Output,
    Scan,
    Stateful,
    Watermark,
    Window,
)
from penstock.sql.plan.operators import (
    MultiJoin,
    OverRows,
    RegularJoin,
    SessionRows,
    Slices,
    TimeSort,
    WindowJoin,
    WindowTotals,
)
from penstock.sql.plan.rewrite import columns_in, columns_of, inputs_of, nodes_in
from penstock.sql.plan.traits import TraitsOf
from penstock.table.row_filter import WantedRows
from penstock.types import ROW_KIND
from tests.unit.changelog.running import Running
from tests.unit.sql.plans.batch import Batch, Local, Row, Stored, plain_kind, sessions_of
from tests.unit.sql.plans.operators import (
    joined_row,
    operator_of,
    pairs_of_windows,
    slices_of,
    totals_of_windows,
)

NEVER, FAR = -(2**62), 4_102_444_800_000_000
"""Watermarks before all times and behind all times, in microseconds."""
Observe = Callable[[str, Node, list[Row], int], None]
"""Gets a path, its node, the rows of a batch, and the watermark by which Spark would drop them as late."""
_WAITING = (OverRows, SessionRows, TimeSort)


class LateRowError(AssertionError):
    """Spark would drop a row in silence."""


def _ignore(_path: str, _node: Node, _rows: list[Row], _late: int) -> None:
    """Observe nothing."""


def wanted_by(node: Scan) -> Callable[[Row], bool]:
    """Return whether a read gives the row of a record."""
    conditions = parse_row_filter(node.kept) if node.kept else ()
    kinds = {each.column: pa.string() if each.is_of_texts else pa.int32() for each in conditions}

    def is_wanted(row: Row) -> bool:
        arrays = [pa.array([row[name]], kind) for name, kind in kinds.items()]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(kinds))
        return bool(WantedRows(conditions).of(batch).num_rows)

    return is_wanted if conditions else lambda _: True


class Stream:
    """A plan that runs.

    Attributes:
        states: what it keeps, by the ids of operators and by the paths of nodes of Spark.
        late: the watermark of the batch before, behind which Spark drops rows.
        watermark: of this batch.
    """

    def __init__(
        self,
        plan: Output,
        traits: TraitsOf,
        static: Stored,
        observe: Observe = _ignore,
        before: Stream | None = None,
    ) -> None:
        """Begin; or go on where another run of the same query has stopped."""
        self.plan = plan
        self.states: dict[str, Any] = {} if before is None else copy.deepcopy(before.states)
        self.late: int = NEVER if before is None else before.late
        self.watermark: int = NEVER if before is None else before.watermark
        self._traits = traits
        self._batch = Batch(static, traits)
        self._local = Local(self._batch.rows)
        self._observe = observe
        self._delta: Stored = {}
        self._is_last = False

    def step(self, delta: Stored) -> list[Row]:
        """Return the rows of one micro-batch."""
        self._delta = delta
        self.late, self.watermark = self.watermark, self._next_watermark()
        return self._of(self.plan.input, "0")

    def finish(self) -> list[Row]:
        """Return the rows that come when all times have passed."""
        self._is_last = True
        self._delta = {}
        self.late, self.watermark = self.watermark, FAR
        return self._of(self.plan.input, "0")

    # ---- watermarks

    def _next_watermark(self) -> int:
        """Return the lowest of the watermarks. One that has seen no row holds all others back."""
        found = [self._watermark_of(path, node) for path, node in self._marks(self.plan.input, "0")]
        return max(self.watermark, min(found, default=NEVER))

    def _marks(self, node: Node, path: str) -> list[tuple[str, Watermark]]:
        found: list[tuple[str, Watermark]] = []
        if isinstance(node, Watermark) and node.delay_ms is not None and not self._traits(node).changes:
            found.append((path, node))
        for index, each in enumerate(inputs_of(node)):
            found += self._marks(each, f"{path}.{index}")
        return found

    def _watermark_of(self, path: str, node: Watermark) -> int:
        newest: int = self.states.get(f"newest {path}", NEVER)
        return newest if newest == NEVER else newest - 1_000 * (node.delay_ms or 0)

    def _follow(self, path: str, time: Column, rows: list[Row]) -> None:
        times = [row[short(time)] for row in rows]
        assert None not in times, "a time is NULL"
        self.states[f"newest {path}"] = max([self.states.get(f"newest {path}", NEVER), *times])

    def _level(self, node: Node, watermark: int) -> int:
        """Return the watermark behind a node. Behind a join of times it is that of the rows which it keeps."""
        level = min((self._level(each, watermark) for each in inputs_of(node)), default=watermark)
        marks = self._marks_of_join(node) if isinstance(node, Join) else (None, None)
        if not isinstance(node, Join) or None in marks or level in (NEVER, FAR):
            return level
        lengths = [length for each in node.conditions for length in _lengths(each)]
        spans = [sign * each + more for each in (0, *lengths) for sign in (1, -1) for more in (0, 1)]
        kept = (
            level + 1 + span
            for side in (0, 1)
            for span in spans
            if span <= 0
            if self._may_match(node, level + 1 + span, marks[side], marks[1 - side], level)
        )
        return min(kept, default=level + 1) - 1

    def _marks_of_join(self, node: Join) -> tuple[Column | None, Column | None]:
        """Return the times of both sides of a join of two streams."""
        known = [self._traits(each) for each in (node.left, node.right)]
        if not all(each.is_stream for each in known):
            return None, None
        left, right = (next(iter(each.times), None) for each in known)
        return left, right

    def _check_in_time(self, node: Node, times: Sequence[int | None]) -> None:
        late = self._level(node, self.late)
        wrong = [time for time in times if time is not None and time <= late]
        if wrong:
            raise LateRowError(f"Spark drops a row at {type(node).__name__}: {wrong} <= {late}.")

    # ---- nodes

    def _of(self, node: Node, path: str) -> list[Row]:
        if not self._traits(node).is_stream:
            return self._batch.rows(node)
        inputs = [self._of(each, f"{path}.{index}") for index, each in enumerate(inputs_of(node))]
        found = self._local.rows(node, inputs, {})
        if found is None:
            found = self._kept(node, inputs, path)
        if isinstance(node, Watermark) and not self._traits(node).changes:
            self._follow(path, node.column, found)
        self._observe(path, node, found, self._level(node, self.late))
        return found

    def _kept(self, node: Node, inputs: list[list[Row]], path: str) -> list[Row]:  # noqa: PLR0911 - one for each
        match node:
            case Scan():
                return self._scanned(node)
            case Window():  # SESSION: the groups above build sessions
                time = self._local.expressions.value
                return [
                    {**row, short(node.column): {"start": at, "end": at + 1_000 * node.spans.size}}
                    for row in inputs[0]
                    if (at := time(node.time, row)) is not None
                ]
            case Aggregate():
                return self._groups(node, inputs[0], path)
            case Join():
                left, right = (self._traits(each).is_stream for each in (node.left, node.right))
                if left and right:
                    return self._join(node, inputs[0], inputs[1], path)
                return self._join_static(node, inputs[0], inputs[1])
            case Limit():
                count = self.states.get(path, 0)
                self.states[path] = count + len(inputs[0])
                assert node.count is not None
                assert not node.skipped
                return inputs[0][: max(0, node.count - count)]
            case Stateful():
                return self._operated(node, inputs)
            case _:
                raise NotImplementedError(f"{type(node).__name__} of a stream")

    def _scanned(self, node: Scan) -> list[Row]:
        found = []
        for row in filter(wanted_by(node), self._delta.get(node.source.name, ())):
            made = {short(each): row[each.name] for each in node.columns}
            is_insert = node.source.changelog is Changelog.APPEND
            found.append(made if is_insert else {**made, KIND: row[KIND]})
        return found

    # ---- groups of windows

    def _groups(self, node: Aggregate, rows: list[Row], path: str) -> list[Row]:
        """Return the groups whose windows are over."""
        known = self._traits(node.input).windows
        keys = [each.expression for each in node.keys if isinstance(each.expression, Column)]
        end = next((each for each in keys if known.get(each) in ("struct", "end")), None)
        assert end is not None, f"Spark would keep these groups for ever: {node.keys}"
        session = self._session(node.input, end)

        def end_of(row: Row) -> int:
            found = row[short(end)]
            return int(found["end"] if known[end] == "struct" else found)

        self._check_in_time(node.input, list(map(end_of, rows)))
        watermark = self._level(node.input, self.watermark)
        kept = [*self.states.get(path, []), *rows]
        if session is not None:
            kept = self._in_sessions(kept, session, [each for each in keys if each != end])
        self.states[path] = [row for row in kept if end_of(row) > watermark]
        return self._batch.aggregate(node, [row for row in kept if end_of(row) <= watermark])

    def _session(self, node: Node, column: Column) -> Window | None:
        return next(
            (
                each
                for each in nodes_in(node)
                if isinstance(each, Window) and each.column == column and each.spans.kind == "SESSION"
            ),
            None,
        )

    def _in_sessions(self, rows: list[Row], window: Window, keys: Sequence[Expression]) -> list[Row]:
        """Return rows with the sessions that they make together. A row begins its own session when it comes."""
        name, own = short(window.column), "\1time"
        rows = [{own: row[name]["start"], **row} for row in rows]
        return [
            {**row, name: session}
            for group in self._batch.grouped(rows, keys).values()
            for row, session in sessions_of(group, [row[own] for row in group], window.spans.size)
        ]

    # ---- joins

    def _join_static(self, node: Join, left: list[Row], right: list[Row]) -> list[Row]:
        is_left = self._traits(node.left).is_stream
        rows, others = (left, right) if is_left else (right, left)
        kept = node.kind is (JoinKind.LEFT if is_left else JoinKind.RIGHT)
        assert kept or node.kind is JoinKind.INNER
        none = dict.fromkeys(map(short, columns_of(node.right if is_left else node.left)))
        found = []
        for row in rows:
            pairs = [{**other, **row} for other in others]
            pairs = [each for each in pairs if self._holds(node, each)]
            found += [plain_kind(each) for each in pairs or ([{**none, **row}] if kept else [])]
        return found

    def _holds(self, node: Join, row: Row) -> bool:
        return self._local.expressions.holds(node.conditions, row)

    def _join(self, node: Join, left: list[Row], right: list[Row], path: str) -> list[Row]:
        """Return the new pairs, and rows of an outer join that find no partner any more.

        A kept row is a list of its values and of whether it has had a partner.
        """
        sides = (node.left, node.right)
        marks = self._marks_of_join(node)
        level = min(self._level(each, self.watermark) for each in sides)
        for each, mark, rows in zip(sides, marks, (left, right), strict=True):
            if mark is not None:
                self._check_in_time(each, [row[short(mark)] for row in rows])
        kept = self.states.setdefault(path, ([], []))
        for side, rows in enumerate((left, right)):
            kept[side].extend([row, False, True] for row in rows)
        found = self._new_pairs(node, kept)
        if None in marks:
            assert node.kind is JoinKind.INNER, "an outer join needs times, or its rows wait for ever"
            return found
        keeps = ((JoinKind.LEFT, JoinKind.FULL), (JoinKind.RIGHT, JoinKind.FULL))
        for side in (0, 1):
            none = dict.fromkeys(map(short, columns_of(sides[1 - side])))
            stays = []
            for each in kept[side]:
                time = each[0][short(own)] if (own := marks[side]) is not None else None
                if time is not None and self._may_match(node, time, own, marks[1 - side], level):
                    stays.append(each)
                elif not each[1] and node.kind in keeps[side]:
                    found.append({**none, **each[0]})
            kept[side][:] = stays
        return found

    def _new_pairs(self, node: Join, kept: tuple[list[Any], list[Any]]) -> list[Row]:
        found = []
        for one in kept[0]:
            for other in kept[1]:
                if (one[2] or other[2]) and self._holds(node, {**one[0], **other[0]}):
                    one[1] = other[1] = True
                    found.append({**one[0], **other[0]})
        for each in (*kept[0], *kept[1]):
            each[2] = False
        return found

    def _may_match(
        self, node: Join, own_time: int, own: Column | None, other: Column | None, watermark: int
    ) -> bool:
        """Return whether a row of the other side that may still come fulfils the conditions on both times.

        These hold in one span of time around that of the row, whose ends are an interval away from it.
        """
        assert own is not None
        assert other is not None
        timed = [each for each in node.conditions if columns_in(each) == {own, other}]
        assert timed, "Spark would keep these rows for ever"
        lengths = [length for each in timed for length in _lengths(each)]
        ends = [
            own_time + sign * each + more for each in (0, *lengths) for sign in (1, -1) for more in (-1, 0, 1)
        ]
        comes = [watermark + 1, *(each for each in ends if each > watermark)]
        return any(
            self._local.expressions.holds(timed, {short(own): own_time, short(other): each}) for each in comes
        )

    # ---- operators of penstock

    def _operated(self, node: Stateful, inputs: list[list[Row]]) -> list[Row]:
        labelled = [
            [_labelled(each.columns, row) for row in rows]
            for each, rows in zip(node.inputs, inputs, strict=True)
        ]
        operator = node.operator
        if isinstance(operator, Slices):
            return self._sliced(node, operator, labelled[0])
        rows = labelled[0]
        if isinstance(operator, (MultiJoin, RegularJoin, WindowJoin)):
            rows = [
                {**joined_row(operator, side, _without_kind(row)), ROW_KIND: row[ROW_KIND]}
                for side, each in enumerate(labelled)
                for row in each
            ]
        if isinstance(operator, WindowJoin):
            return _run_once(node, pairs_of_windows(operator, node.inputs), rows)
        if isinstance(operator, WindowTotals):
            return _run_once(node, totals_of_windows(node, operator), rows)
        if isinstance(operator, _WAITING):
            rows = [{SIDE: ROW, CLOCK: None, **row} for row in rows]
            rows += self._clock(operator.time, rows)
        out = [_in_micros(each) for each in self._running(node).step(rows)] if rows else []
        if isinstance(operator, _WAITING) or node.is_inserts:
            out = [_without_kind(each) for each in out if each[ROW_KIND] == "+I"]
        names = {label: short(column) for label, column in node.columns}
        return [
            {names.get(name, KIND): value for name, value in row.items() if name in names or name == ROW_KIND}
            for row in out
        ]

    def _clock(self, time: str, rows: list[Row]) -> list[Row]:
        newest = max((row[time] for row in rows), default=NEVER)
        newest = FAR if self._is_last else newest
        if newest == NEVER:
            return []
        return [{SIDE: ROW_CLOCK, CLOCK: newest, ROW_KIND: "+I"}]

    def _running(self, node: Stateful) -> Running:
        """Return the operator with what it has kept. It has to fit what a restart has left."""
        only_inserts = not self._traits(node.inputs[0].node).changes
        operator = operator_of(node, only_inserts=only_inserts)
        found: Running | None = self.states.get(node.state_id)
        if found is None:
            found = self.states[node.state_id] = Running(operator, _columns_of(operator))
        assert found.operator == operator, f"{node.state_id} is the state of another operator"
        return found

    def _sliced(self, node: Stateful, operator: Slices, rows: list[Row]) -> list[Row]:
        made = slices_of(operator, node.inputs[0])
        table = pa.Table.from_pylist(rows, made.columns)
        names = {label: short(column) for label, column in node.columns}
        found = map(_in_micros, made.together(table).to_pylist())
        return [{names[label]: value for label, value in row.items()} for row in found]


def _run_once(node: Stateful, made: PairsOfWindows | TotalsOfWindows, rows: list[Row]) -> list[Row]:
    """Return the rows that an operator without a state makes of those of one micro-batch."""
    batches = pa.Table.from_pylist(rows, made.columns).to_batches(max_chunksize=2)
    names = {label: short(column) for label, column in node.columns}
    found = [_in_micros(row) for batch in made.run(batches) for row in batch.to_pylist()]
    return [{names[label]: value for label, value in row.items() if label in names} for row in found]


def _lengths(condition: Expression) -> list[int]:
    """Return the intervals of a condition, in microseconds."""
    return [
        int(part.value)
        for part in walk(condition)
        if isinstance(part, Literal) and part.type.name == "INTERVAL" and part.value is not None
    ]


def _columns_of(operator: Operator) -> pa.Schema:
    columns: pa.Schema = getattr(operator, "columns")  # noqa: B009 - each operator has it, but the protocol
    return columns.append(pa.field(ROW_KIND, pa.string()))


def _labelled(columns: Sequence[tuple[str, Column]], row: Row) -> Row:
    return {**{label: row[short(each)] for label, each in columns}, ROW_KIND: row.get(KIND, "+I")}


def _without_kind(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != ROW_KIND}


def _in_micros(value: Any) -> Any:
    """Return a value of Arrow with times as microseconds."""
    if isinstance(value, datetime):
        whole = int(value.replace(tzinfo=None, microsecond=0).toordinal() - _EPOCH) * 86_400
        seconds = whole + value.hour * 3_600 + value.minute * 60 + value.second
        return seconds * 1_000_000 + value.microsecond
    if isinstance(value, dict):
        return {name: _in_micros(each) for name, each in value.items()}
    return list(map(_in_micros, value)) if isinstance(value, list) else value


_EPOCH = datetime(1970, 1, 1).toordinal()
