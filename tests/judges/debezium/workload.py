"""Random transactions over one table of PostgreSQL, with all that Debezium writes in a way of its own.

Invariant: with one seed the statements are the same. Names are never equal, because two rows that exchange
their keys and are equal in all other columns are a known limit (docs/changelog-functions.md).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from tests.judges.debezium.servers import SLOT, TABLE

Connection = psycopg.Connection[Any]
Moves = tuple[list[int], list[int]]
"""The keys that no row has now, and those that one has."""
Statement = Callable[[Connection, list[int], list[int]], Moves]
"""Takes the keys that no row has, and those that one has."""

KEYS = 160
SENTINELS = range(-8, 0)
"""Keys of rows that say what has arrived. There are so many that each topic partition has one."""
_CREATE: Sequence[str] = (
    """CREATE TABLE goods (
    id bigint PRIMARY KEY DEFERRABLE, name text, price numeric(12,3), flag boolean, at timestamp,
    atz timestamptz, day date, raw bytea, big text, x double precision, doc jsonb, size integer,
    dropped text)""",
    "ALTER TABLE goods REPLICA IDENTITY FULL",
    # Random text does not become smaller, so it leaves the row for the TOAST table.
    "ALTER TABLE goods ALTER COLUMN big SET STORAGE EXTERNAL",
    "CREATE TABLE elsewhere (i int)",
    "CREATE TABLE debezium_signal (id text PRIMARY KEY, type text, data text)",
)
SCHEMA_CHANGES: Sequence[str] = (
    "ALTER TABLE goods ADD COLUMN extra text",
    "ALTER TABLE goods ALTER COLUMN size TYPE bigint, ALTER COLUMN price TYPE numeric(20,6)",
    "ALTER TABLE goods DROP COLUMN dropped",
)
"""In this order. Messages before and after them are in one topic."""
_WORDS = ("räd", "☃", "𝄞 clef", 'quo"te', "back\\slash", "tab\tline\n", "", "null", "日本")
_FLOATS = (0.0, 1.5, -2.5e-300, 1e300, float("nan"), float("inf"), float("-inf"), 0.1)


def _expression(name: str) -> str:
    """Return how a column takes its parameter: times are microseconds and days since 1970."""
    since = "timestamptz 'epoch' + %s * interval '1 microsecond'"
    special = {"at": f"({since}) AT TIME ZONE 'UTC'", "atz": since, "day": "date '1970-01-01' + %s::int"}
    return special.get(name, "%s")


class Workload:
    """Changes the table through two connections. `live` are the keys that are there."""

    def __init__(self, dsn: str, seed: int, big_length: int = 6_000) -> None:
        self.random = random.Random(seed)
        self.admin, self.one, self.other = (psycopg.connect(f"{dsn} dbname=postgres") for _ in range(3))
        self.admin.autocommit = True
        self.live: set[int] = set()
        self.transactions = 0
        self._big_length = big_length
        self._names = 0
        self._changed = 0
        self._marks = 0
        for statement in _CREATE:
            self.admin.execute(statement.encode())
        for key in SENTINELS:
            self.admin.execute("INSERT INTO goods (id) VALUES (%s)", [key])

    def close(self) -> None:
        for connection in (self.admin, self.one, self.other):
            connection.close()

    # values

    def _name(self) -> str:
        self._names += 1
        return f"{self.random.choice(_WORDS)} {self._names}"

    def _values(self) -> dict[str, Any]:
        """Return new values of some columns, and always a new name."""
        chosen = self.random
        micros = chosen.randrange(-(10**14), 4 * 10**15)
        big = chosen.choice([None, f"{chosen.getrandbits(4 * self._big_length):0{self._big_length}x}"])
        extra = ["extra"] if self._changed > 0 else []
        values: dict[str, Any] = {
            "price": f"{chosen.randrange(-(10**9), 10**9)}.{chosen.randrange(1000):03}",
            "flag": chosen.random() < 0.5,
            "at": micros,
            "atz": micros,
            "day": chosen.randrange(-100_000, 100_000),
            "raw": chosen.randbytes(chosen.randrange(20)),
            "big": big,
            "x": chosen.choice(_FLOATS),
            "doc": '{"a": [1, null, "ä"]}',
            "size": chosen.randrange(2**40) if self._changed > 1 else chosen.randrange(2**31),
            **dict.fromkeys(extra, self._name()),
        }
        some = {name: value for name, value in values.items() if chosen.random() < 0.4}
        return {"name": self._name(), **{n: None if chosen.random() < 0.2 else v for n, v in some.items()}}

    # statements

    def _insert(self, connection: Connection, key: int) -> None:
        values = self._values()
        columns, given = ", ".join(["id", *values]), ", ".join(["%s", *map(_expression, values)])
        statement = f"INSERT INTO goods ({columns}) VALUES ({given})"  # noqa: S608 - of this module
        connection.execute(statement.encode(), [key, *values.values()])

    def _update(self, connection: Connection, key: int) -> None:
        values = self._values()
        given = ", ".join(f"{name} = {_expression(name)}" for name in values)
        statement = f"UPDATE goods SET {given} WHERE id = %s"  # noqa: S608 - of this module
        connection.execute(statement.encode(), [*values.values(), key])

    def _statement(self, connection: Connection, keys: list[int], live: set[int]) -> None:
        """Run one random statement over some of the keys, and correct `live`."""
        free, there = [key for key in keys if key not in live], [key for key in keys if key in live]
        of_rows: list[Statement] = [self._change, self._change, self._delete, self._delete, self._rotate]
        inserts: list[Statement] = [self._insert_some, self._insert_some]
        moves: list[Statement] = [self._move]
        kinds = of_rows * bool(there) + inserts * bool(free) + moves * bool(free and there)
        taken, given = self.random.choice(kinds)(connection, free, there)
        live.difference_update(taken)
        live.update(given)

    def _insert_some(self, connection: Connection, free: list[int], _: list[int]) -> Moves:
        """Insert a row, or several with one statement, which have one LSN."""
        keys = self.random.sample(free, min(len(free), self.random.choice([1, 1, 3])))
        connection.execute("INSERT INTO goods (id) SELECT unnest(%s::bigint[])", [keys])
        for key in keys:
            self._update(connection, key)
        return [], keys

    def _change(self, connection: Connection, _: list[int], there: list[int]) -> Moves:
        self._update(connection, self.random.choice(there))
        return [], []

    def _delete(self, connection: Connection, _: list[int], there: list[int]) -> Moves:
        """Delete a row. A new one may take its key."""
        key = self.random.choice(there)
        connection.execute("DELETE FROM goods WHERE id = %s", [key])
        if self.random.random() < 0.5:
            return [key], []
        self._insert(connection, key)
        return [], []

    def _move(self, connection: Connection, free: list[int], there: list[int]) -> Moves:
        old, new = self.random.choice(there), self.random.choice(free)
        connection.execute("UPDATE goods SET id = %s WHERE id = %s", [new, old])
        return [old], [new]

    def _rotate(self, connection: Connection, _: list[int], there: list[int]) -> Moves:
        """Two or three rows exchange their keys in one statement."""
        old = self.random.sample(there, min(len(there), self.random.choice([2, 3])))
        new = [*old[1:], old[0]]
        rotation = "UPDATE goods SET id = (%s::bigint[])[array_position(%s::bigint[], id)] WHERE id = ANY(%s)"
        connection.execute(rotation, [new, old, old])
        return [], []

    # transactions

    def run(self, count: int) -> None:
        """Run transactions. Some are rolled back, and some run beside another one."""
        for _ in range(count):
            keys = self.random.sample(range(KEYS), 24)
            kind = self.random.random()
            if kind < 0.15:
                self._beside(keys)
            elif kind < 0.25:
                self._hand_over(keys)
            else:
                self._transaction(keys)
            self.transactions += 1

    def run_one(self, kind: str) -> None:
        """Run one transaction with one statement of a kind."""
        free, there = [key for key in range(KEYS) if key not in self.live], sorted(self.live)
        statements = {
            "insert": self._insert_some,
            "change": self._change,
            "delete": self._delete,
            "move": self._move,
            "rotate": self._rotate,
        }
        if kind == "hand over":
            self._hand_over(there)
            return
        taken, given = statements[kind](self.one, free, there)
        self.one.commit()
        self.live = self.live.difference(taken).union(given)

    def _transaction(self, keys: list[int]) -> None:
        live = set(self.live)
        for _ in range(self.random.randrange(1, 6)):
            self._statement(self.one, keys, live)
        if self.random.random() < 0.1:
            self.one.rollback()
            return
        if self.random.random() < 0.2:
            self.one.execute("SELECT pg_logical_emit_message(true, 'note', 'text')")
        self.one.commit()
        self.live = live

    def _beside(self, keys: list[int]) -> None:
        """Run two transactions at one time. The one that begins first ends last."""
        for connection, part in ((self.one, keys[:12]), (self.other, keys[12:])) * self.random.randrange(
            1, 4
        ):
            self._statement(connection, part, self.live)
        self.other.commit()
        self.one.commit()

    def _hand_over(self, keys: list[int]) -> None:
        """One transaction deletes a row, and another one has already written a new row with its key."""
        key = next((each for each in keys if each in self.live), None)
        if key is None:
            return
        for connection in (self.one, self.other):
            connection.execute("SET CONSTRAINTS ALL DEFERRED")
        self._insert(self.other, key)
        self.one.execute("DELETE FROM goods WHERE id = %s", [key])
        self.one.commit()
        self.other.commit()

    def change_schema(self) -> None:
        """Make the next schema change."""
        self.admin.execute(SCHEMA_CHANGES[self._changed].encode())
        self._changed += 1

    def has_schema_changes(self) -> bool:
        return self._changed < len(SCHEMA_CHANGES)

    def snapshot(self) -> None:
        """Ask Debezium for an incremental snapshot."""
        data = f'{{"data-collections": ["public.{TABLE}"], "type": "incremental"}}'
        statement = "INSERT INTO debezium_signal VALUES (gen_random_uuid()::text, 'execute-snapshot', %s)"
        self.admin.execute(statement, [data])

    def mark(self) -> str:
        """Write a new name into all sentinels, and return it."""
        self._marks += 1
        name = f"mark {self._marks}"
        self.admin.execute("UPDATE goods SET name = %s WHERE id < 0", [name])
        return name

    # the first snapshot

    def slot_is_there(self) -> bool:
        found = self.admin.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [SLOT])
        return found.fetchone() is not None

    def slot_is_ready(self) -> bool:
        ready = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
        found = self.admin.execute(ready, [SLOT]).fetchone()
        return found is not None and found[0] is not None

    def slot_waits_for(self, connection: Connection) -> bool:
        """Return whether PostgreSQL waits for a transaction, before its log is complete for the slot."""
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND %s = ANY(pg_blocking_pids(pid))"
        return self.admin.execute(waiting, [connection.info.backend_pid]).fetchone() is not None
