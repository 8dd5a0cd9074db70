"""A table of PostgreSQL or SQLite that is kept equal to a changelog.

Runs on the driver; tasks may copy the rows of large batches (_sql_staged.py). Guarantee: one transaction
changes the rows and the marker, so each batch is applied once, also if it is repeated or if two drivers run:
the marker is locked until the transaction ends. The user gives a function that connects, so penstock needs no
driver of a database and keeps no password.
"""

# ruff: noqa: S608 - names are quoted, and values are parameters

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from penstock.errors import MaterializeError, OptionError, SchemaError
from penstock.state.identity import TOGETHER
from penstock.targets._copy_text import copy_texts
from penstock.targets._dialects import POSTGRESQL, SQLITE, Dialect, dialect_of
from penstock.targets._sql_handed_over import steps_in
from penstock.targets._sql_session import (
    FORMAT,
    HAS_ROWS,
    MARKERS,
    NO_BATCH,
    PARAMETER,
    Session,
    quoted,
    transaction,
)
from penstock.targets._sql_staged import IS_DELETED, CopyFiles, copy_in_tasks, prefix_of, sweep, take
from penstock.targets._sql_values import as_arrow
from penstock.targets.batch import Batch, Changes, ChangesOver, python_values
from penstock.targets.change import ColumnChange
from penstock.targets.drivers import is_of_driver, told
from penstock.targets.hand_over import refuse_former
from penstock.targets.marker import Marker, is_applied, marker_of, unless_free
from penstock.targets.staged import Runner, Staged

T = TypeVar("T")

_OURS = "penstock_"
_STAGED, _KEYS = "penstock_staged", "penstock_keys"
_TARGET = "penstock_target"
"""Stands for the table in statements, because a table may be named like one of their words: `excluded`."""
_UNKNOWN_COUNT = -1
"""What a driver says that does not count rows."""


