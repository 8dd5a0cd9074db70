"""Traits: what is known of the rows of a node, computed from the node and the traits of its inputs.

Runs on the driver. Invariant: only the traits of a table are stated by hand, and no trait has a default that
claims something. A claim that cannot be derived is not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, assert_never

from penstock.sql.plan import nodes
from penstock.sql.plan.expressions import Call, Column, Expression, Literal
from penstock.sql.plan.hidden import OFFSETS
from penstock.sql.plan.nodes import Assignment, Changelog, Input, JoinKind, Node
from penstock.sql.plan.operators import (
    END_OF,
    Aggregation,
    Deduplication,
    MultiJoin,
    OverRows,
    RegularJoin,
    SessionRows,
    Slices,
    Top,
    WindowJoin,
    WindowTotals,
)
from penstock.sql.plan.rewrite import columns_of, inputs_of, node_below
from penstock.sql.plan.types import spark_text
from penstock.sql.plan.windows import MADE_WINDOW, WINDOW_BOUND

Key = frozenset[Column]
V = TypeVar("V")


@dataclass(frozen=True)
class Mark:
    """A watermark on a column.

    Attributes:
        origin: the id of the column that it was set on. Copies of a column have one origin.
        delay_ms: how far it is behind the newest time.
        waits: whether a row may come when the watermark is at its time exactly. A window takes such a row. A
            join of Spark would drop it.
        is_mixed: whether rows of several tables come together. Then a row may be later than the newest time
            less the delay, so an operator of penstock cannot follow the watermark. Spark can: it has one of
            each table.
        slice_ms: the length of a slice if the times are the starts of slices, else 0. Then only the end of a
            slice is not behind the watermark. A window over the slices closes by its own end.
    """

    origin: int
    delay_ms: int
    waits: bool = False
    is_mixed: bool = False
    slice_ms: int = 0


@dataclass(frozen=True)
class Traits:
    """What is known of the rows of a node.

    Attributes:
        is_stream: whether they have no end.
        changelog: how they change.
        changed: the name of the node that changes them, for messages; "" for APPEND.
        key: columns by which all rows differ, () for at most one row; None if none are known. Behind a FULL
            JOIN two rows may have NULL in all of them: the groups of NULL of both sides.
        times: of APPEND rows of a stream, the columns with a watermark.
        changing_time: of rows that change, the column of the WATERMARK of their table, and its delay.
        windows: columns of APPEND rows that are a part of a window that closes: its end, time, or struct.
        spans: the columns that are windows, each with its kind.
        millisecond_columns: columns that are times of whole milliseconds.
        offsets: the columns with the topic partition and the offset of a row's record, which order rows.
        is_pairs: whether -U and +U follow one another in one task.
    """

    is_stream: bool
    changelog: Changelog
    changed: str
    key: Key | None
    times: Mapping[Column, Mark]
    changing_time: tuple[Column, int] | None
    windows: Mapping[Column, str]
    spans: Mapping[Column, str]
    millisecond_columns: frozenset[Column]
    offsets: tuple[Column, Column] | None
    is_pairs: bool

    @property
    def changes(self) -> bool:
        return self.changelog is not Changelog.APPEND

    def delay_of(self, value: Expression) -> int | None:
        """Return the delay of the only watermark if it is on this column; None for another value."""
        if not isinstance(value, Column) or len({each.origin for each in self.times.values()}) != 1:
            return None
        mark = self.times.get(value)
        return None if mark is None or mark.is_mixed else mark.delay_ms

    def part_of_window(self, value: Expression) -> str | None:
        """Return which part of a window that closes a value is; None for another value."""
        return self.windows.get(value) if isinstance(value, Column) else None

    @property
    def time(self) -> tuple[Column, int] | None:
        """Return a column with the only watermark, and its delay."""
        column = next(iter(self.times), None)
        delay = None if column is None else self.delay_of(column)
        return None if column is None or delay is None else (column, delay)


STATIC = Traits(
    is_stream=False,
    changelog=Changelog.APPEND,
    changed="",
    key=None,
    times={},
    changing_time=None,
    windows={},
    spans={},
    millisecond_columns=frozenset(),
    offsets=None,
    is_pairs=False,
)
"""Rows of a batch, of which nothing more is known."""


class TraitsOf:
    """Computes traits, once for each node."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, Traits]] = {}

    def __call__(self, node: Node) -> Traits:
        """Return the traits of a node."""
        found = self._known.get(id(node))
        if found is None:
            found = self._known[id(node)] = (node, self._of(node))
        return found[1]

    def _of(self, node: Node) -> Traits:
        match node:
            case nodes.Scan():
                return _of_scan(node)
            case nodes.Values():
                return STATIC
            case nodes.Watermark():
                below = _renamed(self(node.input), {node.time: node.column})
                if node.delay_ms is None:
                    return below
                if below.changes:
                    return replace(below, changing_time=(node.column, node.delay_ms))
                return replace(below, times={node.column: Mark(node.column.id, node.delay_ms)})
            case nodes.Project():
                return _projected(self(node.input), node)
            case nodes.Filter():
                return replace(self(node.input), is_pairs=False)
            case nodes.Join():
                return self._of_join(node)
            case nodes.AsOfJoin():
                left = self(node.left)
                return _only(left, key=left.key)
            case nodes.Apply():
                return _only(self(node.left))
            case nodes.Unnest() | nodes.TableFunction():
                below = self(node.input)
                key = below.key if isinstance(node, nodes.Unnest) and node.is_single else None
                return replace(below, key=key, changing_time=None, offsets=None, is_pairs=False)
            case nodes.Window():
                return self._of_window(node)
            case nodes.Aggregate():
                return self._of_aggregate(node)
            case nodes.Over() | nodes.Rank():
                below = self(node.input)
                return _only(below, key=below.key)
            case nodes.SetOperation():
                return self._of_set_operation(node)
            case nodes.Distinct():
                below = self(node.input)
                return _only(below, key=frozenset(node.columns))
            case nodes.Sort():
                return self(node.input)
            case nodes.Limit():
                return replace(self(node.input), is_pairs=False)
            case nodes.Stateful():
                return self._of_stateful(node)
            case nodes.MarkedWindows():
                return self._of_marked(node)
            case nodes.PlainTimes():
                below = self(node.input)
                kept = {column: delay for column, delay in below.times.items() if column == node.keep}
                return replace(below, times=kept, windows={})
            case nodes.Output():
                return self(node.input)
            case nodes.ToChangelog():
                below = self(node.input)
                times = {} if below.changes else below.times  # a row that is taken back has its old time
                return replace(_only(below), changelog=Changelog.APPEND, changed="", times=times)
            case nodes.FromChangelog():
                below = _only(self(node.input))
                return replace(below, changelog=Changelog.RETRACT, changed="FROM_CHANGELOG")
            case nodes.Upserts():
                below = self(node.input)
                return replace(
                    below,
                    changelog=Changelog.UPSERT,
                    changed="Deduplicate",
                    key=frozenset(node.keys),
                    times={},
                    changing_time=below.time,
                    windows={},
                )
            case _:
                assert_never(node)

    def _of_join(self, node: nodes.Join) -> Traits:
        left, right = self(node.left), self(node.right)
        if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return replace(_only(left, key=left.key), is_stream=left.is_stream or right.is_stream)
        return replace(
            _of_both(left, right),
            key=_key_of_join(node, left.key, right.key),
            times=_mixed({**left.times, **right.times}),
            windows=_windows_of_join(node, left, right),
            spans={**left.spans, **right.spans},
            millisecond_columns=left.millisecond_columns | right.millisecond_columns,
        )

    def _of_window(self, node: nodes.Window) -> Traits:
        below = self(node.input)
        windows = {**below.windows, **({node.column: "struct"} if node.time in below.times else {})}
        key = below.key
        if key is not None and node.spans.kind in ("HOP", "CUMULATE"):
            key |= {node.column}
        spans = {**below.spans, node.column: node.spans.kind}
        return replace(below, windows=windows, spans=spans, key=key, offsets=None, is_pairs=False)

    def _of_aggregate(self, node: nodes.Aggregate) -> Traits:
        below = self(node.input)
        columns = frozenset(each.column for each in node.keys if not _is_always_0(each.expression))
        copied = _copies_in(node.keys)
        found = _only(below, key=None if node.sets else columns, windows=_of_copies(below.windows, copied))
        return replace(found, spans=_of_copies(below.spans, copied))

    def _of_set_operation(self, node: nodes.SetOperation) -> Traits:
        left, right = self(node.left), self(node.right)
        sides = [*zip(node.columns, node.lefts, node.rights, strict=True)]
        same = [(column, left.windows.get(one), right.windows.get(other)) for column, one, other in sides]
        times = {
            column: left.times[one]
            for column, one, other in sides
            if one in left.times and other in right.times
        }
        return replace(
            _of_both(left, right),
            key=None if node.is_all else frozenset(node.columns),
            times=_mixed(times),
            windows={column: one for column, one, other in same if one is not None and one == other},
        )

    def _of_stateful(self, node: nodes.Stateful) -> Traits:
        below = [self(each) for each in inputs_of(node)]
        name = _NAMES.get(type(node.operator).__name__, type(node.operator).__name__)
        if isinstance(node.operator, RegularJoin):
            name = f"Join(joinType=[{_JOINS.get(node.operator.how, node.operator.how)}])"
        is_append = node.changelog is Changelog.APPEND or node.is_inserts
        if isinstance(node.operator, (OverRows, SessionRows)):
            return self._of_waiting(node, node.operator, below[0])
        if isinstance(node.operator, Slices):
            marks = _of_copies(below[0].times, _shown(node).items())
            length_ms = node.operator.length_ms
            times = {column: replace(mark, slice_ms=length_ms) for column, mark in marks.items()}
            return replace(STATIC, is_stream=True, times=times)
        keys = _shown(node) if isinstance(node.operator, Aggregation) else {}
        spans = _of_copies(below[0].spans, keys.items())
        name = OF_WINDOWS if spans else name
        key = _key_of_operator(node, [each.key for each in below])
        if isinstance(node.operator, (WindowJoin, WindowTotals)):
            whole = frozenset[Column]().union(*(each.millisecond_columns for each in below))
            return replace(STATIC, is_stream=True, key=key, millisecond_columns=whole & {*columns_of(node)})
        return replace(
            STATIC,
            spans=spans,
            millisecond_columns=frozenset(
                keys[each] for each in below[0].millisecond_columns if each in keys
            ),
            is_stream=any(each.is_stream for each in below),
            changelog=Changelog.APPEND if is_append else node.changelog,
            changed="" if is_append else name,
            key=key,
            is_pairs=not is_append
            and key is not None
            and _distributed_by(node) <= key
            and not _adds_rows(node),
        )

    def _of_waiting(self, node: nodes.Stateful, operator: OverRows | SessionRows, below: Traits) -> Traits:
        """Return the traits of rows that have waited for the watermark; see `native.watermark_behind`."""
        keeps_time = _keeps_rows(node.inputs[0].node)
        found = replace(STATIC, is_stream=True, key=_key_of_operator(node, [below.key]))
        if isinstance(operator, SessionRows):
            stop = dict(node.columns)[END_OF]
            is_known = keeps_time and operator.delay_ms > 0
            mark = Mark(stop.id, operator.delay_ms)
            return replace(found, times={stop: mark}, windows={stop: "end"}) if is_known else found
        time = _shown(node).get(dict(node.inputs[0].columns)[operator.time])
        if time is None or not keeps_time:
            return found
        return replace(found, times={time: Mark(time.id, operator.delay_ms, waits=not operator.delay_ms)})

    def _of_marked(self, node: nodes.MarkedWindows) -> Traits:
        below = self(node.input)
        parts = {**dict.fromkeys(node.ends, "end"), **dict.fromkeys(node.times, "time")}
        if node.struct is not None:
            parts[node.struct] = "struct"
        times = {each: Mark(each.id, 0) for each in (*node.ends, *node.times)[:1]}
        key = below.key
        if key is not None and node.window in key:  # the end of a window stands for it
            key = key - {node.window} | {*times} if times else None
        return replace(below, times=times, windows=parts, key=key)


