"""Rows that exchange their keys, cut into batches and tasks anywhere, with changes that Debezium sends again.

Invariant: the copy is the true table, or a DecodeError comes before it is not. A table whose key is unique at
each moment never gives an error. No row comes to the key of another one and leaves it again in a transaction:
that is a known limit (docs/database-to-lake.md).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cdc import _exchanged
from penstock.cdc.journal import Journal
from penstock.errors import DecodeError
from tests.unit.cdc.messages import message_at
from tests.unit.cdc.test_batch import DeathError, World
from tests.unit.cdc.test_gather import Record

KEYS = range(1, 5)


@dataclass
class Row:
    key: int
    name: str

    def told(self) -> dict[str, Any]:
        return {"id": self.key, "name": self.name}


@dataclass
class Source:
    """A table of PostgreSQL with its log, in which each change has a position.

    Attributes:
        is_deferrable: whether the key is unique at the end of a transaction only.
        log: the messages.
        tables: the true table after so many messages, where a transaction ends.
    """

    chance: random.Random
    is_deferrable: bool
    rows: list[Row] = field(default_factory=list)
    log: list[bytes] = field(default_factory=list)
    tables: dict[int, dict[int, str]] = field(default_factory=lambda: {0: {}})
    names: int = 0
    made: list[Row] = field(default_factory=list)
    """Rows that have come to the key of another one in the transaction."""

    def transaction(self) -> None:
        before, count = [Row(each.key, each.name) for each in self.rows], len(self.log)
        number, self.made = len(self.tables), []
        for _ in range(self.chance.randint(1, 6)):
            self._change(number, 100 * number + len(self.log))
        table = {each.key: each.name for each in self.rows}
        if len(table) < len(self.rows):  # the transaction is rolled back
            self.rows = before
            del self.log[count:]
        else:
            self.tables[len(self.log)] = table

    def _free(self) -> list[int]:
        taken = [] if self.is_deferrable else [each.key for each in self.rows]
        return [key for key in KEYS if key not in taken]

    def _add(self, number: int, position: int, row: Row) -> None:
        if any(row.key == each.key for each in self.rows):
            self.made.append(row)
        self.rows.append(row)
        self.log.append(message_at(number, position, "+I", row.told()))

    def _movable(self) -> list[Row]:
        """Return the rows that may leave their keys."""
        return [each for each in self.rows if not any(each is other for other in self.made)]

    def _change(self, number: int, position: int) -> None:
        what, free = self.chance.choice(["insert", "delete", "move", "move", "update"]), self._free()
        if self.is_deferrable and self.chance.random() < 0.2 and len(self._movable()) > 1:
            self._rotate(number, position)
            return
        if what == "insert" and free:
            self._add(number, position, Row(self.chance.choice(free), self._name()))
        elif what != "insert" and (rows := self._movable()):
            row = self.chance.choice(rows)
            old = row.told()
            if what == "update":
                row.name = self._name()
                self.log.append(message_at(number, position, "+U", row.told(), old))
                return
            self.rows = [each for each in self.rows if each is not row]
            self.log.append(message_at(number, position, "-D", old))
            if what == "move" and (free := self._free()):
                self._add(number, position, Row(self.chance.choice(free), row.name))

    def _rotate(self, number: int, position: int) -> None:
        rows = self.chance.sample(self._movable(), 2)
        for row, key in zip(rows, [rows[1].key, rows[0].key], strict=True):
            self.rows = [each for each in self.rows if each is not row]
            self.log.append(message_at(number, position, "-D", row.told()))
            self._add(number, position, Row(key, row.name))
            position += 1

    def _name(self) -> str:
        self.names += 1
        return f"row {self.names}"


def sent(source: Source, chance: random.Random) -> list[bytes]:
    """Return the log as Debezium sends it, which dies now and then and goes on before that place."""
    found, at = [], 0
    while at < len(source.log):
        stop = chance.choice([chance.randint(at, len(source.log)), len(source.log)])
        found += source.log[at:stop]
        at = max(0, stop - chance.choice([0, 1, 3, 10])) if stop < len(source.log) else stop
    return found


def replicated(messages: list[bytes], chance: random.Random) -> World:
    """Return the copy after batches of any size, of several tasks, some of which die and come again."""
    world, at, number = World(), 0, 0
    while at < len(messages):
        stop = min(len(messages), at + chance.randint(1, 8))
        records: list[Record] = [("goods", 0, offset, messages[offset]) for offset in range(at, stop)]
        world.deaths.left = chance.randint(1, 30)
        tasks = chance.randint(1, 3)
        try:
            world.run(number, records, tasks=tasks)
        except DeathError:
            world.deaths.left = -1
            world.run(number, records, tasks=chance.randint(1, 3))
        world.deaths.left = -1
        at, number = stop, number + 1
    return world


@given(seed=st.integers(0, 1_000_000), is_deferrable=st.booleans())
@example(seed=0, is_deferrable=True)
def test_no_row_is_lost_in_silence(seed: int, is_deferrable: bool) -> None:
    chance = random.Random(seed)
    source = Source(chance, is_deferrable)
    for _ in range(chance.randint(1, 6)):
        source.transaction()
    try:
        world = replicated(sent(source, chance), chance)
    except DecodeError:
        if is_deferrable:
            return
        raise
    rows = world.tables["goods"].rows if world.tables else {}
    assert {key: row["name"] for key, row in rows.items()} == source.tables[len(source.log)]


def swap() -> list[Record]:
    """Rows 1 and 2 exchange their keys in transaction 2."""
    one, two = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
    told = [
        message_at(1, 10, "+I", one),
        message_at(1, 11, "+I", two),
        message_at(2, 20, "-D", one),
        message_at(2, 20, "+I", {"id": 2, "name": "a"}),
        message_at(2, 21, "-D", two),
        message_at(2, 21, "+I", {"id": 1, "name": "b"}),
    ]
    return [("goods", 0, offset, each) for offset, each in enumerate(told)]


@pytest.mark.parametrize("cut", range(1, 6))
def test_an_exchange_is_found_wherever_a_batch_ends(cut: int) -> None:
    world, records = World(), swap()
    parts = [records[:cut], records[cut:]] if cut < 5 else [records]
    for number, part in enumerate(parts[:-1]):
        world.run(number, part)
    with pytest.raises(DecodeError, match="Offset 4 has the end of the old row of a key"):
        world.run(len(parts) - 1, parts[-1])


def test_a_table_whose_rows_exchange_keys_may_be_left_out() -> None:
    world, records = World(), swap()
    for number, part in enumerate([records[:4], records[4:], records[:1]]):
        world.run(number, part, on_table_error="leave-out")
    assert {key: row["name"] for key, row in world.tables["goods"].rows.items()} == {2: "a"}
    decided = Journal("memory")
    decided.__dict__["_files"] = world.files
    found = decided.decided(2)
    assert found is not None
    assert found.newest == {}
    assert "the offset 4 of partition 0" in found.left_out["goods"]


def test_more_new_rows_than_are_remembered_make_an_end_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of a transaction that goes on, and only if the end is not that of a row which is remembered."""
    monkeypatch.setattr(_exchanged, "MOST_ROWS", 2)

    def run(*batches: list[bytes]) -> World:
        world, offset = World(), 0
        for number, part in enumerate(batches):
            world.run(number, [("goods", 0, offset + at, each) for at, each in enumerate(part)])
            offset += len(part)
        return world

    many = [message_at(1, 10 + key, "+I", {"id": key, "name": f"row {key}"}) for key in range(5)]
    ends = [message_at(1, 30 + key, "-D", {"id": key, "name": f"row {key}"}) for key in range(5)]
    run(many, ends[:2])
    new = {"id": 7, "name": "new"}
    run(many, [message_at(1, 40, "+I", new), message_at(1, 41, "-D", new)])
    run(many, [message_at(2, 50, "-D", {"id": 4, "name": "row 4"})])
    with pytest.raises(DecodeError, match=r"more than 1,000,000 new rows .* it is unknown whether"):
        run(many, ends[3:4])
