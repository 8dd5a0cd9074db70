"""Sessions of Spark for tables that are changed by MERGE.

Runs in the user's program and in `foreachBatch`, on Spark classic. Invariant: a session has the settings of
one commit at a time, because Spark takes what a commit says from its session. So each MERGE has a session of
its own, which is used again after it.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructType
from pyspark.util import inheritable_thread_target

from penstock.errors import OptionError
from penstock.spark.connect import is_connect
from penstock.spark.map_rows import map_rows
from penstock.targets.batch import DELETED, Batch
from penstock.targets.change import ColumnChange
from penstock.targets.merged import STAGED_DELETED, MergedTable
from penstock.targets.sql_names import quoted
from penstock.targets.staged import Runner, Staged

_Settings = tuple[str, frozenset[tuple[str, str]]]
_VIEW = "penstock_changes"
_OF_A_STREAM = frozenset({"spark.sql.adaptive.enabled", "spark.sql.cbo.enabled"})
"""Settings that Spark turns off in the session of a stream, and that a MERGE needs."""
_OF_A_SESSION = {"spark.databricks.delta.stalenessLimit": "0"}
"""Settings of each session of its own: Delta must not read an older version than the newest one."""
_MOST_IDLE = 8
_idle: dict[_Settings, list[Any]] = {}
"""Sessions that are used again, by the application and the settings that were copied into them. A session
loads its catalogs once. One of other settings could reach another catalog of the same name, or have other
rights."""
_lock = threading.Lock()


@runtime_checkable
class NeedsSpark(Protocol):
    """A table that Spark changes."""

    def in_session(self, session: Any) -> MergedTable:
        """Return the table in a session of Spark."""


def with_spark(target: Any, df: Any) -> Any:
    """Return the target, with Spark if it needs it.

    Args:
        target: of the user.
        df: the DataFrame that is written.

    Raises:
        OptionError: the target needs Spark, and the DataFrame is of Spark Connect.
    """
    return binder(df)(target) if isinstance(target, NeedsSpark) else target


def binder(df: Any) -> Callable[[Any], Any]:
    """Return what does the same with many targets, in any thread: Spark stops their jobs with the query."""
    session = df.sparkSession
    call = None if is_connect(df) else _call_of(session)

    def bound(target: Any) -> Any:
        if not isinstance(target, NeedsSpark):
            return target
        if call is None:
            raise OptionError(
                f"Spark has to change {target}, and a program of Spark Connect has no session of its own for "
                "each commit. Nothing was written. Use a DeltaTable or an IcebergTable, or start the query "
                "without Spark Connect.",
                option="target",
            )
        return WithSpark(target, session, call)

    return bound


def _call_of(session: Any) -> Callable[[Any], Any]:
    """Return what calls a function with the local properties that this thread has now, in any thread.

    Each call has a copy of its own. Spark writes into the properties of a thread while a statement runs, and
    threads with one object would see the statements and settings of each other.
    """

    def call(function: Any) -> Any:
        return inheritable_thread_target(session)(function)()

    return cast("Callable[[Any], Any]", inheritable_thread_target(session)(call))


@dataclass(frozen=True)
class WithSpark:
    """A table together with the session that changes it.

    Attributes:
        table: of the user.
        session: of the DataFrame that is written.
        call: calls a function with the job group of the query.
    """

    table: Any
    session: Any = field(repr=False)
    call: Any = field(repr=False)
    runs_jobs: ClassVar[Literal[True]] = True
    """So an error of Spark ends a query of many tables, and does not leave the table out."""

    def __str__(self) -> str:
        return str(self.table)

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table can hold these columns."""
        self.table.check(columns, keys)

    def check_change(self, change: ColumnChange) -> None:
        """Check that the columns can change so."""
        self.table.check_change(change)

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table has these columns, if it exists."""
        with own_session(self.session) as own:
            self.table.in_session(own).check_existing(columns, keys)

    def apply(self, batch: Batch | Staged) -> bool:
        """Apply a batch; return False if it was applied before."""

        def applied() -> bool:
            with own_session(self.session) as own:
                return cast("MergedTable", self.table.in_session(own)).apply(batch)

        return cast("bool", self.call(applied))

    def apply_staged(self, batch: Staged, run: Runner) -> bool:
        """Apply a batch whose rows are in files, which the tasks of the MERGE read."""
        return self.apply(batch)


@contextlib.contextmanager
def own_session(session: Any) -> Iterator[SparkSessionOfTable]:
    """Give a session that nothing else uses, with the settings and the catalog of another one."""
    wanted: dict[str, str] = session.conf.getAll
    settings = (session.sparkContext.applicationId, frozenset(wanted.items()))
    with _lock:
        idle = _idle.get(settings)
        own = idle.pop() if idle else None
    if own is None:
        own = session.newSession()
        _copy_settings(wanted, own)
    _copy_current(session, own)
    yield SparkSessionOfTable(own)
    with _lock:  # a session that has failed is not used again
        _idle.setdefault(settings, []).append(own)
        while len(_idle) > _MOST_IDLE:
            del _idle[next(iter(_idle))]


def _copy_settings(wanted: Mapping[str, str], own: Any) -> None:
    """Copy settings into a new session, also those that Spark does not know, such as of a catalog."""
    found = own.conf.getAll
    kept = {**wanted, **_OF_A_SESSION}
    for name, value in kept.items():
        if found.get(name) != value and name not in _OF_A_STREAM:
            with contextlib.suppress(
                AnalysisException
            ):  # one of the whole application, which all sessions have
                own.conf.set(name, value)
    for name in found.keys() - kept.keys() - _OF_A_STREAM:
        with contextlib.suppress(AnalysisException):
            own.conf.unset(name)


def _copy_current(session: Any, own: Any) -> None:
    catalog, schema = session.catalog.currentCatalog(), session.catalog.currentDatabase()
    if own.catalog.currentCatalog() != catalog:
        own.catalog.setCurrentCatalog(catalog)
    if own.catalog.currentDatabase() != schema:
        own.catalog.setCurrentDatabase(schema)


@dataclass(frozen=True)
class SparkSessionOfTable:
    """A session for one batch of one table: see `penstock.targets.merged.Session`."""

    spark: Any = field(repr=False)

    def rows(self, statement: str) -> list[Mapping[str, Any]]:
        """Run a statement of SQL, and return its rows."""
        return [one.asDict() for one in self.spark.sql(statement).collect()]

    def read(
        self, table: str, expressions: Sequence[str], limit: int | None = None
    ) -> list[Mapping[str, Any]]:
        """Return expressions over the rows of a table as it is, also if Spark has cached it.

        Spark takes the rows of a cached table for each plan that is equal. No other plan has this option.
        """
        frame = (
            self.spark.read.option("penstock.read", uuid.uuid4().hex).table(table).selectExpr(*expressions)
        )
        return [one.asDict() for one in (frame if limit is None else frame.limit(limit)).collect()]

    def setting(self, name: str) -> str | None:
        """Return a setting of the session; None without one."""
        found: str | None = self.spark.conf.get(name, None)
        return found

    def has_table(self, name: str) -> bool:
        """Return whether a catalog has the table."""
        return bool(self.spark.catalog.tableExists(name))

    def columns(self, name: str) -> dict[str, str]:
        """Return the names and types of the columns of a table."""
        return {one.name: sql_type(one.dataType) for one in self.spark.table(name).schema.fields}

    def types(self, columns: pa.Schema) -> dict[str, str]:
        """Return the same for columns of Arrow."""
        fields = from_arrow_schema(columns, prefer_timestamp_ntz=True).fields
        return {one.name: sql_type(one.dataType) for one in fields}

    @contextlib.contextmanager
    def set(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Set settings of the session, and unset them at the end."""
        try:
            for name, value in settings.items():
                self.spark.conf.set(name, value)
            yield
        finally:
            for name in settings:
                self.spark.conf.unset(name)

    @contextlib.contextmanager
    def view(self, batch: Batch | Staged) -> Iterator[str]:
        """Give the name of a view with the rows of a batch, and drop it: the session is used again."""
        if isinstance(batch, Batch):
            rows = batch.rows.rename_columns(_names(batch.rows.schema))
            found = self.spark.createDataFrame(rows, schema=_spark_schema(rows.schema))
        else:
            paths = self.spark.createDataFrame(pa.table({"path": list(batch.paths)}))
            spread = paths.repartition(len(batch.paths), "path")
            found = map_rows(spread, StagedSource(batch).run, _spark_schema(_renamed(batch.schema)))
        found.createOrReplaceTempView(_VIEW)
        try:
            yield _VIEW
        finally:
            self.spark.catalog.dropTempView(_VIEW)