def _keeps_rows(node: Node) -> bool:
    """Return whether all rows that the watermark has followed are there."""
    return isinstance(node_below(node, nodes.Project), nodes.Watermark)


OF_WINDOWS = "WindowAggregate"
"""The name of groups of windows of rows that change."""
_JOINS = {"semi": "LeftSemiJoin", "anti": "LeftAntiJoin"}
_NAMES = {
    "Aggregation": "GroupAggregate",
    "Deduplication": "Deduplicate",
    "Top": "Rank",
    "RegularJoin": "Join",
    "Normalization": "ChangelogNormalize",
    "KeptValues": "KeepValues",
}


def _of_scan(node: nodes.Scan) -> Traits:
    source = node.source
    by_name = {each.name.lower(): each for each in node.columns}
    key = [by_name.get(name.lower()) for name in source.keys]
    known = frozenset(each for each in key if each is not None)
    offsets = tuple(by_name[name] for name in OFFSETS if name in by_name)
    return replace(
        STATIC,
        is_stream=source.is_stream,
        changelog=source.changelog,
        changed=source.changed_by,
        key=known if known and len(known) == len(source.keys) else None,
        offsets=(offsets[0], offsets[1]) if len(offsets) == len(OFFSETS) else None,
    )


def _of_both(left: Traits, right: Traits) -> Traits:
    """Return what is known of rows of two sides together."""
    return replace(
        STATIC,
        is_stream=left.is_stream or right.is_stream,
        changelog=left.changelog if left.changes else right.changelog,
        changed=left.changed or right.changed,
    )


