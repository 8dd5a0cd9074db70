"""`aggregate`: count, sum, avg, min, max and count distinct of a changelog, with retraction.

Runs on executors; made on the driver. Invariant: downstream has for each group that has rows exactly one row,
the aggregates of the rows that are there now; each -U and -D is the row that was emitted before it.

It keeps, for each group: the number of rows, the sums and counts of columns. For min, max and count distinct
also each value of the column with the number of times that it is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.changelog.operators.base import Find, Step, collision
from penstock.changelog.operators.ordering import groups_of, rank
from penstock.changelog.operators.sums import add_groups, sum_type
from penstock.changelog.row_kinds import (
    DELETE,
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    kind_column,
    signs_of,
)
from penstock.errors import RowError, SchemaError
from penstock.state.columns import (
    Hashes,
    Mask,
    Places,
    equal_columns,
    hash_columns,
    keys_of,
    one_array,
    parts_of,
    state_rows,
)

_SLOT, _COUNT = "#slot", "#count"
_SUM, _VALID, _VALUE = "#sum ", "#valid ", "#value "
_GROUP_ROW = -1
FUNCTIONS = ("count", "sum", "avg", "min", "max", "count_distinct")


@dataclass(frozen=True)
class Call:
    """One aggregate: its name in the output, the function, and the column (None for `count` of rows)."""

    name: str
    function: str
    column: str | None


@dataclass(frozen=True)
class Aggregate:
    """The operator.

    Attributes:
        columns: of the input, without `row_kind`.
        keys: the columns of the group.
        calls: the aggregates.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    calls: tuple[Call, ...]
    name: str = "aggregate"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        """Return the arguments that decide what it keeps."""
        calls = [(call.name, call.function, call.column) for call in self.calls]
        return json.dumps({"keys": self.keys, "calls": calls})

    @property
    def kept_columns(self) -> pa.Schema:
        """Return the columns that it keeps."""
        fields = [self.columns.field(name).with_nullable(True) for name in self.keys]
        fields += [pa.field(_SLOT, pa.int32()), pa.field(_COUNT, pa.int64())]
        for name in self._summed():
            fields.append(pa.field(_SUM + name, sum_type(self.columns.field(name).type)))
        fields += [pa.field(_VALID + name, pa.int64()) for name in self._counted()]
        fields += [pa.field(_VALUE + name, self.columns.field(name).type) for name in self._valued()]
        return pa.schema(fields)

    @property
    def out_columns(self) -> pa.Schema:
        """Return the columns of the output."""
        keys = [self.columns.field(name) for name in self.keys]
        calls = [pa.field(call.name, self._type(call)) for call in self.calls]
        return pa.schema([*keys, *calls, pa.field(ROW_KIND, pa.string(), nullable=False)])

    def _type(self, call: Call) -> pa.DataType:
        if call.column is None or call.function.startswith("count"):
            return pa.int64()
        kind = self.columns.field(call.column).type
        if call.function in ("min", "max"):
            return kind
        if call.function == "sum":
            is_decimal = kinds.is_decimal(kind)
            return pa.decimal128(min(38, kind.precision + 10), kind.scale) if is_decimal else sum_type(kind)
        if kinds.is_decimal(kind):
            raise SchemaError(
                f"avg of a decimal is not exact ({call.name}). Divide its sum by its count, or cast the "
                "column to DOUBLE.",
                column=call.column,
            )
        return pa.float64()

    def _named(self, *functions: str) -> list[str]:
        found = (call.column for call in self.calls if call.function in functions and call.column is not None)
        return sorted(set(found))

    def _summed(self) -> list[str]:
        return self._named("sum", "avg")

    def _counted(self) -> list[str]:
        return self._named("sum", "avg", "count")

    def _valued(self) -> list[str]:
        return self._named("min", "max", "count_distinct")

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        hashes = hash_columns(batch, self.keys)
        groups, keys = groups_of(hashes)
        kept = find(keys)
        slots = one_array(kept.column(_SLOT)).to_numpy()
        is_group = slots == _GROUP_ROW
        signs = signs_of(batch)
        old = self._old_groups(kept.filter(pa.array(is_group)), batch, groups, keys)
        new = self._new_groups(old, batch, signs, groups)
        values = [
            _Values.of(kept, slots, slot, name, batch, signs, groups, keys)
            for slot, name in enumerate(self._valued())
        ]
        was, is_there = (one_array(each.column(_COUNT)).to_numpy() for each in (old, new))
        if np.any(is_there < 0) or any(np.any(each.after < 0) for each in values):
            raise RowError(
                "A -U or -D takes away a row that is not there. Nothing of this batch was written. The input "
                "is not a correct changelog: put `normalize` before this operator."
            )
        before, after = self._results(old, values, "before"), self._results(new, values, "after")
        out = self._out(before, after, was > 0, is_there > 0)
        return Step(out, self._kept(new, is_there == 0, keys, values, now_ms))

    def _old_groups(self, kept: pa.Table, batch: pa.Table, groups: Places, keys: Hashes) -> pa.Table:
        """Return the row of each group before the batch; zeros for a new one."""
        found = keys_of(kept)
        place = np.full(len(keys), -1, np.int64)
        number = _numbers(found, keys)
        place[number] = np.arange(kept.num_rows)
        first = np.empty(len(keys), np.int64)
        first[groups[::-1]] = np.arange(len(groups))[::-1]
        of_group = batch.select(list(self.keys)).cast(pa.schema(list(self.kept_columns)[: len(self.keys)]))
        own = of_group.take(pa.array(first))
        _check_keys(own.take(pa.array(groups)), of_group, self.keys)
        _check_keys(own.take(pa.array(number)), kept.select(list(self.keys)), self.keys)
        rows = kept.select(self.kept_columns.names).take(pa.array(place, mask=place < 0))
        for index, name in enumerate(self.keys):
            rows = rows.set_column(index, rows.schema.field(index), own.column(name))
        zeros = [
            _COUNT,
            *(_SUM + name for name in self._summed()),
            *(_VALID + name for name in self._counted()),
        ]
        for name in zeros:
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), pc.fill_null(rows.column(name), 0))
        slot = rows.schema.get_field_index(_SLOT)
        return rows.set_column(slot, rows.schema.field(slot), pa.array([_GROUP_ROW] * len(keys), pa.int32()))

    def _new_groups(self, old: pa.Table, batch: pa.Table, signs: Places, groups: Places) -> pa.Table:
        """Return the row of each group after the batch."""
        rows = _with_added(old, _COUNT, signs, groups)
        for name in self._counted():
            valid = pc.is_valid(one_array(batch.column(name))).to_numpy(zero_copy_only=False)
            rows = _with_added(rows, _VALID + name, signs * valid, groups)
        for name in self._summed():
            at = rows.schema.get_field_index(_SUM + name)
            sums = add_groups(one_array(rows.column(at)), one_array(batch.column(name)), signs, groups)
            rows = rows.set_column(at, rows.schema.field(at), sums)
        return rows

    def _results(self, rows: pa.Table, values: list[_Values], when: str) -> pa.Table:
        """Return the keys and aggregates of each group."""
        found = [rows.column(name) for name in self.keys]
        slots = {name: values[slot] for slot, name in enumerate(self._valued())}
        for call in self.calls:
            if call.column is None:
                result = rows.column(_COUNT)
            elif call.function == "count":
                result = rows.column(_VALID + call.column)
            elif call.function in ("sum", "avg"):
                result = _sum_or_avg(call, rows)
            else:
                counts = slots[call.column].before if when == "before" else slots[call.column].after
                result = slots[call.column].result(call.function, counts, rows.num_rows)
            found.append(result.cast(self._type(call)))
        return pa.Table.from_arrays(found, schema=pa.schema(list(self.out_columns)[:-1]))

    def _out(self, before: pa.Table, after: pa.Table, was: Mask, is_there: Mask) -> pa.Table:
        """Return the changes of the groups."""
        equal = equal_columns(before, after, [call.name for call in self.calls])
        removed, inserted = was & ~is_there, ~was & is_there
        updated = was & is_there & ~equal
        gone, come = np.flatnonzero(removed | updated), np.flatnonzero(inserted | updated)
        rows = pa.concat_tables([before.take(pa.array(gone)), after.take(pa.array(come))])
        kinds_ = np.concatenate(
            [np.where(updated[gone], UPDATE_BEFORE, DELETE), np.where(updated[come], UPDATE_AFTER, INSERT)]
        ).astype(np.int8)
        order = np.argsort(np.concatenate([gone, come]), kind="stable")
        out = rows.take(pa.array(order)).append_column(ROW_KIND, kind_column(kinds_[order]))
        return out.cast(self.out_columns)

    def _kept(
        self, groups: pa.Table, is_empty: Mask, keys: Hashes, values: list[_Values], now_ms: int
    ) -> pa.Table:
        zeros = np.zeros(len(keys), np.uint64)
        tables, hashes = [groups.cast(self.kept_columns)], [keys]
        parts, deleted = [Hashes(zeros, zeros)], [is_empty]
        for slot, (name, each) in enumerate(zip(self._valued(), values, strict=True)):
            changed = np.flatnonzero(each.before != each.after)
            of_group = groups.select(list(self.keys)).take(pa.array(each.groups[changed]))
            tables.append(self._value_rows(of_group, slot, name, each, changed))
            hashes.append(keys.take(each.groups[changed]))
            parts.append(each.parts.take(changed))
            deleted.append(each.after[changed] == 0)
        rows = pa.concat_tables(tables)
        return state_rows(
            rows, Hashes.joined(*hashes), np.concatenate(deleted), now_ms, Hashes.joined(*parts)
        )

    def _value_rows(self, keys: pa.Table, slot: int, name: str, each: _Values, changed: Places) -> pa.Table:
        columns = {key: keys.column(key) for key in self.keys}
        columns[_SLOT] = pa.array([slot] * len(changed), pa.int32())
        columns[_COUNT] = pa.array(each.after[changed])
        columns[_VALUE + name] = each.values.take(pa.array(changed))
        arrays = [columns.get(field.name, pa.nulls(len(changed), field.type)) for field in self.kept_columns]
        return pa.Table.from_arrays(arrays, schema=self.kept_columns)


