"""Tables that Spark changes by MERGE, with the JAR of the platform: what both formats have in common.

Runs on the driver; MERGE runs on executors. Guarantee: one commit has the rows and the marker of a batch, and
penstock judges the marker before. A MERGE cannot be bound to the version that was judged. So penstock looks
again after it, and before the next batch, and a foreign commit in between is an error (`_merge_log.py`).
Knows no Spark: a `Session` does what it is asked.

The libraries repeat commits on their own. Delta puts the files of a MERGE on top of a newer version that does
not conflict, and begins a MERGE again on the newest version if it has lost its source. Iceberg reads the
table again just before each attempt of a commit, also with `commit.retry.num-retries` = 0. None of this can
lose or double a row unseen, because the commit says which version was judged: a foreign commit under it is
found, and so is another commit of the same batch.
"""

# ruff: noqa: S608 - the name of a table is checked, and names of columns are quoted

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import MaterializeError, PenstockError, SchemaError
from penstock.targets._merge_log import Commit, Log, said_by
from penstock.targets._merge_properties import Made, made_in, new_properties
from penstock.targets._variants import Variants
from penstock.targets.batch import Batch, Changes, LastRows
from penstock.targets.change import ColumnChange, refuse
from penstock.targets.marker import Marker, is_applied, marker_of, other_columns, unless_free
from penstock.targets.sql_names import quoted, text_of
from penstock.targets.staged import Staged

STAGED_DELETED = "penstock_deleted"
"""The column of the source of a MERGE that says that a row is deleted."""
_NO_BATCH = -1
_ATTEMPTS = 10
_LOST_RACE = "CommitFailedException"
"""Iceberg says it also if the other commit has no snapshot, such as a change of properties."""


class Session(Protocol):
    """A session of Spark that only one batch of one table uses at a time."""

    def rows(self, statement: str) -> list[Mapping[str, Any]]:
        """Run a statement of SQL, and return its rows."""

    def read(
        self, table: str, expressions: Sequence[str], limit: int | None = None
    ) -> list[Mapping[str, Any]]:
        """Return expressions over the rows of a table as it is, also if Spark has cached it."""

    def setting(self, name: str) -> str | None:
        """Return a setting of the session; None without one."""

    def has_table(self, name: str) -> bool:
        """Return whether a catalog has the table."""

    def columns(self, name: str) -> dict[str, str]:
        """Return the names and types of the columns of a table, in Spark's words."""

    def types(self, columns: pa.Schema) -> dict[str, str]:
        """Return the same for columns of Arrow."""

    def set(self, settings: Mapping[str, str]) -> AbstractContextManager[None]:
        """Set settings of the session, and unset them at the end."""

    def view(self, batch: Batch | Staged) -> AbstractContextManager[str]:
        """Give the name of a view with the rows of a batch, and drop the view at the end.

        `STAGED_DELETED` says what is deleted.
        """