def _shown(node: nodes.Stateful, number: int = 0) -> dict[Column, Column]:
    """Return the columns of an input that an operator shows, each with its own one."""
    outputs = dict(node.columns)
    return {column: outputs[label] for label, column in node.inputs[number].columns if label in outputs}


def _copies_in(outputs: Iterable[Assignment]) -> list[tuple[Column, Column]]:
    return [(each.expression, each.column) for each in outputs if isinstance(each.expression, Column)]


def _of_copies(known: Mapping[Column, V], copied: Iterable[tuple[Column, Column]]) -> dict[Column, V]:
    """Return what is known of columns for their copies."""
    return {new: known[old] for old, new in copied if old in known}


def _windows_of_join(node: nodes.Join, left: Traits, right: Traits) -> dict[Column, str]:
    """Return the windows that each row has. Spark would keep a group whose window is NULL for ever."""
    lefts = left.windows if node.kind not in nodes.PADS_LEFT else {}
    rights = right.windows if node.kind not in nodes.PADS_RIGHT else {}
    return {**lefts, **rights}


def _mixed(times: Mapping[Column, Mark]) -> dict[Column, Mark]:
    return {column: replace(mark, is_mixed=True) for column, mark in times.items()}


def _only(below: Traits, *, key: Key | None = None, windows: Mapping[Column, str] | None = None) -> Traits:
    """Return the traits of rows that have lost their times, offsets and pairs."""
    return replace(
        below,
        key=key,
        times={},
        changing_time=None,
        windows=windows or {},
        spans={},
        millisecond_columns=frozenset(),
        offsets=None,
        is_pairs=False,
    )