@dataclass(frozen=True)
class SqlTable:
    """A table of a database.

    Attributes:
        table: its name, or `schema.table`. It is created if it is missing.
        connect: returns a new connection of the Python DB API, e.g. `lambda: psycopg.connect(...)` or
            `lambda: sqlite3.connect("shop.db")`.
        dialect: `postgresql` or `sqlite`.
        executors_copy: whether executors copy the rows of large batches into PostgreSQL, if the query has a
            `staging` folder. `connect` is pickled and runs in their tasks then, at most eight at a time, so
            they need psycopg and what `connect` needs to log in.
    """

    table: str
    connect: Callable[[], Any] = field(repr=False)
    dialect: str = "postgresql"
    executors_copy: bool = False

    def __str__(self) -> str:
        return f"table {self.table} ({self.dialect})"

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table can hold these columns.

        Raises:
            SchemaError: a column has a type that the database does not have, or a name that penstock needs.
            OptionError: the dialect is not known, the table has a name of penstock, a name is too long, the
                table is in an attached database of SQLite, or `executors_copy` is for SQLite.
        """
        dialect = dialect_of(self.dialect)
        if self.executors_copy and dialect is not POSTGRESQL:
            raise OptionError(
                f"`executors_copy` is for PostgreSQL, and not for {self}. Nothing was started. Leave it out.",
                option="executors_copy",
            )
        _check_schema(self.table, dialect)
        if self.table.split(".")[-1].lower().startswith(_OURS):
            raise OptionError(
                f"`table` is {self.table!r}, but tables whose names begin with {_OURS} are penstock's own. "
                "Choose another name.",
                option="table",
                value=self.table,
            )
        for part in self.table.split("."):
            dialect.check_name(part, "table")
        for one in columns:
            dialect.check_name(one.name, "column")
            dialect.column_type(one)
            if one.name.lower() == IS_DELETED:
                raise SchemaError(f"Column '{one.name}' has a name of penstock. Rename it.", column=one.name)

    def check_change(self, change: ColumnChange) -> None:
        """Check that the columns can change so: columns are added, widened and dropped with the rows."""
        dialect = dialect_of(self.dialect)
        for one in (*change.added, *(pa.field(each.name, each.new) for each in change.widened)):
            dialect.column_type(one)

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table has these columns, if it exists.

        Raises:
            MaterializeError: the table exists and a column is missing, or the database does not answer.
        """
        dialect = dialect_of(self.dialect)
        try:
            with transaction(self.connect, dialect, lambda connection: connection.rollback()) as cursor:
                session = Session(self.table, str(self), dialect, cursor)
                if not session.is_found(session.table):
                    return
                found, has_rows = session.columns(), session.has_rows()
        except Exception as error:
            if not is_of_driver(error):
                raise
            raise MaterializeError(
                f"{self} could not be looked at: {told(error)}. Nothing was started. See that the "
                "database can be reached from here and is the right one."
            ) from error
        known = {dialect.one_name(name) for name in found}
        if missing := [name for name in columns.names if dialect.one_name(name) not in known]:
            cure = TOGETHER if has_rows else "It has no rows. Drop it, and the query creates it again."
            raise MaterializeError(
                f"{self} has no column {', '.join(missing)}. It has {', '.join(found)}. Nothing was started. "
                f"{cure}",
                columns=missing,
            )

    def apply(self, batch: Batch) -> bool:
        """Apply a batch in one transaction; return False if it was applied before.

        Raises:
            MaterializeError: the batch does not follow the last one, or the table is not empty at the start.
            OptionError: the connection ends each statement as a transaction of its own.
        """
        return self._in_transaction(batch, lambda apply: apply.run(lambda: apply.stage(batch)))

    @property
    def takes_staging(self) -> bool:
        """Whether executors copy rows. Otherwise the driver reads them from the staging folder."""
        return self.executors_copy

    def apply_staged(self, batch: Staged, run: Runner) -> bool:
        """Apply a batch whose rows are in files, in one transaction; return False if it was applied before.

        Args:
            batch: the rows.
            run: runs tasks.

        Raises:
            MaterializeError: as of `apply`.
            StagedRowsError: rows are not in the folder or in the database any more.
            OptionError: as of `apply`, or executors have another driver than psycopg 3.
        """
        if not self.executors_copy:
            return self.apply(batch.on_driver())
        prefix = prefix_of(batch.query_id, self.table)
        copied = copy_in_tasks(CopyFiles(self.connect, str(self), prefix, batch), run)

        def move(cursor: Any, into: str, names: str) -> None:
            take(cursor, into, names, batch, copied, str(self))

        is_new = self._in_transaction(batch, lambda apply: apply.run(lambda: apply.take(move)))
        sweep(self.connect, prefix)
        return is_new

    def apply_over(self, batch: ChangesOver) -> bool:
        """Apply changes that depend on rows of the table, in one transaction that reads and writes them.

        Args:
            batch: the changes, such as those of a history.

        Raises:
            MaterializeError: as of `apply`.
            OptionError: as of `apply`.
        """
        return self._in_transaction(
            batch, lambda apply: apply.run(lambda: apply.stage(batch.over(apply.rows_with(batch.key_rows))))
        )

    def merge(self, batch: Batch) -> None:
        """Insert, update and delete the rows of a batch in one transaction, without a marker.

        It is for batch queries, which have no numbers: the same batch may be merged again.

        Raises:
            OptionError: the connection ends each statement as a transaction of its own.
        """
        self._in_transaction(batch, lambda apply: apply.merge_only(batch))

    def _in_transaction(self, batch: Changes, work: Callable[[_Apply], T]) -> T:
        dialect = dialect_of(self.dialect)
        with transaction(self.connect, dialect, lambda connection: self._commit(connection, batch)) as cursor:
            return work(_Apply(self, dialect, cursor, batch))

    def _commit(self, connection: Any, batch: Changes) -> None:
        try:
            connection.commit()
        except Exception as error:
            if any(kind.__name__ == "IntegrityError" for kind in type(error).__mro__):
                raise  # a deferred constraint, so nothing was written
            raise MaterializeError(
                f"The database did not confirm the commit of batch {batch.batch_id} of {self} "
                f"({type(error).__name__}: {error}). It is unknown whether the whole batch was applied or "
                "nothing of it. Start the query again. Spark repeats the batch, and the marker says if it "
                "was applied.",
                batch_id=batch.batch_id,
            ) from error


