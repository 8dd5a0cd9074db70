"""`aggregate`: count, sum, avg, min, max, distinct values, first, last and listagg with retraction.

Runs on executors; made on the driver. Invariant: downstream has for each group that has rows exactly one row,
the aggregates of the rows that are there now; each -U and -D is the row that was emitted before it.

It keeps, for each group: the number of rows, the sums and counts of columns. For other aggregates also each
value of the column with the number of times that it is there (`values.py`). With a time to live a group is
forgotten as a whole (`_forgotten_groups.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.changelog.operators._forgotten_groups import rows_that_count
from penstock.changelog.operators.base import Find, Step, collision, missing_row
from penstock.changelog.operators.calls import ARRIVED, Call
from penstock.changelog.operators.ordering import groups_of
from penstock.changelog.operators.sums import (
    SPECIALS,
    add_groups,
    overflow,
    specials_in,
    sum_type,
    with_specials,
)
from penstock.changelog.operators.values import Slot, Values, numbers_of, one_zero, values_of
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
    Integers,
    Mask,
    equal_columns,
    hash_columns,
    keys_of,
    one_array,
    state_rows,
    state_schema,
)

_SLOT, _COUNT = "#slot", "#count"
_SUM, _VALID = "#sum ", "#valid "
_GROUP_ROW = -1


@dataclass(frozen=True)
class Aggregate:
    """The operator.

    Attributes:
        columns: of the input, without `row_kind`.
        keys: the columns of the group.
        calls: the aggregates.
        forgets: whether groups have a time to live. Then each group of a batch gives rows, also if they are
            equal, so that operators behind it do not forget what is still there.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    calls: tuple[Call, ...]
    forgets: bool = False
    name: str = "aggregate"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def arguments(self) -> str:
        """Return the arguments that decide what it keeps."""
        calls = [
            (call.name, call.function, call.column, call.order, call.separator)
            if call.function == "listagg"
            else (call.name, call.function, call.column, *([call.order] if call.order else []))
            for call in self.calls
        ]
        return json.dumps({"keys": self.keys, "calls": calls})

    @property
    def kept_columns(self) -> pa.Schema:
        """Return the columns that it keeps."""
        fields = [self.columns.field(name).with_nullable(True) for name in self.keys]
        fields += [pa.field(_SLOT, pa.int32()), pa.field(_COUNT, pa.int64())]
        for name in self._summed():
            fields.append(pa.field(_SUM + name, sum_type(self.columns.field(name).type)))
        fields += [pa.field(_VALID + name, pa.int64()) for name in self._counted()]
        fields += [pa.field(special + name, pa.int64()) for name in self._floats() for special in SPECIALS]
        valued = {name: kind for slot in self._slots() for name, kind in slot.fields(self.columns).items()}
        return pa.schema([*fields, *(pa.field(name, kind) for name, kind in valued.items())])

    @property
    def out_columns(self) -> pa.Schema:
        keys = [self.columns.field(name) for name in self.keys]
        calls = [pa.field(call.name, self._type(call)) for call in self.calls]
        return pa.schema([*keys, *calls, pa.field(ROW_KIND, pa.string(), nullable=False)])

    def _type(self, call: Call) -> pa.DataType:
        if call.column is None or call.function.startswith("count"):
            return pa.int64()
        kind = self.columns.field(call.column).type
        if call.function in ("min", "max", "first", "last", *ARRIVED):
            return kind
        if call.function == "listagg":
            if not (kinds.is_string(kind) or kinds.is_large_string(kind)):
                raise SchemaError(
                    f"Expected a STRING for listagg, got {kind} ({call.name}). Cast it.", column=call.column
                )
            return pa.string()
        if call.function.startswith("sum"):
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

    def _floats(self) -> list[str]:
        return [name for name in self._summed() if kinds.is_floating(self.columns.field(name).type)]

    def _slots(self) -> list[Slot]:
        """Return the columns whose values are kept. Those of 0.1.0 come first, in its order."""
        valued = self._named("min", "max", "count_distinct", "sum_distinct")
        plain: list[tuple[str, str | None, str | None]] = [(name, None, None) for name in valued]
        others = {
            _of_slot(call)
            for call in self.calls
            if call.function in ("first", "last", *ARRIVED, "listagg") and call.column is not None
        }
        more = sorted(others - set(plain), key=lambda each: (each[2] or "", each[0], each[1] or ""))
        return [Slot(number, *each) for number, each in enumerate([*plain, *more])]

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        hashes = hash_columns(batch, self.keys)
        groups, keys = groups_of(hashes)
        kept = find(keys)
        slots = one_array(kept.column(_SLOT)).to_numpy()
        is_group = slots == _GROUP_ROW
        signs = signs_of(batch)
        self._check_arrived(signs)
        if self.forgets:
            stays = rows_that_count(batch, signs, hashes, keys_of(kept))
            batch, signs, hashes = batch.filter(pa.array(stays)), signs[stays], hashes.take(stays)
            if not len(signs):
                return Step(self.out_columns.empty_table(), state_schema(self.kept_columns).empty_table())
            groups, keys = groups_of(hashes)
        old = self._old_groups(kept.filter(pa.array(is_group)), batch, groups, keys)
        new = self._new_groups(old, batch, signs, groups)
        values = [
            values_of(slot, kept.filter(pa.array(slots == slot.number)), batch, signs, groups, keys)
            for slot in self._slots()
        ]
        if self.forgets:
            new, values = self._from_nothing(new, values)
        was, is_there = (one_array(each.column(_COUNT)).to_numpy() for each in (old, new))
        counts = [
            is_there,
            *(each.after for each in values),
            *(_numbers(new, name) for name in self._counts()),
        ]
        if any(np.any(each < 0) for each in counts):
            raise missing_row()
        if not self.forgets:
            values = [_without(each, is_there == 0) for each in values]
            self._check_values(new, values)
        before, after = self._results(old, values, "before"), self._results(new, values, "after")
        out = self._out(before, after, was > 0, is_there > 0)
        return Step(out, self._kept(new, is_there == 0, keys, values, now_ms))

    def _check_values(self, rows: pa.Table, values: list[Values]) -> None:
        """Raise RowError if a group has more values of a column than rows: a row has gone without its own."""
        there = _numbers(rows, _COUNT)
        found = [(name, _numbers(rows, _VALID + name)) for name in self._counted()]
        for slot, each in zip(self._slots(), values, strict=True):
            counts = np.zeros(len(there), np.int64)
            np.add.at(counts, each.groups, each.after)
            found.append((slot.column, counts))
        for name, counts in found:
            wrong = np.flatnonzero((counts > there) & (there > 0))
            if len(wrong):
                group = rows.select(list(self.keys)).slice(int(wrong[0]), 1).to_pylist()[0]
                raise RowError(
                    f"A -U or -D came without the values of its row: the group {group} would have "
                    f"{there[wrong[0]]} rows, and {counts[wrong[0]]} values of the column {name}. Nothing of "
                    "this batch was written. A source that tells the key of a deleted row alone needs "
                    "`normalize` before this operator. In SQL declare a PRIMARY KEY and SET "
                    "'table.exec.source.cdc-events-duplicate' = 'true'. Or let the database send whole rows, "
                    "e.g. by REPLICA IDENTITY FULL in PostgreSQL.",
                    column=name,
                )

    def _from_nothing(self, rows: pa.Table, values: list[Values]) -> tuple[pa.Table, list[Values]]:
        """Return groups and values without numbers below 0, which rows that were forgotten leave."""
        is_empty = _numbers(rows, _COUNT) <= 0
        for name in (_COUNT, *self._counts()):
            counts = np.where(is_empty, 0, np.maximum(_numbers(rows, name), 0))
            rows = _with_column(rows, name, pa.array(counts))
        for name in self._summed():
            zero = pa.scalar(0, rows.schema.field(_SUM + name).type)
            some = pa.array(_numbers(rows, _VALID + name) > 0)
            rows = _with_column(
                rows, _SUM + name, pc.if_else(some, one_array(rows.column(_SUM + name)), zero)
            )
        at_least = [np.where(is_empty[each.groups], 0, np.maximum(each.after, 0)) for each in values]
        return rows, [replace(each, after=after) for each, after in zip(values, at_least, strict=True)]

    def _check_arrived(self, signs: Integers) -> None:
        """Raise RowError if a row goes, and an aggregate keeps one value of each group only."""
        if np.any(signs < 0) and any(call.function in ARRIVED for call in self.calls):
            raise RowError(
                f"{' and '.join(ARRIVED)} take append-only rows, and got an update or a delete. "
                "Nothing of this batch was written. Use first(x order by y) or last(x order by y).",
                column=ROW_KIND,
            )

    def _old_groups(self, kept: pa.Table, batch: pa.Table, groups: Integers, keys: Hashes) -> pa.Table:
        """Return the row of each group before the batch; zeros for a new one."""
        found = keys_of(kept)
        row = np.full(len(keys), -1, np.int64)
        number = numbers_of(found, keys)
        row[number] = np.arange(kept.num_rows)
        first = np.empty(len(keys), np.int64)
        first[groups[::-1]] = np.arange(len(groups))[::-1]
        of_group = batch.select(list(self.keys)).cast(pa.schema(list(self.kept_columns)[: len(self.keys)]))
        own = _one_zero(of_group.take(pa.array(first)))
        _check_keys(own.take(pa.array(groups)), of_group, self.keys)
        _check_keys(own.take(pa.array(number)), kept.select(list(self.keys)), self.keys)
        rows = kept.select(self.kept_columns.names).take(pa.array(row, mask=row < 0))
        for index, name in enumerate(self.keys):
            rows = rows.set_column(index, rows.schema.field(index), own.column(name))
        for name in [_COUNT, *(_SUM + name for name in self._summed()), *self._counts()]:
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), pc.fill_null(rows.column(name), 0))
        slot = rows.schema.get_field_index(_SLOT)
        return rows.set_column(slot, rows.schema.field(slot), pa.array([_GROUP_ROW] * len(keys), pa.int32()))

    def _counts(self) -> list[str]:
        """Return the columns of the state that count rows of a group."""
        specials = [special + name for name in self._floats() for special in SPECIALS]
        return [*(_VALID + name for name in self._counted()), *specials]

    def _new_groups(self, old: pa.Table, batch: pa.Table, signs: Integers, groups: Integers) -> pa.Table:
        """Return the row of each group after the batch."""
        rows = _with_added(old, _COUNT, signs, groups)
        for name in self._counted():
            valid = pc.is_valid(one_array(batch.column(name))).to_numpy(zero_copy_only=False)
            rows = _with_added(rows, _VALID + name, signs * valid, groups)
        for name in self._summed():
            at = rows.schema.get_field_index(_SUM + name)
            sums = add_groups(one_array(rows.column(at)), one_array(batch.column(name)), signs, groups)
            rows = rows.set_column(at, rows.schema.field(at), sums)
        for name in self._floats():
            for special, is_it in specials_in(one_array(batch.column(name))).items():
                rows = _with_added(rows, special + name, signs * is_it, groups)
        return rows

    def _results(self, rows: pa.Table, values: list[Values], when: str) -> pa.Table:
        """Return the keys and aggregates of each group."""
        found = [rows.column(name) for name in self.keys]
        slots = {(slot.column, slot.order, slot.arrived): values[slot.number] for slot in self._slots()}
        for call in self.calls:
            if call.column is None:
                result = rows.column(_COUNT)
            elif call.function == "count":
                result = rows.column(_VALID + call.column)
            elif call.function in ("sum", "avg"):
                result = self._sum_or_avg(call, rows)
            else:
                each = slots[_of_slot(call)]
                result = each.result(call, each.before if when == "before" else each.after, rows.num_rows)
            found.append(_fitting(result, self._type(call)))
        return pa.Table.from_arrays(found, schema=pa.schema(list(self.out_columns)[:-1]))

    def _out(self, before: pa.Table, after: pa.Table, was: Mask, is_there: Mask) -> pa.Table:
        """Return the changes of the groups: those that go, then updates, then those that come.

        A target may have a part of the group as its key. A row that moves to another group is -D before +I.
        """
        equal = equal_columns(before, after, [call.name for call in self.calls])
        removed, inserted = was & ~is_there, ~was & is_there
        updated = was & is_there & (~equal | self.forgets)
        gone, come = np.flatnonzero(removed | updated), np.flatnonzero(inserted | updated)
        rows = pa.concat_tables([before.take(pa.array(gone)), after.take(pa.array(come))])
        kinds_ = np.concatenate(
            [np.where(updated[gone], UPDATE_BEFORE, DELETE), np.where(updated[come], UPDATE_AFTER, INSERT)]
        ).astype(np.int8)
        stage = np.concatenate([updated[gone].astype(np.int8), np.where(updated[come], 1, 2)])
        order = np.lexsort((np.concatenate([gone, come]), stage))  # stable: -U stays before its +U
        out = rows.take(pa.array(order)).append_column(ROW_KIND, kind_column(kinds_[order]))
        return out.cast(self.out_columns)

    def _kept(
        self, groups: pa.Table, is_empty: Mask, keys: Hashes, values: list[Values], now_ms: int
    ) -> pa.Table:
        zeros = np.zeros(len(keys), np.uint64)
        tables, hashes = [groups.cast(self.kept_columns)], [keys]
        parts, deleted = [Hashes(zeros, zeros)], [is_empty]
        for slot, each in zip(self._slots(), values, strict=True):
            changed = each.changed
            of_group = groups.select(list(self.keys)).take(pa.array(each.groups[changed]))
            tables.append(self._value_rows(of_group, slot, each, changed))
            hashes.append(keys.take(each.groups[changed]))
            parts.append(each.parts.take(changed))
            deleted.append(each.after[changed] == 0)
        rows = pa.concat_tables(tables)
        return state_rows(
            rows, Hashes.joined(*hashes), np.concatenate(deleted), now_ms, Hashes.joined(*parts)
        )

    def _value_rows(self, keys: pa.Table, slot: Slot, each: Values, changed: Integers) -> pa.Table:
        columns = {key: keys.column(key) for key in self.keys}
        columns[_SLOT] = pa.array(np.full(len(changed), slot.number, np.int32))
        columns[_COUNT] = pa.array(each.after[changed])
        columns.update(each.columns(slot, changed))
        arrays = [columns.get(field.name, pa.nulls(len(changed), field.type)) for field in self.kept_columns]
        return pa.Table.from_arrays(arrays, schema=self.kept_columns)

    def _sum_or_avg(self, call: Call, rows: pa.Table) -> pa.Array:
        sums, counts = rows.column(f"{_SUM}{call.column}"), rows.column(f"{_VALID}{call.column}")
        if call.column in self._floats():
            sums = with_specials(sums, [rows.column(f"{special}{call.column}") for special in SPECIALS])
        some = pc.greater(counts, 0)
        if call.function == "sum":
            return pc.if_else(some, sums, None)
        return pc.divide(
            sums.cast(pa.float64(), safe=False), pc.if_else(some, counts, None).cast(pa.float64())
        )