class TableFormat(Protocol):
    """What is different between Delta and Iceberg."""

    @property
    def name(self) -> str:
        """The word after `USING`."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Of a new table."""

    @property
    def variant_properties(self) -> Mapping[str, str]:
        """Of a new table with a column of the type VARIANT, beside the others."""

    @property
    def variant_advice(self) -> str:
        """Say what a table with such a column needs."""

    @property
    def has_hidden_renames(self) -> bool:
        """Whether a column can be renamed, or dropped and added again, without a commit in the log."""

    def check_session(self, session: Session, target: str) -> None:
        """Raise OptionError if a setting of the session sends rows elsewhere than into the table."""

    def held(self, columns: pa.Schema) -> pa.Schema:
        """Return columns with the types that a table of this format has for them."""

    def refresh(self, session: Session, table: str) -> None:
        """Let the session forget what it knows of the table."""

    def is_empty(self, session: Session, table: str) -> bool:
        """Return whether the table has no rows, or at least no file that could have some."""

    def commits(self, session: Session, table: str) -> Iterable[Commit]:
        """Yield the commits of the table that its log has, the newest first."""

    def settings(self, said: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that write what penstock says into the next commit of a MERGE."""


def check_names(columns: pa.Schema) -> None:
    """Raise SchemaError if a column has the name that the source of a MERGE adds."""
    for name in columns.names:
        if name.lower() == STAGED_DELETED:
            raise SchemaError(f"Column '{name}' has a name of penstock. Rename it.", column=name)


def check_change(target: str, change: ColumnChange, held: Callable[[pa.Schema], pa.Schema]) -> None:
    """Raise SchemaError if a column of the table becomes wider or is dropped: only new ones are followed.

    Args:
        target: names the table in messages.
        change: of the columns of the query.
        held: returns the columns with the types that the table has for them. One type may hold both.
    """
    for one in change.widened:
        if held(pa.schema([(one.name, one.old)])) == held(pa.schema([(one.name, one.new)])):
            continue
        raise refuse(
            target,
            one.name,
            f"has to become {one.new}, and penstock does not change a type by Spark",
            "Use evolve='ignore' while the values fit. Or build the table again with a new checkpoint and a "
            "new state: it then gets the wider type.",
        )
    for name in change.dropped:
        raise refuse(
            target,
            name,
            "has to be dropped, and penstock does not drop a column by Spark",
            "Use evolve='lenient', which keeps the column with null in new rows.",
        )


@dataclass(frozen=True)
class MergedTable:
    """A table in a session of Spark.

    Attributes:
        identifier: as it stands in SQL, with each part in backquotes.
        target: names it in messages.
        format: of the table.
        session: of Spark.
        variants: the columns that the table keeps as VARIANT.
    """

    identifier: str
    target: str
    format: TableFormat
    session: Session
    variants: Variants = field(default_factory=Variants)

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Raise MaterializeError if the table exists and is not that of a query with these columns."""
        self.format.check_session(self.session, self.target)
        if self.session.has_table(self.identifier):
            self.format.refresh(self.session, self.identifier)
            self._check_columns(keys, columns)

    def apply(self, batch: Batch | Staged) -> bool:
        """Apply a batch in one commit; return False if it was applied before.

        Raises:
            MaterializeError: the batch does not follow the last one, has other columns or keys, another
                writer may have changed rows, or other writers commit all the time.
            OptionError: a setting sends rows elsewhere, or the table cannot have a VARIANT.
            RowError: a text for a VARIANT is not JSON.
            SchemaError: `variants` names a column that cannot be one.
        """
        self.variants.check(batch.columns, batch.keys)
        self.format.check_session(self.session, self.target)
        new = marker_of(batch)
        failed: Exception | None = None
        for _ in range(_ATTEMPTS):
            log = self._opened(batch)
            try:
                if self._take(log, batch, new) or self._add_columns(log, batch, new):
                    continue  # a commit of its own has come: read the marker again
                if is_applied(log.last(), new, self.target):
                    return False
                self._check_columns(batch.keys, batch.columns)
                self._merge(batch, new, log.version)
            except PenstockError:
                raise
            except Exception as error:
                if self._opened(batch).version == log.version and _LOST_RACE not in str(error):
                    raise
                failed = error  # another commit has come between: read the marker again
                continue
            self._check_done(batch, new)
            return True
        raise MaterializeError(
            f"{self.target} was changed by other writers in each of {_ATTEMPTS} attempts to apply batch "
            f"{batch.batch_id}. Nothing of the batch was written. Spark will repeat it when the query starts "
            "again. Run OPTIMIZE, compaction and other writers less often."
        ) from failed

    def _opened(self, batch: Changes) -> Log:
        """Return the commits of the table as it is now. The first batch creates it if it is missing."""
        if not self.session.has_table(self.identifier):
            if batch.batch_id:
                raise MaterializeError(
                    f"{self.target} does not exist, and batch {batch.batch_id} is not the first of query "
                    f"{batch.query_id}: the rows of the batches before it would be missing. Nothing was "
                    "written. Restore the table, or start with a new checkpoint."
                )
            self._create(batch)
        self.format.refresh(self.session, self.identifier)
        return Log(self.target, self.format.commits(self.session, self.identifier))

    def _create(self, batch: Changes) -> None:
        """Create the table, unless another driver creates it at the same time, with the same properties."""
        types = self._types(batch.columns)
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
        properties = {**new_properties(batch), **self.format.properties}
        if self.variants.names:
            properties |= self.format.variant_properties
        listed = ", ".join(f"{text_of(name)} = {text_of(value)}" for name, value in properties.items())
        with self.variants.columns_explained(self.format.variant_advice):
            self.session.rows(
                f"CREATE TABLE IF NOT EXISTS {self.identifier} ({columns}) USING {self.format.name} "
                f"TBLPROPERTIES ({listed})"
            )

    def _take(self, log: Log, batch: Batch | Staged, new: Marker) -> bool:
        """Return whether the table was given to the query of a first batch now.

        Its commit has a marker and no rows. So it also shows, before the first row, whether this Spark
        writes the marker.

        Raises:
            MaterializeError: the table has rows that penstock does not know, or it is of another query.
        """
        stored, owner = log.last(), self._made().query_id
        if stored is None and owner != new.query_id:
            stored = Marker(owner, _NO_BATCH, "")
        if stored is None and new.batch_id:
            log.check()  # its error says that the log has lost the commit of the last batch
        if stored is not None and unless_free(stored, new, self._is_empty) is not None:
            return False
        if not self._is_empty():
            raise MaterializeError(
                f"{self.target} has rows that penstock did not write, and the query is at its first batch. "
                "Rows that its source does not have would stay. Nothing of the batch was written. Empty the "
                "table, or name another one."
            )
        self._check_columns(batch.keys, batch.columns)
        nothing = LastRows(batch.keys, batch.columns).schema.empty_table()
        first = Batch(batch.query_id, _NO_BATCH, batch.keys, nothing)
        marker = Marker(new.query_id, _NO_BATCH, "")
        self._merge(first, marker, log.version)
        self._check_done(batch, marker)
        return True

    def _add_columns(self, log: Log, batch: Batch | Staged, new: Marker) -> bool:
        """Return whether the table got new columns now. A repeated batch finds them."""
        is_repeated = is_applied(log.last(), new, self.target)
        log.check()
        added = pa.schema(batch.change.added)
        if is_repeated or not (missing := set(added.names) - set(self.session.columns(self.identifier))):
            return False
        types = self._types(pa.schema([one for one in added if one.name in missing]))
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
        with self.variants.columns_explained(self.format.variant_advice):
            self.session.rows(f"ALTER TABLE {self.identifier} ADD COLUMNS ({columns})")
        return True

    def _merge(self, batch: Batch | Staged, marker: Marker, version: int) -> None:
        # Each value goes to the column of its name, whatever the order of columns in the table is.
        values = {quoted(name): self.variants.value(name, batch.batch_id) for name in batch.columns.names}
        same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in batch.keys)
        changed = ", ".join(f"t.{name} = {value}" for name, value in values.items())
        said = self.format.settings(said_by(marker, version))
        with (
            self.session.view(batch) as view,
            self.session.set(said),
            self.variants.rows_explained(batch.batch_id),
        ):
            self.session.rows(
                f"MERGE INTO {self.identifier} AS t USING {view} AS s ON {same} "
                f"WHEN MATCHED AND s.{STAGED_DELETED} THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET {changed} "
                f"WHEN NOT MATCHED AND NOT s.{STAGED_DELETED} THEN INSERT ({', '.join(values)}) "
                f"VALUES ({', '.join(values.values())})"
            )

    def _check_done(self, batch: Changes, new: Marker) -> None:
        """Check after a MERGE that its commit has the marker, and that nothing foreign is under it.

        Raises:
            MaterializeError: see there.
        """
        log = self._opened(batch)
        found = log.last()
        if found is None or found != new:
            last = "no marker" if found is None else f"batch {found.batch_id} of query {found.query_id}"
            raise MaterializeError(
                f"MERGE of batch {batch.batch_id} of query {new.query_id} into {self.target} has ended, and "
                f"the newest marker in the log is another one ({last}). Either this Spark does not write the "
                "metadata of a commit (Iceberg's JAR 1.10 does not), or another driver has applied a batch "
                "meanwhile. It is unknown whether the rows of this batch were written. Let one driver run, "
                "and start the query again: the marker says which batches the table has.",
                batch_id=batch.batch_id,
                query_id=new.query_id,
            )
        log.check()

    def _made(self) -> Made:
        found = self.session.rows(f"SHOW TBLPROPERTIES {self.identifier}")
        return made_in({str(one["key"]): str(one["value"]) for one in found}, self.target)

    def _check_columns(self, keys: Sequence[str], columns: pa.Schema) -> None:
        """Raise MaterializeError unless the table has these keys and columns."""
        made, found = self._made(), self.session.columns(self.identifier)
        wanted = self._types(columns)
        self.variants.check_types(wanted, found)
        if made.keys != tuple(keys) or any(found.get(name) != kind for name, kind in wanted.items()):
            raise other_columns(self.target, (keys, columns.names), (made.keys, list(found)), made.query_id)
        order = [name for name in found if name in wanted]
        if self.format.has_hidden_renames and order != list(wanted):
            raise _moved(self.target, columns.names, order)

    def _types(self, columns: pa.Schema) -> dict[str, str]:
        return self.variants.types(self.session.types(self.format.held(columns)))

    def _is_empty(self) -> bool:
        return self.format.is_empty(self.session, self.identifier)


def _moved(target: str, wanted: Sequence[str], found: Sequence[str]) -> MaterializeError:
    return MaterializeError(
        f"The query has its columns in the order {', '.join(wanted)}, and {target} has them in the order "
        f"{', '.join(found)}. A column that was renamed, or dropped and added again, moves so, and the log "
        "of the table does not show it. Then values may be lost, or stand in another column. Nothing was "
        "written. If a column was only moved, in the table or in the query, move it back (ALTER TABLE ... "
        "ALTER COLUMN name AFTER other). Otherwise build the table again with a new checkpoint."
    )
