"""Random transactions and changes of columns over many tables of PostgreSQL.

Invariant: with one seed the statements are the same. After a change of columns that no message tells of (a
default for old rows, a new name) each row of the table is written once more, as the guide tells users to do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

KEYS = 60
NEWEST = "newest"
"""A column of each table: the number of the last transaction that touched its sentinel."""
SENTINEL = -1
FIXED, LARGE = "fixed", "large"
"""A column of each table that is NOT NULL, and one whose values PostgreSQL keeps apart (TOAST). It is only in
tables with REPLICA IDENTITY FULL, because the log of others does not have a value that did not change."""
_FIXED_VALUES = {FIXED: "md5(%s::text)", LARGE: "repeat(md5(%s::text), 100)"}
_TYPES = {
    "text": ("'ä☃' || md5(%s::text)", "text"),
    "integer": ("%s::int", "bigint"),
    "bigint": ("%s::bigint * 10000000000", None),
    "numeric(10,2)": ("%s / 100.0", "numeric(14,2)"),
    "numeric(14,2)": ("%s * 1000 / 100.0", None),
    "boolean": ("%s %% 2 = 0", None),
    "timestamp": ("timestamp '1999-12-31 23:59:59.999999' + %s * interval '1000001 microsecond'", None),
    "timestamptz": ("timestamptz '2024-03-31 00:59:59.5+00' + %s * interval '1 hour'", None),
    "date": ("date '1969-12-31' + %s::int", None),
    "double precision": ("%s / 7.0", None),
    "real": ("(%s / 8.0)::real", "double precision"),
    "smallint": ("(%s %% 30000)::smallint", "integer"),
    "bytea": ("decode(md5(%s::text), 'hex')", None),
    "uuid": ("md5(%s::text)::uuid", None),
}
"""How each type of PostgreSQL gets a value of a number, and the wider type that it may become."""


class Table:
    """A table and its columns, which change."""

    def __init__(self, name: str, columns: dict[str, str], key: str, fixed: list[str]) -> None:
        self.name, self.columns, self.key, self.fixed = name, columns, key, fixed
        self.with_default: set[str] = set()


class Database:
    """Changes the tables through one connection.

    Args:
        dsn: of the server.
        seed: of the changes.
        table_count: how many tables there are at the start.
        widens: whether columns get wider types.
        has_null_defaults: whether a column that has a default is ever NULL.
    """

    def __init__(
        self, dsn: str, seed: int, table_count: int, *, widens: bool, has_null_defaults: bool = True
    ) -> None:
        self.random = random.Random(seed)
        self.widens, self.has_null_defaults = widens, has_null_defaults
        self.connection = psycopg.connect(f"{dsn} dbname=postgres", autocommit=True)
        self.connection.execute("SET timezone = 'UTC'")
        self.transactions = 0
        self.changed: dict[str, int] = {}
        self.tables: list[Table] = []
        for _ in range(table_count):
            self.create()

    def close(self) -> None:
        self.connection.close()

    def create(self) -> Table:
        """Add a table. Its primary key has one or two columns."""
        number = len(self.tables)
        table = Table(f"t{number}", {}, "id", [FIXED, LARGE] if number % 2 else [FIXED])
        if number % 3 == 2:
            table.key = "id, part"
        part = "part integer NOT NULL," if number % 3 == 2 else ""
        self.connection.execute(
            f"CREATE TABLE {table.name} (id bigint NOT NULL, {part} {NEWEST} bigint, "
            f"{FIXED} text NOT NULL DEFAULT 'none', PRIMARY KEY ({table.key}))".encode()
        )
        if number % 2:
            self.connection.execute(f"ALTER TABLE {table.name} ADD COLUMN {LARGE} text".encode())
            self.connection.execute(
                f"ALTER TABLE {table.name} ALTER COLUMN {LARGE} SET STORAGE EXTERNAL".encode()
            )
            self.connection.execute(f"ALTER TABLE {table.name} REPLICA IDENTITY FULL".encode())
        self.tables.append(table)
        for _ in range(4):
            self._add(table, with_default=False)
        return table

    def run(self, count: int) -> None:
        """Run transactions, each over one to three tables."""
        for _ in range(count):
            self.transactions += 1
            with self.connection.transaction():
                for table in self.random.sample(
                    self.tables, self.random.randint(1, min(3, len(self.tables)))
                ):
                    for _ in range(self.random.randint(1, 5)):
                        self._change(table)

    def mark(self) -> int:
        """Write the sentinel of each table. Return the number by which the copies know it."""
        self.transactions += 1
        for table in self.tables:
            names, parts = ("id, part", f"{SENTINEL}, 0") if "part" in table.key else ("id", f"{SENTINEL}")
            self.connection.execute(
                f"INSERT INTO {table.name} ({names}, {NEWEST}) VALUES ({parts}, {self.transactions}) "
                f"ON CONFLICT ({table.key}) DO UPDATE SET {NEWEST} = excluded.{NEWEST}".encode()
            )
        return self.transactions

    def change_columns(self) -> str:
        """Change the columns of a table, and say how."""
        table = self.random.choice(self.tables)
        kinds: dict[str, Callable[[Table], str | None]] = {
            "add": lambda one: self._add(one, with_default=False),
            "add with a default": lambda one: self._add(one, with_default=True),
            "drop": self._drop,
            "widen": self._widen,
            "rename": self._rename,
        }
        if not self.widens:  # deltalake cannot, and penstock says so
            del kinds["widen"]
        kind = self.random.choice(list(kinds))
        what = kinds[kind](table)
        if what is None:
            return "nothing"
        self.changed[kind] = self.changed.get(kind, 0) + 1
        return f"{table.name}: {kind} {what}"

    def _change(self, table: Table) -> None:
        key = self.random.randrange(KEYS)
        where = f"id = {key}" + (f" AND part = {key % 3}" if "part" in table.key else "")
        kind = self.random.choice(["insert", "insert", "update", "update", "delete", "move"])
        if kind == "delete":
            self.connection.execute(f"DELETE FROM {table.name} WHERE {where}".encode())
        elif kind == "move":
            to = self.random.randrange(KEYS, KEYS + 20)
            self.connection.execute(
                f"UPDATE {table.name} SET id = {to} WHERE {where} AND NOT EXISTS "
                f"(SELECT 1 FROM {table.name} WHERE id = {to})".encode()
            )
        else:
            fixed = [name for name in table.fixed if name != LARGE or self.random.random() < 0.5]
            names = [*fixed, *table.columns]
            values = [self._filled(_FIXED_VALUES[name]) for name in fixed]
            values += [
                self._value(type_, is_nullable=self.has_null_defaults or name not in table.with_default)
                for name, type_ in table.columns.items()
            ]
            keys = f"{key}, {key % 3}" if "part" in table.key else f"{key}"
            updated = ", ".join(f"{name} = excluded.{name}" for name in names) or "id = excluded.id"
            self.connection.execute(
                f"INSERT INTO {table.name} ({table.key}{''.join(f', {name}' for name in names)}) VALUES "
                f"({keys}{''.join(f', {value}' for value in values)}) "
                f"ON CONFLICT ({table.key}) DO UPDATE SET {updated}".encode()
            )

    def _value(self, type_: str, *, is_nullable: bool) -> str:
        if self.random.random() < 0.1 and is_nullable:
            return "NULL"
        return self._filled(_TYPES[type_][0])

    def _filled(self, expression: str) -> str:
        return expression.replace("%s", str(self.random.randrange(10_000))).replace("%%", "%")

    def _add(self, table: Table, *, with_default: bool) -> str:
        type_ = self.random.choice(list(_TYPES))
        name = f"c{self.random.randrange(10**6)}"
        default = f" DEFAULT {self._value(type_, is_nullable=self.has_null_defaults)}" if with_default else ""
        self.connection.execute(f"ALTER TABLE {table.name} ADD COLUMN {name} {type_}{default}".encode())
        table.columns[name] = type_
        if with_default:
            table.with_default.add(name)
            self._touch(table)
        return f"{name} {type_}{default}"

    def _drop(self, table: Table) -> str | None:
        if not table.columns:
            return None
        name = self.random.choice(list(table.columns))
        self.connection.execute(f"ALTER TABLE {table.name} DROP COLUMN {name}".encode())
        del table.columns[name]
        return name

    def _widen(self, table: Table) -> str | None:
        able = [name for name, type_ in table.columns.items() if _TYPES[type_][1] not in (None, "text")]
        if not able:
            return None
        name = self.random.choice(able)
        wider = _TYPES[table.columns[name]][1]
        assert wider is not None
        self.connection.execute(f"ALTER TABLE {table.name} ALTER COLUMN {name} TYPE {wider}".encode())
        table.columns[name] = wider
        self._touch(table)
        return f"{name} to {wider}"

    def _rename(self, table: Table) -> str | None:
        if not table.columns:
            return None
        name = self.random.choice(list(table.columns))
        new = f"c{self.random.randrange(10**6)}"
        self.connection.execute(f"ALTER TABLE {table.name} RENAME COLUMN {name} TO {new}".encode())
        table.columns[new] = table.columns.pop(name)
        if name in table.with_default:
            table.with_default.add(new)
        self._touch(table)
        return f"{name} to {new}"

    def _touch(self, table: Table) -> None:
        """Write each row again, because no message tells what the change did to old rows."""
        self.connection.execute(f"UPDATE {table.name} SET {NEWEST} = {NEWEST}".encode())