def _of_slot(call: Call) -> tuple[str, str | None, str | None]:
    """Return the column of a call, its order, and whether one value is kept, which is a slot of the state."""
    arrived = call.function if call.function in ARRIVED else None
    return call.column or "", call.order, arrived


def _one_zero(keys: pa.Table) -> pa.Table:
    """Return the keys with 0.0 for -0.0, which equals it. So each -U is what was emitted before."""
    for index, field in enumerate(keys.schema):
        keys = keys.set_column(index, field, one_zero(keys.column(index)))
    return keys


def _fitting(result: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return result.cast(kind)
    except pa.ArrowInvalid as error:
        raise overflow(kind) from error


def _without(values: Values, is_empty: Mask) -> Values:
    """Return values of which none is there in an empty group, also if its rows went without their values."""
    return replace(values, after=np.where(is_empty[values.groups], 0, values.after))


def _numbers(rows: pa.Table, name: str) -> Integers:
    numbers: Integers = one_array(rows.column(name)).to_numpy(zero_copy_only=False)
    return numbers


def _check_keys(one: pa.Table, other: pa.Table, keys: Sequence[str]) -> None:
    """Raise StateError if two rows have the same hash of the key, and different keys."""
    if not equal_columns(one, other, keys).all():
        raise collision(keys)


def _with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)


def _with_added(rows: pa.Table, name: str, signs: Integers, groups: Integers) -> pa.Table:
    at = rows.schema.get_field_index(name)
    counts = one_array(rows.column(at)).to_numpy(zero_copy_only=False).copy()
    np.add.at(counts, groups, signs)
    return _with_column(rows, name, pa.array(counts))