@dataclass(frozen=True)
class StagedSource:
    """Reads the rows of a batch in files, for the source of a MERGE. Pickled to the tasks.

    A MERGE may read its source twice, so it is files and not the plan of the batch.
    """

    batch: Staged

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files whose paths are given."""
        schema = _renamed(self.batch.schema)
        for each in batches:
            for path in each.column(0).to_pylist():
                rows = self.batch.rows(path).select(self.batch.schema.names)
                yield from pa.Table.from_arrays(rows.columns, schema=schema).to_batches(10_000)


def sql_type(kind: Any) -> str:
    """Return a type of Spark for a statement of SQL, with the names of fields in backquotes."""
    if isinstance(kind, ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{sql_type(kind.keyType)},{sql_type(kind.valueType)}>"
    if isinstance(kind, StructType):
        fields = (f"{quoted(one.name)}:{sql_type(one.dataType)}" for one in kind.fields)
        return f"struct<{','.join(fields)}>"
    return str(kind.simpleString())


def _names(schema: pa.Schema) -> list[str]:
    return [STAGED_DELETED if name == DELETED else name for name in schema.names]


def _renamed(schema: pa.Schema) -> pa.Schema:
    # A deleted row has only its key, also in columns that are NOT NULL in the table.
    fields = zip(schema, _names(schema), strict=True)
    return pa.schema([one.with_name(name).with_nullable(True) for one, name in fields])


def _spark_schema(schema: pa.Schema) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