def _renamed(below: Traits, names: Mapping[Column, Column]) -> Traits:
    """Return the traits of rows of which some columns are others."""

    def of(column: Column) -> Column:
        return names.get(column, column)

    return replace(
        below,
        key=None if below.key is None else frozenset(map(of, below.key)),
        windows={of(column): part for column, part in below.windows.items()},
        spans={of(column): kind for column, kind in below.spans.items()},
        times={of(column): delay for column, delay in below.times.items()},
    )


def _projected(below: Traits, node: nodes.Project) -> Traits:
    """Return the traits behind a projection."""
    copied = _copies_in(node.outputs)
    kept = dict(reversed(copied))  # the first copy of each
    windows = _of_copies(below.windows, copied)
    for each in node.outputs:
        value = each.expression
        if not isinstance(value, Call):
            continue
        if value.name in _PARTS and below.part_of_window(value.args[0]) == "struct":
            windows[each.column] = _PARTS[value.name]
        if _is_made_window(value) and below.part_of_window(value.args[1]) == "end":
            windows[each.column] = "struct"
    time, offsets = below.changing_time, below.offsets
    return replace(
        below,
        key=_projected_key(below.key, {**_of_windows(node, below.spans), **_in_windows(node), **kept}),
        spans={**_of_copies(below.spans, copied), **_spans_made(node, below.spans)},
        millisecond_columns=frozenset(kept[each] for each in below.millisecond_columns if each in kept)
        | _whole_ms(node, below.spans),
        times=_of_copies(below.times, copied),
        changing_time=(kept[time[0]], time[1]) if time is not None and time[0] in kept else None,
        windows=windows,
        offsets=(
            (kept[offsets[0]], kept[offsets[1]])
            if offsets is not None and all(each in kept for each in offsets)
            else None
        ),
    )