def _check_schema(table: str, dialect: Dialect) -> None:
    """Raise OptionError if a table of SQLite is in another file than its marker."""
    schema, dot, _ = table.rpartition(".")
    if dialect is SQLITE and dot and schema.lower() != "main":
        raise OptionError(
            f"`table` is {table!r}, in the attached database {schema!r}. SQLite may commit each file by "
            "itself, so after a crash the rows and the marker could differ. Let `connect` open the file that "
            "has the table, and name the table without a schema.",
            option="table",
            value=table,
        )


class _Apply:
    """The statements of one transaction."""

    def __init__(self, target: SqlTable, dialect: Dialect, cursor: Any, batch: Changes) -> None:
        self._session = Session(target.table, str(target), dialect, cursor)
        self._target = target
        self._dialect = dialect
        self._cursor = cursor
        self._batch = batch
        self._staged = f"{dialect.temporary}.{_STAGED}"  # the user may have a table of this name
        self._marked = ""
        self._had_rows = False
        self._table = self._session.table
        self._columns = list(batch.columns)

    def run(self, stage: Callable[[], int]) -> bool:
        """Apply the batch, and return whether it was new.

        Args:
            stage: brings the rows into a temporary table, after the table was locked. Returns how many of
                them are not deleted.
        """
        stored, new = self._stored_marker(), marker_of(self._batch)
        if stored is None or stored.query_id != new.query_id:
            steps = steps_in(self._session, self._cursor, self._marked)
            refuse_former(steps, new.query_id, str(self._target))
        stored = unless_free(stored, new, self._is_empty)
        is_repeated = is_applied(stored, new, str(self._target))
        if stored is None:
            self._check_no_rows()
        elif self._had_rows:
            self._check_rows(stored)
        if is_repeated:
            return False
        if self._batch.change:
            self._change_columns(self._batch.change)
        self._merge(stage())
        self._session.execute(
            f"UPDATE {MARKERS} SET query_id = {PARAMETER}, batch_id = {PARAMETER}, digest = {PARAMETER}, "
            f"format = {PARAMETER} WHERE target = {PARAMETER}",
            new.query_id,
            new.batch_id,
            new.digest if self._is_empty() else new.digest + HAS_ROWS,
            FORMAT,
            self._marked,
        )
        return True

    def merge_only(self, batch: Batch) -> None:
        """Merge the batch into the table, which may have rows."""
        self._session.lock()
        self._session.create(self._table, self._definitions())
        self._merge(self.stage(batch))

    def _stored_marker(self) -> Marker | None:
        """Read the marker, and lock it until the transaction ends."""
        self._session.lock()
        self._session.create(
            MARKERS,
            "target VARCHAR(500) PRIMARY KEY, query_id VARCHAR(100) NOT NULL, batch_id BIGINT NOT NULL, "
            "digest VARCHAR(100) NOT NULL, format INTEGER NOT NULL",
        )
        self._marked = self._session.marked_name()
        # The update waits for another transaction that has the row, so two drivers do not both apply a batch.
        self._session.execute(
            f"INSERT INTO {MARKERS} VALUES ({PARAMETER}, '', {NO_BATCH}, '', {FORMAT}) "
            "ON CONFLICT (target) DO UPDATE SET target = excluded.target",
            self._marked,
        )
        self._session.execute(
            f"SELECT query_id, batch_id, digest, format FROM {MARKERS} WHERE target = {PARAMETER}",
            self._marked,
        )
        query_id, batch_id, digest, version = self._cursor.fetchone()
        if version != FORMAT:
            raise MaterializeError(
                f"The marker of {self._target} has version {version}, and this version of penstock reads "
                f"version {FORMAT}. Nothing of the batch was written. Use the newer penstock."
            )
        self._had_rows = digest.endswith(HAS_ROWS)
        return None if batch_id == NO_BATCH else Marker(query_id, batch_id, digest.removesuffix(HAS_ROWS))

    def _is_empty(self) -> bool:
        """Return whether the table has no rows. Creates it if it is missing."""
        self._session.create(self._table, self._definitions())
        return not self._session.has_rows()

    def _check_rows(self, stored: Marker) -> None:
        """Raise MaterializeError if another program has emptied or dropped the table since the last batch."""
        if self._is_empty():
            raise MaterializeError(
                f"{self._target} had rows after batch {stored.batch_id} of query {stored.query_id}, and is "
                "missing or empty now. Another program has dropped or emptied it. Rows that do not change "
                "again would be missing. Nothing was written. Restore the table, or build it again. "
                f"{TOGETHER}",
                query_id=stored.query_id,
                batch_id=stored.batch_id,
            )

    def _check_no_rows(self) -> None:
        if not self._is_empty():
            raise MaterializeError(
                f"{self._target} has rows that penstock did not write, and the query is at its first batch. "
                "Rows that its source does not have would stay. Nothing of the batch was written. Empty the "
                "table, or name another one."
            )

    def _change_columns(self, change: ColumnChange) -> None:
        """Change the columns in the transaction of the rows."""
        one_name = self._dialect.one_name
        for name in change.dropped:
            if one_name(name) in map(one_name, self._session.columns()):
                self._session.execute(f"ALTER TABLE {self._table} DROP COLUMN {quoted(name)}")
        for one in change.added:
            if one_name(one.name) in map(one_name, self._session.columns()):
                raise MaterializeError(
                    f"{self._target} has a column {one.name} that penstock has not added, and its source has "
                    "a new column of this name. Nothing of the batch was written to the table. Drop or "
                    "rename the column of the table.",
                    column=one.name,
                )
            definition = f"{quoted(one.name)} {self._dialect.column_type(one)}"
            self._session.execute(f"ALTER TABLE {self._table} ADD COLUMN {definition}")
        if self._dialect is POSTGRESQL:  # a column of SQLite holds values of any type
            for each in change.widened:
                wider = self._dialect.column_type(pa.field(each.name, each.new))
                self._session.execute(
                    f"ALTER TABLE {self._table} ALTER COLUMN {quoted(each.name)} TYPE {wider}"
                )

    def rows_with(self, key_rows: pa.Table) -> pa.Table:
        """Return the rows of the table that have one of some keys."""
        names = key_rows.column_names
        kinds = {one.name: self._dialect.column_type(one) for one in self._columns}
        staged = f"{self._dialect.temporary}.{_KEYS}"
        self._session.execute(f"DROP TABLE IF EXISTS {staged}")
        definitions = ", ".join(f"{quoted(name)} {kinds[name]}" for name in names)
        self._session.execute(f"CREATE TEMPORARY TABLE {_KEYS} ({definitions})")
        marks = ", ".join([PARAMETER] * len(names))
        statement = self._session.spelled(f"INSERT INTO {staged} VALUES ({marks})")
        for part in key_rows.to_batches(max_chunksize=10_000):
            self._cursor.executemany(statement, list(zip(*self._values_of(part), strict=True)))
        same = " AND ".join(f"{_KEYS}.{name} = {_TARGET}.{name}" for name in map(quoted, names))
        self._session.execute(
            f"SELECT {', '.join(self._names())} FROM {self._table} AS {_TARGET} WHERE EXISTS "
            f"(SELECT 1 FROM {staged} AS {_KEYS} WHERE {same})"
        )
        found = as_arrow(self._cursor.fetchall(), pa.schema(self._columns))
        self._session.execute(f"DROP TABLE {staged}")
        return found

    def take(self, move: Callable[[Any, str, str], None]) -> int:
        """Bring rows that are in the database into the temporary table, and return how many are not deleted.

        Args:
            move: does it. Gets the cursor, the table and its columns.
        """
        move(self._cursor, self._staged, self._create_staged())
        self._session.execute(f"SELECT count(*) FROM {self._staged} WHERE {IS_DELETED} = 0")
        count: int = self._cursor.fetchone()[0]
        return count

    def stage(self, batch: Batch) -> int:
        """Bring rows of the driver into the temporary table, and return how many are not deleted."""
        names = self._create_staged()
        if self._dialect is POSTGRESQL and hasattr(self._cursor, "copy"):  # of psycopg; other drivers differ
            self._copy(names, batch)
        else:
            self._insert(names, batch)
        count: int = batch.upserted().num_rows
        return count

    def _create_staged(self) -> str:
        """Create the temporary table, and return its columns."""
        self._session.execute(f"DROP TABLE IF EXISTS {self._staged}")
        self._session.execute(
            f"CREATE TEMPORARY TABLE {self._staged} ({self._definitions(f'{IS_DELETED} INTEGER, ')})"
        )
        return ", ".join([*self._names(), IS_DELETED])

    def _insert(self, names: str, batch: Batch) -> None:
        marks = ", ".join([PARAMETER] * (len(self._columns) + 1))
        statement = self._session.spelled(f"INSERT INTO {self._staged} ({names}) VALUES ({marks})")
        for values in self._values(batch):
            self._cursor.executemany(statement, values)

    def _copy(self, names: str, batch: Batch) -> None:
        with self._cursor.copy(f"COPY {self._staged} ({names}) FROM STDIN") as target:
            for text in copy_texts(batch.rows, batch.keys):
                target.write(text)
        if self._cursor.rowcount != batch.rows.num_rows:
            raise MaterializeError(
                f"The database took {self._cursor.rowcount} of the {batch.rows.num_rows} rows of batch "
                f"{self._batch.batch_id} of {self._target} by COPY. Nothing of the batch was written. Start "
                "the query again, which repeats the batch, and report this error."
            )

    def _merge(self, upserted: int) -> None:
        """Merge the rows of the temporary table, of which so many are not deleted.

        PostgreSQL merges them in the order of their keys, so that neighbours in the table and its index are
        changed together: in another order it takes twice the time. COPY sends them in about this order too.
        """
        keys = [quoted(key) for key in self._batch.keys]
        same = " AND ".join(f"{_STAGED}.{key} = {_TARGET}.{key}" for key in keys)
        self._session.execute(
            f"DELETE FROM {self._table} AS {_TARGET} WHERE EXISTS (SELECT 1 FROM {self._staged} AS {_STAGED} "
            f"WHERE {same} AND {_STAGED}.{IS_DELETED} = 1)"
        )
        names = self._names()
        changes = [f"{name} = excluded.{name}" for name in names if name not in keys]
        order = f"ORDER BY {', '.join(keys)}" if self._dialect is POSTGRESQL else ""
        action = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
        self._session.execute(
            f"INSERT INTO {self._table} AS {_TARGET} ({', '.join(names)}) SELECT {', '.join(names)} FROM "
            f"{self._staged} WHERE {IS_DELETED} = 0 {order} ON CONFLICT ({', '.join(keys)}) DO {action}"
        )
        if changes:
            self._check_count(upserted)
        self._session.execute(f"DROP TABLE {self._staged}")

    def _check_count(self, expected: int) -> None:
        """Raise MaterializeError if the database has left rows out, as a trigger of the table may do."""
        count = self._cursor.rowcount
        if count not in (expected, _UNKNOWN_COUNT):
            raise MaterializeError(
                f"{self._target} took {count} of the {expected} rows of batch {self._batch.batch_id} and "
                "gave no error. A trigger or a constraint of the table leaves rows out. Nothing of the batch "
                "was written. Change the table, or filter the rows before materialize."
            )

    def _definitions(self, first: str = "") -> str:
        columns = (f"{quoted(one.name)} {self._dialect.column_type(one)}" for one in self._columns)
        keys = ", ".join(quoted(key) for key in self._batch.keys)
        return f"{first}{', '.join(columns)}, PRIMARY KEY ({keys})"

    def _names(self) -> list[str]:
        return [quoted(one.name) for one in self._columns]

    def _values(self, batch: Batch) -> Iterator[list[tuple[Any, ...]]]:
        """Return the rows for the driver of the database, in parts."""
        for part in batch.rows.to_batches(max_chunksize=10_000):
            deleted = map(int, part.columns[-1].to_pylist())
            yield list(zip(*self._values_of(part.select(part.schema.names[:-1])), deleted, strict=True))

    def _values_of(self, part: pa.RecordBatch) -> list[list[Any]]:
        """Return the columns of rows for the driver of the database."""
        value = self._dialect.value
        return [
            [value(one) for one in python_values(column, name)]
            for column, name in zip(part.columns, part.schema.names, strict=True)
        ]