@dataclass(frozen=True)
class _Values:
    """The values of one column in all groups of a batch, sorted by group and value, each once."""

    groups: Places
    values: pa.Array
    parts: Hashes
    before: Places
    after: Places

    @classmethod
    def of(
        cls,
        kept: pa.Table,
        slots: np.ndarray,
        slot: int,
        name: str,
        batch: pa.Table,
        signs: Places,
        groups: Places,
        keys: Hashes,
    ) -> _Values:
        """Return the values that were kept and those of the batch, with their counts."""
        old = kept.filter(pa.array(slots == slot))
        is_valid = pc.is_valid(one_array(batch.column(name))).to_numpy(zero_copy_only=False)
        new = one_array(batch.column(name)).filter(pa.array(is_valid))
        hashes = hash_columns(
            pa.table({"slot": pa.array([slot] * len(new), pa.int32()), "value": new}), ["slot", "value"]
        )
        values = pa.concat_arrays([one_array(old.column(_VALUE + name)), new])
        parts = Hashes.joined(parts_of(old), hashes)
        numbers = np.concatenate([_numbers(keys_of(old), keys), groups[is_valid]])
        before = np.concatenate([one_array(old.column(_COUNT)).to_numpy(), np.zeros(len(new), np.int64)])
        change = np.concatenate([np.zeros(old.num_rows, np.int64), signs[is_valid]])
        order = np.lexsort((parts.low, parts.high, rank(values), numbers))
        ascending = parts.take(order)
        starts = ascending.starts()
        starts[1:] |= numbers[order][1:] != numbers[order][:-1]
        firsts = np.flatnonzero(starts)
        before, change = (
            np.add.reduceat(each[order], firsts) if len(firsts) else each for each in (before, change)
        )
        at = order[firsts]
        return cls(numbers[at], values.take(pa.array(at)), parts.take(at), before, before + change)

    def result(self, function: str, counts: Places, group_count: int) -> pa.Array:
        """Return min, max or the number of different values of each group."""
        there = np.flatnonzero(counts > 0)
        groups = self.groups[there]
        if function == "count_distinct":
            return pa.array(np.bincount(groups, minlength=group_count))
        place = np.full(group_count, -1, np.int64)
        if function == "min":
            groups, there = groups[::-1], there[::-1]
        place[groups] = there  # the last one stays
        return self.values.take(pa.array(place, mask=place < 0))