def _is_always_0(value: Expression) -> bool:
    return isinstance(value, Call) and value.name == ALWAYS_0


def _is_made_window(value: Expression) -> bool:
    return isinstance(value, Call) and value.name == MADE_WINDOW


def _part_and_window(value: Expression) -> tuple[str, Column] | None:
    """Return the part of a window that a value is, and the window; None for another value."""
    if isinstance(value, Call) and value.name in _PARTS and isinstance(value.args[0], Column):
        return _PARTS[value.name], value.args[0]
    return None


def _spans_made(node: nodes.Project, spans: Mapping[Column, str]) -> dict[Column, str]:
    """Return the kinds of windows that are made of their bounds, and of these bounds."""
    return {
        each.column: spans.get(part, "SESSION")
        for each in node.outputs
        if isinstance(each.expression, Call) and each.expression.name in (MADE_WINDOW, WINDOW_BOUND)
        if isinstance(part := each.expression.args[-1], Column)
    }


def _in_windows(node: nodes.Project) -> dict[Column, Column]:
    """Return the bounds of which windows are made, each with its window."""
    return {
        bound: each.column
        for each in node.outputs
        if isinstance(each.expression, Call) and each.expression.name == MADE_WINDOW
        for bound in each.expression.args
        if isinstance(bound, Column)
    }


def _whole_ms(node: nodes.Project, spans: Mapping[Column, str]) -> frozenset[Column]:
    """Return the columns that are starts or ends of windows. A session begins at the time of a row."""
    found = ((each.column, _part_and_window(each.expression)) for each in node.outputs)
    return frozenset(
        column for column, part in found if part is not None and spans.get(part[1], "SESSION") != "SESSION"
    )


def _of_windows(node: nodes.Project, spans: Mapping[Column, str]) -> dict[Column, Column]:
    """Return a column that stands for each window: its end or its start. CUMULATE has equal starts."""
    found: dict[Column, Column] = {}
    for each in node.outputs:
        part = _part_and_window(each.expression)
        if part is not None and part[1] in spans and (part[0] == "end" or spans[part[1]] != "CUMULATE"):
            found.setdefault(part[1], each.column)
    return found


def _projected_key(key: Key | None, kept: Mapping[Column, Column]) -> Key | None:
    return (
        None
        if key is None or not all(each in kept for each in key)
        else frozenset(kept[each] for each in key)
    )


def _key_of_operator(node: nodes.Stateful, keys: list[Key | None]) -> Key | None:
    """Return the columns by which the rows of an operator differ."""
    outputs = dict(node.columns)
    operator = node.operator
    if isinstance(operator, Aggregation):
        found = [outputs[label] for label in operator.keys if label in outputs]
        if len(operator.keys) == 1 and not found:
            return frozenset()  # all rows are one group
        return frozenset(found) if len(found) == len(operator.keys) else None
    if isinstance(operator, (RegularJoin, WindowJoin)):
        return _key_of_regular_join(node, operator, keys)
    if isinstance(operator, MultiJoin):
        return _key_of_multi_join(node, operator, keys)
    shown = _shown(node)
    if isinstance(operator, (Deduplication, Top)):
        group = _shown_key(operator.keys, node.inputs[0], shown)
        if isinstance(operator, Deduplication):
            return group
        if operator.count == operator.skipped + 1 and group is not None:
            return group
        if operator.rank is not None and operator.rank in outputs:
            return None if group is None else group | {outputs[operator.rank]}
    return _projected_key(keys[0], shown)


