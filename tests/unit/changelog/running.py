"""Run an operator over batches with its state in memory, as a task would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock.changelog.operators.append_join import AppendJoin
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.ordering import groups_of
from penstock.state.columns import DELETED, KEY_HIGH, KEY_LOW, PART_HIGH, PART_LOW, Hashes, state_schema
from penstock.state.merge import run_in_memory
from penstock.state.snapshot import Lifetime, Snapshot, SnapshotReader

Row = dict[str, Any]
_ONE_ROW = (KEY_HIGH, KEY_LOW, PART_HIGH, PART_LOW)


class Running:
    """An operator and what it has kept."""

    def __init__(self, operator: Operator, columns: pa.Schema, lifetime: Lifetime | None = None) -> None:
        self.operator = operator
        self.columns = columns
        schema = state_schema(operator.kept_columns)
        lifetime = lifetime or Lifetime(remembers_deleted=operator.remembers_deleted)
        self._asked: list[Hashes] = []
        self.snapshot = Snapshot(schema, [], lifetime, has_parts=operator.has_parts)

    def all_keys(self) -> Hashes:
        """Return the keys of all batches so far."""
        return groups_of(Hashes.joined(*self._asked))[1]

    def step(self, rows: Iterable[Row], now_ms: int = 0) -> list[Row]:
        reading = SnapshotReader(self.snapshot, now_ms)

        def find(keys: Hashes) -> pa.Table:
            self._asked.append(keys)
            return reading.find(keys)

        batch = pa.Table.from_pylist(list(rows), self.columns)
        operator = self.operator
        if isinstance(operator, AppendJoin):
            operator = operator.of_batch(len(self.snapshot.runs))
        step = operator.step(batch, find, now_ms)
        assert step.out.schema.equals(operator.out_columns)
        self.snapshot.runs.append(run_in_memory(self.snapshot.schema, reading.to_keep(step.kept)))
        step.out.validate(full=True)
        out: list[Row] = step.out.to_pylist()
        return out

    def kept(self) -> list[Row]:
        """Return the rows that the state has, without those that a later row has replaced or deleted."""
        rows = [row for run in self.snapshot.runs for piece in run.pieces for row in piece.to_pylist()]
        newest = {
            tuple(row[name] for name in _ONE_ROW[: 2 + 2 * self.operator.has_parts]): row for row in rows
        }
        remembers = self.operator.remembers_deleted
        return [row for row in newest.values() if remembers or not row[DELETED]]


def as_changelog(rows: Iterable[Row]) -> dict[Any, list[Row]]:
    """Apply a changelog as strictly as possible: each -U and -D must name a row that is there."""
    table: list[Row] = []
    waits: Row | None = None
    for row in rows:
        content = {name: value for name, value in row.items() if name != "row_kind"}
        kind = row["row_kind"]
        assert (waits is not None) == (kind == "+U"), f"-U and +U come in pairs: {row}"
        if kind in ("-U", "-D"):
            table.remove(content)
            waits = content if kind == "-U" else None
        else:
            table.append(content)
            waits = None
    assert waits is None
    return {"rows": table}