def _sum_or_avg(call: Call, rows: pa.Table) -> pa.Array:
    sums, counts = rows.column(f"{_SUM}{call.column}"), rows.column(f"{_VALID}{call.column}")
    some = pc.greater(counts, 0)
    if call.function == "sum":
        return pc.if_else(some, sums, None)
    return pc.divide(sums.cast(pa.float64(), safe=False), pc.if_else(some, counts, None).cast(pa.float64()))


def _check_keys(one: pa.Table, other: pa.Table, keys: Sequence[str]) -> None:
    """Raise StateError if two rows have the same hash of the key, and different keys."""
    if not equal_columns(one, other, keys).all():
        raise collision(keys)


def _with_added(rows: pa.Table, name: str, signs: Places, groups: Places) -> pa.Table:
    at = rows.schema.get_field_index(name)
    counts = one_array(rows.column(at)).to_numpy(zero_copy_only=False).copy()
    np.add.at(counts, groups, signs)
    return rows.set_column(at, rows.schema.field(at), pa.array(counts))


def _numbers(found: Hashes, keys: Hashes) -> Places:
    """Return the number of the group of each hash. `keys` ascends and has all of them."""
    both = Hashes.joined(keys, found)
    groups, _ = groups_of(both)
    return groups[len(keys) :]


def parse_calls(given: Mapping[str, str]) -> Iterator[Call]:
    """Yield the aggregates of `{"total": "sum(amount)", "n": "count(*)"}`.

    Raises:
        ValueError: an aggregate is not one of FUNCTIONS of a column.
    """
    for name, text in given.items():
        function, opened, rest = text.strip().partition("(")
        function, column = function.strip().lower(), rest.removesuffix(")").strip()
        if function == "count" and column.lower().startswith("distinct "):
            function, column = "count_distinct", column[9:].strip()
        is_call = bool(opened) and rest.endswith(")") and bool(column) and function in FUNCTIONS
        if not is_call or (column == "*" and function != "count"):
            raise ValueError(
                f"expected one of {', '.join(FUNCTIONS)} of a column, such as sum(amount); got {text!r}"
            )
        yield Call(name, function, None if column == "*" else column)
