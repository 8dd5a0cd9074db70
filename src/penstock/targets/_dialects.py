"""The differences between PostgreSQL and SQLite: types, placeholders, values and locks.

Runs on the driver. Invariant: a value that the database would change (NaN in SQLite) is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock.errors import OptionError, RowError, SchemaError


@dataclass(frozen=True)
class Lookup:
    """Statements that find tables of a database with a search path.

    Attributes:
        find: gives schema and name of the table that a quoted name means, or no row. Has one parameter.
        default_schema: gives the schema in which a table without a schema is created.
        lock: lets other transactions wait that also create a table of penstock.
    """

    find: str
    default_schema: str
    lock: str


@dataclass(frozen=True)
class Dialect:
    """One database.

    Attributes:
        name: as the user writes it.
        placeholder: of a parameter.
        type_name: the type of a column; None for a type that the database does not have.
        value: converts a value for the driver of the database.
        lock: statements that begin the transaction and keep other writers out.
        temporary: the schema of temporary tables.
        one_name: returns the same name for all spellings of a table's name that mean one table.
        lookup: how tables are found, if that depends on the connection.
        max_name_bytes: a longer name is cut off by the database, so that two names may mean one table.
    """

    name: str
    placeholder: str
    type_name: Callable[[pa.DataType], str | None]
    value: Callable[[Any], Any]
    lock: Sequence[str]
    temporary: str
    one_name: Callable[[str], str]
    lookup: Lookup | None = None
    max_name_bytes: int | None = None

    def check_name(self, name: str, what: str) -> None:
        """Raise OptionError if the database would cut a name off."""
        if self.max_name_bytes is not None and len(name.encode()) > self.max_name_bytes:
            raise OptionError(
                f"The name of {what} {name!r} has {len(name.encode())} bytes in UTF-8, and {self.name} cuts "
                f"names off after {self.max_name_bytes}. Two names could mean one. Choose a shorter one.",
                value=name,
            )

    def column_type(self, field: pa.Field) -> str:
        """Return the type of a column.

        Raises:
            SchemaError: the database has no such type.
        """
        found = self.type_name(field.type)
        if found is None:
            raise SchemaError(
                f"Column '{field.name}' has type {field.type}, which a table of {self.name} cannot hold. "
                "Cast it, e.g. to a string with to_json.",
                column=field.name,
            )
        return found


def dialect_of(name: str) -> Dialect:
    """Return a dialect by its name.

    Raises:
        OptionError: the name is not known.
    """
    found = {one.name: one for one in (POSTGRESQL, SQLITE)}.get(name)
    if found is None:
        raise OptionError(
            f"Expected 'postgresql' or 'sqlite' for `dialect`, got {name!r}.", option="dialect", value=name
        )
    return found


_COMMON: Sequence[tuple[Callable[[pa.DataType], bool], str, str]] = (
    (kinds.is_boolean, "BOOLEAN", "INTEGER"),
    (lambda kind: kinds.is_int8(kind) or kinds.is_int16(kind), "SMALLINT", "INTEGER"),
    (kinds.is_int32, "INTEGER", "INTEGER"),
    (kinds.is_int64, "BIGINT", "INTEGER"),
    (kinds.is_float32, "REAL", "REAL"),
    (kinds.is_float64, "DOUBLE PRECISION", "REAL"),
    (lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind), "TEXT", "TEXT"),
    (lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind), "BYTEA", "BLOB"),
    (kinds.is_date32, "DATE", "TEXT"),
)


def _type_name(kind: pa.DataType, column: int) -> str | None:
    return next((types[column] for is_kind, *types in _COMMON if is_kind(kind)), None)


def _postgresql_type(kind: pa.DataType) -> str | None:
    if kinds.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ"
    if kinds.is_decimal128(kind):
        return f"NUMERIC({kind.precision}, {kind.scale})"
    return _type_name(kind, 0)


def _sqlite_type(kind: pa.DataType) -> str | None:
    is_text = kinds.is_timestamp(kind) or kinds.is_decimal128(kind)
    return "TEXT" if is_text else _type_name(kind, 1)


def _sqlite_value(value: Any) -> Any:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"  # without an exponent
    if isinstance(value, float) and math.isnan(value):
        raise RowError(
            "A column holds NaN, which SQLite stores as NULL. Nothing of the batch was written. Replace it, "
            "e.g. with nanvl."
        )
    return value


def _sqlite_name(name: str) -> str:
    """Return the name in lower case, because SQLite finds a table in any case, and without its own schema."""
    lower = "".join(one.lower() if one.isascii() else one for one in name)
    return lower.removeprefix("main.")


# The number of the lock is the text "penstock". Without it two IF NOT EXISTS at the same time fail.
_POSTGRESQL_LOOKUP = Lookup(
    find="SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass(CAST(%s AS text))",
    default_schema="SELECT pg_catalog.current_schema()",
    lock="SELECT pg_catalog.pg_advisory_xact_lock(8099000947049456491)",
)
POSTGRESQL = Dialect(
    "postgresql",
    "%s",
    _postgresql_type,
    lambda value: value,
    (),
    "pg_temp",
    lambda name: name,
    _POSTGRESQL_LOOKUP,
    63,
)
SQLITE = Dialect("sqlite", "?", _sqlite_type, _sqlite_value, ("BEGIN IMMEDIATE",), "temp", _sqlite_name)