def _distributed_by(node: nodes.Stateful) -> Key:
    """Return the columns of the first input that say which task a row of the operator is in."""
    operator, inputs = node.operator, dict(node.inputs[0].columns)
    labels = (
        [one for one, _ in operator.on]
        if isinstance(operator, RegularJoin)
        else getattr(operator, "keys", ())
    )
    outputs, shown = dict(node.columns), _shown(node)
    found = (outputs.get(label) or shown.get(inputs[label], inputs[label]) for label in labels)
    return frozenset(each for each in found if each not in _constants(node.inputs[0].node))


def _adds_rows(node: nodes.Stateful) -> bool:
    """Return whether a join gives rows of its right side alone, which have no key of the left one."""
    return isinstance(node.operator, RegularJoin) and node.operator.how in ("right", "full")


def _constants(node: Node) -> frozenset[Column]:
    """Return the columns of a projection that have one value."""
    if not isinstance(node, nodes.Project):
        return frozenset()
    return frozenset(each.column for each in node.outputs if isinstance(each.expression, Literal))


def _shown_key(labels: tuple[str, ...], rows: Input, shown: Mapping[Column, Column]) -> Key | None:
    """Return the columns that stand for labels of an input. A constant needs none."""
    inputs, constants = dict(rows.columns), _constants(rows.node)
    found = [shown.get(inputs[label]) for label in labels if inputs[label] not in constants]
    known = frozenset(each for each in found if each is not None)
    return None if None in found else known


def _key_of_regular_join(
    node: nodes.Stateful, operator: RegularJoin | WindowJoin, keys: list[Key | None]
) -> Key | None:
    lefts, rights = (dict(each.columns) for each in node.inputs)
    left, right = (_projected_key(key, _shown(node, number)) for number, key in enumerate(keys))
    if operator.how in ("semi", "anti"):
        return left
    ones = {lefts[label] for label, _ in operator.on}
    others = {rights[label] for _, label in operator.on}
    if left is not None and keys[1] is not None and keys[1] <= others and operator.how in ("inner", "left"):
        return left
    if right is not None and keys[0] is not None and keys[0] <= ones and operator.how in ("inner", "right"):
        return right
    return left | right if left is not None and right is not None else None


def _key_of_multi_join(node: nodes.Stateful, operator: MultiJoin, keys: list[Key | None]) -> Key | None:
    """Return the keys of the inputs that may have several rows with the values of the join."""
    ones: list[Key | None] = []
    several: list[Key | None] = []
    for number, (given, key) in enumerate(zip(node.inputs, keys, strict=True)):
        if key is None:
            return None
        columns = dict(given.columns)
        is_one = key <= {columns[labels[number]] for labels in operator.on}
        (ones if is_one else several).append(_projected_key(key, _shown(node, number)))
    found = [each for each in several if each is not None]
    if several:
        return frozenset().union(*found) if len(found) == len(several) else None
    return next((each for each in ones if each is not None), None)


ALWAYS_0 = "always_0"
"""The name of the call of a key that is always 0. Spark's optimizer does not recognise it."""
_PARTS = {"window_end": "end", "window_time": "time", "window_start": "start"}


def _key_of_join(node: nodes.Join, left: Key | None, right: Key | None) -> Key | None:
    """Return the columns by which the pairs differ."""
    lefts, rights = {*columns_of(node.left)}, {*columns_of(node.right)}
    ones: set[Column] = set()
    others: set[Column] = set()
    for each in node.conditions:
        if isinstance(each, Call) and each.name == "=" and all(isinstance(one, Column) for one in each.args):
            if spark_text(each.args[0].type) != spark_text(each.args[1].type):
                continue  # a cast of the comparison may make two keys equal
            for one in each.args:
                assert isinstance(one, Column)  # noqa: S101 - asked above
                (ones if one in lefts else others if one in rights else set()).add(one)
    if left is None or right is None:
        return None
    if right <= others and node.kind in (JoinKind.INNER, JoinKind.LEFT):
        return left
    if left <= ones and node.kind in (JoinKind.INNER, JoinKind.RIGHT):
        return right
    return left | right
