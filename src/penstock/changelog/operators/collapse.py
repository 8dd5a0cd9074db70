"""`collapse`: at most the net change of each key, or of each row, in a batch.

Runs on executors; made on the driver. Invariant: the table after a batch is the same with and without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, Operator, Step, check_collisions
from penstock.changelog.operators.ordering import groups_of, same_as_before
from penstock.changelog.row_kinds import (
    DELETE,
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    kind_column,
    signs_of,
)
from penstock.state.columns import Integers, equal_columns, hash_columns, hash_values


def net_of_keys(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the change of each key from before the batch to after it.

    A key that comes and goes vanishes, and so does an update to an equal row. Each -U is directly before its
    +U. All -D come first and all +I last, because a target may have a part of the keys as its key.

    Args:
        rows: a correct changelog in which the rows of each key are in order, with its kinds.
        keys: of the rows. Each has at most one row at a time.
    """
    if rows.num_rows == 0:
        return rows
    groups, _ = groups_of(hash_columns(rows, keys))
    order = np.argsort(groups, kind="stable")
    same = same_as_before([groups[order]])
    check_collisions(rows.take(pa.array(order)), keys, same)
    starts = np.flatnonzero(~same)
    first, last = order[starts], order[np.append(starts[1:], len(order)) - 1]
    signs = signs_of(rows)
    was, is_there = signs[first] < 0, signs[last] > 0
    names = [name for name in rows.column_names if name != ROW_KIND]
    old, new = rows.take(pa.array(first)), rows.take(pa.array(last))
    updated = was & is_there & ~equal_columns(old, new, names)
    gone, come = first[was & ~is_there], last[~was & is_there]
    both = np.stack([first[updated], last[updated]], axis=1)
    both = both[np.argsort(both[:, 1], kind="stable")].reshape(-1)
    kinds = np.concatenate(
        [
            np.full(len(gone), DELETE),
            np.tile([UPDATE_BEFORE, UPDATE_AFTER], len(both) // 2),
            np.full(len(come), INSERT),
        ]
    )
    return _with_kinds(rows, np.concatenate([np.sort(gone), both, np.sort(come)]), kinds)


def net_of_rows(rows: pa.Table) -> pa.Table:
    """Return how often each row comes or goes, for a changelog without a key. All -D are before all +I."""
    if rows.num_rows == 0:
        return rows
    values = rows.drop_columns([ROW_KIND])
    groups, _ = groups_of(hash_values(values))
    signs = signs_of(rows)
    net = np.zeros(int(groups.max()) + 1, np.int64)
    np.add.at(net, groups, signs)
    gone = _last(groups, signs < 0, np.maximum(-net, 0))
    come = _last(groups, signs > 0, np.maximum(net, 0))
    kinds = np.repeat([DELETE, INSERT], [len(gone), len(come)])
    return _with_kinds(rows, np.concatenate([gone, come]), kinds)


def _last(groups: Integers, wanted: np.ndarray, counts: Integers) -> Integers:
    """Return the indices of the last rows of each group among those that are wanted, as many as it counts."""
    indices = np.flatnonzero(wanted)[::-1]
    order = np.argsort(groups[indices], kind="stable")
    ordered = groups[indices][order]
    starts = np.flatnonzero(~same_as_before([ordered])) if len(ordered) else np.empty(0, np.int64)
    sizes = np.diff(np.append(starts, len(ordered)))
    within = np.arange(len(ordered)) - np.repeat(starts, sizes)
    return np.sort(indices[order][within < counts[ordered]])


def _with_kinds(rows: pa.Table, indices: Integers, kinds: np.ndarray) -> pa.Table:
    taken = rows.take(pa.array(indices, pa.int64()))
    at = rows.schema.get_field_index(ROW_KIND)
    return taken.set_column(at, rows.schema.field(at), kind_column(kinds.astype(np.int8)))


@dataclass(frozen=True)
class NetChange:
    """An operator whose output is the net change of each batch. It keeps what the operator keeps.

    Attributes:
        operator: the function.
        unique: columns of the output of which each value has at most one row; None without such columns.
    """

    operator: Operator
    unique: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def version(self) -> int:
        return self.operator.version

    @property
    def keys(self) -> Sequence[str]:
        return self.operator.keys

    @property
    def arguments(self) -> str:
        return self.operator.arguments  # without `collapse`, which keeps nothing

    @property
    def kept_columns(self) -> pa.Schema:
        return self.operator.kept_columns

    @property
    def out_columns(self) -> pa.Schema:
        return self.operator.out_columns

    @property
    def has_parts(self) -> bool:
        return self.operator.has_parts

    @property
    def remembers_deleted(self) -> bool:
        return self.operator.remembers_deleted

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        step = self.operator.step(batch, find, now_ms)
        out = net_of_rows(step.out) if self.unique is None else net_of_keys(step.out, self.unique)
        return Step(out, step.kept)


def collapsed(operator: Operator, unique: Sequence[str] | None, *, collapse: bool) -> Operator:
    """Return the operator, with the net change of each batch as its output if `collapse` is set."""
    return NetChange(operator, None if unique is None else tuple(unique)) if collapse else operator
