"""The tables, views and functions that a session has created.

Runs on the driver. Invariant: a name is found only with the case in which it was created, as in Flink.
Nothing here knows Spark.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.sql.connectors.described import Connector, described
from penstock.sql.language.source import Source
from penstock.sql.language.statements import (
    AlterTable,
    Column,
    ComputedColumn,
    CreateFunction,
    CreateTable,
    CreateView,
    MetadataColumn,
    Name,
    Options,
    PhysicalColumn,
)

DEFAULT_CATALOG, DEFAULT_DATABASE = "default_catalog", "default_database"
Key = tuple[str, str]


@dataclass(frozen=True)
class Table:
    """A table, and the script that its texts come from."""

    definition: CreateTable
    source: Source

    @cached_property
    def connector(self) -> Connector:
        """Return what the options say, or raise what `described` raises."""
        return described(self.definition)

    def hinted(self, options: Options) -> Table:
        """Return the table with the options of a hint, which replace its own ones."""
        merged = tuple({**dict(self.definition.options), **dict(options)}.items())
        if merged == self.definition.options:
            return self
        return replace(self, definition=replace(self.definition, options=merged))


@dataclass(frozen=True)
class View:
    """A view, the script that its query comes from, and the database that was chosen when it was created."""

    definition: CreateView
    source: Source
    database: str = DEFAULT_DATABASE


@dataclass
class Catalog:
    """All objects of a session, by database and name."""

    database: str = DEFAULT_DATABASE
    databases: set[str] = field(default_factory=lambda: {DEFAULT_DATABASE})
    objects: dict[Key, Table | View] = field(default_factory=dict)
    functions: dict[str, CreateFunction] = field(default_factory=dict)

    def key(self, parts: tuple[str, ...]) -> Key:
        """Return database and name that parts of a name mean.

        Raises:
            ValueError: the catalog or database does not exist.
        """
        if len(parts) == 3 and parts[0] != DEFAULT_CATALOG:
            raise ValueError(f"there is no catalog '{parts[0]}'. A session has '{DEFAULT_CATALOG}' only.")
        database = parts[-2] if len(parts) > 1 else self.database
        if database not in self.databases:
            raise ValueError(f"there is no database '{database}'.")
        return database, parts[-1]

    @contextlib.contextmanager
    def within(self, database: str) -> Iterator[None]:
        """Return a context in which names without a database are of this one."""
        before, self.database = self.database, database
        try:
            yield
        finally:
            self.database = before

    def find(self, parts: tuple[str, ...]) -> Table | View | None:
        """Return the object of a name; None if there is none."""
        try:
            return self.objects.get(self.key(parts))
        except ValueError:
            return None

    def tables_of(self, reads: Iterable[tuple[tuple[str, ...], Options]]) -> Iterator[tuple[str, Table]]:
        """Yield the tables of names with hints, each with its name. Views are left out."""
        for parts, hinted in reads:
            found = self.find(parts)
            if isinstance(found, Table):
                yield ".".join(parts), found.hinted(hinted)

    def add(self, name: Name, made: Table | View, *, if_not_exists: bool) -> None:
        """Add a table or view.

        Raises:
            ValueError: the name is taken, or the database does not exist.
        """
        key = self.key(name.parts)
        if key in self.objects:
            if if_not_exists:
                return
            raise ValueError(f"there is a table or view '{name}' already. DROP it, or write IF NOT EXISTS.")
        self.objects[key] = made

    def drop(self, kind: str, name: Name, *, if_exists: bool) -> None:
        """Remove a table or view.

        Raises:
            ValueError: there is no such object.
        """
        key = self.key(name.parts)
        wanted = Table if kind == "TABLE" else View
        if isinstance(self.objects.get(key), wanted):
            del self.objects[key]
        elif not if_exists:
            raise ValueError(f"there is no {kind.lower()} '{name}'.")

    def rename(self, old: Name, new: Name, made: Table) -> None:
        """Give a table another name of its database, and its new declaration.

        Raises:
            ValueError: the name is taken, or names another database.
        """
        database, name = self.key(old.parts)
        if len(new.parts) > 1 and self.key(new.parts)[0] != database:
            raise ValueError(
                f"a table cannot move to another database. Write the name '{new.parts[-1]}' only."
            )
        target = (database, new.parts[-1])
        if target in self.objects:
            raise ValueError(f"there is a table or view '{new}' already.")
        del self.objects[database, name]
        self.objects[target] = made

    def names(
        self, kind: type | None = None, database: str | None = None, like: str | None = None
    ) -> list[str]:
        """Return the names in a database, by default the current one, in order."""
        wanted = self.database if database is None else database
        pattern = like_pattern(like)
        return sorted(
            name
            for (of, name), each in self.objects.items()
            if of == wanted and (kind is None or isinstance(each, kind)) and pattern.fullmatch(name)
        )


def like_pattern(like: str | None) -> re.Pattern[str]:
    """Return the pattern of a LIKE of SHOW; None matches all."""
    if like is None:
        return re.compile(".*", re.DOTALL)
    escaped = re.escape(like).replace("%", ".*").replace("_", ".")
    return re.compile(escaped, re.DOTALL | re.IGNORECASE)


def with_like(table: CreateTable, base: CreateTable) -> CreateTable:
    """Return a table with what its LIKE takes over from another table.

    Raises:
        ValueError: both tables have a part that only one of them may have.
    """
    if table.like is None:
        return table
    rules = _rules(table.like.options)
    columns = _merged_columns(table.columns, base.columns, rules)
    watermark = table.watermark
    if base.watermark is not None and rules["WATERMARKS"] != "EXCLUDING":
        if watermark is not None and rules["WATERMARKS"] == "INCLUDING":
            raise ValueError("both tables have a WATERMARK. Write OVERWRITING WATERMARKS.")
        watermark = watermark or base.watermark
    key = table.primary_key
    if base.primary_key and rules["CONSTRAINTS"] != "EXCLUDING":
        if key:
            raise ValueError("both tables have a PRIMARY KEY. Write EXCLUDING CONSTRAINTS.")
        key = base.primary_key
    options = _merged_options(table.options, base.options, rules["OPTIONS"])
    return replace(table, columns=columns, watermark=watermark, primary_key=key, options=options, like=None)


def _rules(options: tuple[tuple[str, str], ...]) -> dict[str, str]:
    parts = ("CONSTRAINTS", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS", "DISTRIBUTION")
    rules = dict.fromkeys(parts, "INCLUDING") | {"OPTIONS": "OVERWRITING"}
    for word, part in options:
        if part == "ALL":
            rules.update(dict.fromkeys(parts, word))
    rules.update({part: word for word, part in options if part != "ALL"})
    return rules


def _merged_columns(
    own: tuple[Column, ...], base: tuple[Column, ...], rules: dict[str, str]
) -> tuple[Column, ...]:
    part_of = {ComputedColumn: "GENERATED", MetadataColumn: "METADATA"}
    names = {column.name for column in own}
    taken: list[Column] = []
    for column in base:
        part = part_of.get(type(column))
        rule = "INCLUDING" if part is None else rules[part]
        if rule == "EXCLUDING" or (column.name in names and rule == "OVERWRITING"):
            continue
        if column.name in names:
            raise ValueError(f"both tables have the column '{column.name}'.")
        taken.append(column)
    return (*taken, *own)


def _merged_options(own: Options, base: Options, rule: str) -> Options:
    if rule == "EXCLUDING":
        return own
    both = {key for key, _ in own} & {key for key, _ in base}
    if both and rule == "INCLUDING":
        raise ValueError(f"both tables have the option '{min(both)}'. Write OVERWRITING OPTIONS.")
    return tuple({**dict(base), **dict(own)}.items())


def altered(table: CreateTable, change: AlterTable) -> CreateTable:
    """Return a table after ALTER TABLE.

    Raises:
        ValueError: the change does not fit the table.
    """
    options = {**dict(table.options), **dict(change.set_options)}
    for key in change.reset_options:
        options.pop(key, None)
    columns = (*table.columns, *change.add)
    names = [column.name.lower() for column in columns]
    if len(set(names)) < len(names):
        raise ValueError("the table has a column of this name already.")
    if change.rename_column is not None:
        columns = _renamed(columns, *change.rename_column)
    if change.add_watermark is not None and table.watermark is not None:
        raise ValueError("the table has a WATERMARK already.")
    if change.add_primary_key and table.primary_key:
        raise ValueError("the table has a PRIMARY KEY already.")
    return replace(
        table,
        columns=columns,
        options=tuple(options.items()),
        watermark=change.add_watermark or table.watermark,
        primary_key=change.add_primary_key or table.primary_key,
        name=change.rename_to or table.name,
    )


def _renamed(columns: tuple[Column, ...], old: str, new: str) -> tuple[Column, ...]:
    if old not in [column.name for column in columns]:
        raise ValueError(f"the table has no column '{old}'.")
    return tuple(replace(column, name=new) if column.name == old else column for column in columns)


def stored_columns(table: CreateTable) -> list[PhysicalColumn | MetadataColumn]:
    """Return the columns that INSERT writes, in their order."""
    return [
        column
        for column in table.columns
        if isinstance(column, PhysicalColumn) or (isinstance(column, MetadataColumn) and not column.virtual)
    ]
