"""The statements of Flink's SQL as frozen values.

Runs on the driver. Invariant: values are equal if they mean the same. Offsets and spelling of keywords do not
count, so a statement that is written and read again is equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.sql.language.flink_types import FlinkType


@dataclass(frozen=True)
class Fragment:
    """The text of a query or expression as it was written, and its offset in the script."""

    text: str
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Name:
    """A name of one to three parts: catalog, database, object."""

    parts: tuple[str, ...]
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return ".".join(self.parts)


Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PhysicalColumn:
    """A column that is stored."""

    name: str
    type: FlinkType
    comment: str | None = None


@dataclass(frozen=True)
class MetadataColumn:
    """A column that the connector or format fills. A virtual one is not written."""

    name: str
    type: FlinkType
    key: str | None = None
    virtual: bool = False
    comment: str | None = None

    @property
    def metadata_key(self) -> str:
        """Return the key of the metadata, which is the name unless FROM names another one."""
        return self.key or self.name


@dataclass(frozen=True)
class ComputedColumn:
    """A column that is computed when the table is read."""

    name: str
    expression: Fragment
    comment: str | None = None


Column = PhysicalColumn | MetadataColumn | ComputedColumn


@dataclass(frozen=True)
class Watermark:
    """The event time column of a table, and the expression of its watermark."""

    column: str
    expression: Fragment


@dataclass(frozen=True)
class Like:
    """The table that a new table is like, and the options INCLUDING, EXCLUDING, OVERWRITING."""

    table: Name
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE."""

    name: Name
    columns: tuple[Column, ...] = ()
    watermark: Watermark | None = None
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    options: Options = ()
    like: Like | None = None
    query: Fragment | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW."""

    name: Name
    query: Fragment
    columns: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateFunction:
    """CREATE FUNCTION ... LANGUAGE PYTHON [[NOT] DETERMINISTIC]."""

    name: Name
    path: str
    temporary: bool = False
    if_not_exists: bool = False
    is_deterministic: bool = False


@dataclass(frozen=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: Name
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class Select:
    """A query whose rows are shown."""

    query: Fragment


@dataclass(frozen=True)
class OnConflict:
    """ON CONFLICT DO: `action` is NOTHING, ERROR or DEDUPLICATE."""

    action: str
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Insert:
    """INSERT INTO: `columns` is empty if all columns are given in their order."""

    table: Name
    query: Fragment
    columns: tuple[str, ...] = ()
    overwrite: bool = False
    hints: Options = ()
    on_conflict: OnConflict | None = None


@dataclass(frozen=True)
class StatementSet:
    """Several INSERT statements that run as one job."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class SetOption:
    """SET; without a key it shows all options."""

    key: str | None = None
    value: str | None = None
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ResetOption:
    """RESET; without a key it resets all options."""

    key: str | None = None
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Show:
    """SHOW: `what` is e.g. TABLES or CREATE TABLE, `name` the object that some forms need."""

    what: str
    name: Name | None = None
    like: str | None = None


@dataclass(frozen=True)
class Describe:
    """DESCRIBE of a table or view."""

    name: Name


@dataclass(frozen=True)
class StopJob:
    """STOP JOB: the id or name of a job, and whether its savepoint is asked for."""

    job: str
    with_savepoint: bool = False
    offset: int = 0


@dataclass(frozen=True)
class DescribeJob:
    """DESCRIBE JOB: the id or name of a job."""

    job: str
    offset: int = 0


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a query, an INSERT or a statement set."""

    statement: Select | Insert | StatementSet
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drop:
    """DROP: `kind` is TABLE, VIEW, FUNCTION or DATABASE."""

    kind: str
    name: Name
    if_exists: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class Use:
    """USE: the database of names that have no database."""

    name: Name


@dataclass(frozen=True)
class AlterTable:
    """ALTER TABLE: exactly one of the changes is given."""

    name: Name
    if_exists: bool = False
    set_options: Options = ()
    reset_options: tuple[str, ...] = ()
    add: tuple[Column, ...] = ()
    add_watermark: Watermark | None = None
    add_primary_key: tuple[str, ...] = ()
    rename_to: Name | None = None
    rename_column: tuple[str, str] | None = None


Statement = (
    CreateTable
    | CreateView
    | CreateFunction
    | CreateDatabase
    | Select
    | Insert
    | StatementSet
    | SetOption
    | ResetOption
    | Show
    | Describe
    | DescribeJob
    | StopJob
    | Explain
    | Drop
    | Use
    | AlterTable
)
