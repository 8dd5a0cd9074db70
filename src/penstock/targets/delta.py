"""A Delta table that is kept equal to a changelog, with the package `deltalake` (the extra `delta`).

Runs on the driver, and with `staging` in tasks (_delta_staged.py); needs no JAR. Guarantee: one commit of
Delta's log changes the rows and the marker. penstock reads the marker and the rows from one version of the
table, and commits the next version only if no other commit has come between. So each batch is applied once,
also if two drivers run.

RESTORE takes the rows back, and not the marker. So each commit also has the number of its batch in its
metadata, and `_delta_log.py` checks what other writers have committed since.

The marker: the number and the digest of the batch are transaction identifiers of Delta (`txn`), which stay in
the log as long as the table. The id of the query is a property of the table, because it never changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.errors import MaterializeError, SchemaError
from penstock.security.location import without_secrets
from penstock.targets._delta_log import check_commits
from penstock.targets._delta_marker import (
    BATCH,
    DIGEST,
    NO_BATCH,
    WRITER_WITH_FEATURES,
    deltalake,
    number_of,
    properties_of,
)
from penstock.targets._delta_rows import STAGED_DELETED, append, merge
from penstock.targets._delta_staged import rows_with, staged_actions, staged_over
from penstock.targets._table_properties import QUERY, check_made_by_penstock, keys_of, new_properties
from penstock.targets.batch import Batch, Changes, ChangesOver
from penstock.targets.change import ColumnChange, refuse
from penstock.targets.hand_over import refuse_former, steps_of
from penstock.targets.marker import Marker, is_applied, marker_of, other_columns, unless_free
from penstock.targets.staged import Runner, Staged, StagedOver

_ATTEMPTS = 10


@dataclass(frozen=True)
class DeltaTable:
    """A Delta table.

    Attributes:
        uri: a path, or a URI such as `s3://bucket/customers`. The table is created if it is missing.
        storage_options: of the package `deltalake`, for access to the storage.
    """

    uri: str = field(repr=False)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"the Delta table {without_secrets(self.uri)}"

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the package is there and the table can hold these columns.

        Raises:
            MissingExtraError: the package `deltalake` is not installed.
            SchemaError: a column has a name of penstock, or a type that Delta does not have.
        """
        schema = deltalake().Schema
        for one in columns:
            if one.name == STAGED_DELETED:
                raise SchemaError(f"Column '{one.name}' has a name of penstock. Rename it.", column=one.name)
            try:
                schema.from_arrow(pa.schema([one]))
            except Exception as error:
                reason = str(error).partition("\n")[0]  # a backtrace of Rust may follow
                raise SchemaError(
                    f"Column '{one.name}' has type {one.type}, which a Delta table cannot hold ({reason}). "
                    "Cast it.",
                    column=one.name,
                ) from error

    def check_change(self, change: ColumnChange) -> None:
        """Check that the columns can change so: deltalake can only add columns.

        Raises:
            SchemaError: a column becomes wider or is dropped.
        """
        for one in change.widened:
            raise refuse(
                str(self),
                one.name,
                f"has to become {one.new}, and deltalake cannot change a type",
                "Use evolve='ignore' while the values fit. Or build the table again with a new checkpoint "
                "and a new state: it then gets the wider type.",
            )
        for name in change.dropped:
            raise refuse(
                str(self),
                name,
                "has to be dropped, and deltalake cannot drop a column",
                "Use evolve='lenient', which keeps the column with null in new rows.",
            )

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that penstock made the table, and the columns and keys if it has rows.

        Raises:
            MaterializeError: it has other columns or keys, or penstock has not made it.
        """
        if not deltalake().DeltaTable.is_deltatable(self.uri, self._options):
            return
        table = self._newest()
        check_made_by_penstock(table.metadata().configuration, str(self))
        if not _is_empty(table):
            self._check_columns(table, keys, columns)

    def apply(self, batch: Batch) -> bool:
        """Apply a batch in one commit; return False if it was applied before.

        Raises:
            MaterializeError: the batch does not follow the last one, has other columns or keys, other
                writers may have changed rows, or they commit all the time.
        """
        return self._apply(batch, lambda table, new: _commit(table, batch, new))

    def apply_staged(self, batch: Staged, run: Runner) -> bool:
        """Apply a batch whose rows are in files, with tasks that read and write the files of the table.

        The tasks need deltalake too. The driver reads the keys of the batch, and commits. It applies a batch
        alone that changes few bytes.

        Args:
            batch: the rows.
            run: runs tasks.

        Raises:
            MaterializeError: as of `apply`, or the table has a feature that files of tasks cannot serve.
        """
        return self._apply(batch, lambda table, new: self._commit_staged(table, batch, run, new))

    def _commit_staged(self, table: Any, batch: Staged, run: Runner, new: Marker) -> None:
        actions = staged_actions(table, batch, str(self), run, self.storage_options)
        if actions is None:
            _commit(table, batch.on_driver(), new)
        else:
            _commit_actions(table, actions, new)

    def apply_over(self, batch: ChangesOver) -> bool:
        """Apply changes that depend on rows of the table, read from the version that the commit follows.

        Args:
            batch: the changes, such as those of a history.

        Raises:
            MaterializeError: as of `apply`, or the table has a feature that own files cannot serve.
        """

        def commit(table: Any, new: Marker) -> None:
            rows = rows_with(table, batch.key_rows, str(self), self.storage_options)
            _commit(table, batch.over(rows), new)

        return self._apply(batch, commit)

    def apply_staged_over(self, batch: StagedOver, run: Runner) -> bool:
        """Apply changes in files that depend on rows of the table, with tasks; see `apply_over`.

        Args:
            batch: the changes, such as those of a history.
            run: runs tasks.

        Raises:
            MaterializeError: as of `apply_over`.
        """

        def commit(table: Any, new: Marker) -> None:
            staged = staged_over(table, batch, str(self), run, self.storage_options)
            if staged is not None:
                self._commit_staged(table, staged, run, new)
                return
            changes = batch.on_driver()
            rows = rows_with(table, changes.key_rows, str(self), self.storage_options)
            _commit(table, changes.over(rows), new)

        return self._apply(batch, commit)

    def _apply(self, batch: Changes, commit: Callable[[Any, Marker], None]) -> bool:
        conflict = deltalake().exceptions.CommitFailedError
        for _ in range(_ATTEMPTS):
            table = self._open(batch)
            try:
                return self._apply_to(table, batch, commit)
            except conflict as error:
                if not self._has_moved(table):
                    raise
                failed = error  # another commit has come between: read the marker again
        raise MaterializeError(
            f"{self} was changed by other writers in each of {_ATTEMPTS} attempts to apply batch "
            f"{batch.batch_id}. Nothing of the batch was written. Spark will repeat it when the query starts "
            "again. Run OPTIMIZE and other writers less often."
        ) from failed

    def _apply_to(self, table: Any, batch: Changes, commit: Callable[[Any, Marker], None]) -> bool:
        """Apply a batch to a version of the table; return False if it was applied before.

        The first batch takes an empty table of another query, and gives it its columns. Each commit fails if
        a newer version is there. If the driver dies between the commits, the next start continues.
        """
        new = marker_of(batch)
        new = Marker(new.query_id, new.batch_id, f"{number_of(new.digest):x}")
        stored = self._stored(table, batch)
        if stored is not None and unless_free(stored, new, lambda: _is_empty(table)) is None:
            self._check_no_features(table, stored, new)
            _take(table, batch)
            stored = None
        is_repeated = is_applied(stored, new, str(self))
        if stored is None:
            self._check_no_rows(table)
            _set_columns(table, batch.columns)
        else:
            check_commits(table, BATCH, stored.batch_id, str(self))
        if is_repeated:
            return False
        if batch.change:
            _add_columns(table, batch.change.added)
        self._check_columns(table, batch.keys, batch.columns)
        commit(table, new)
        return True

    def _open(self, batch: Changes) -> Any:
        """Return the newest version of the table. The first batch creates the table if it is missing."""
        with contextlib.suppress(deltalake().exceptions.TableNotFoundError):
            return self._newest()  # to ask before whether it is there lists the log twice
        if batch.batch_id:
            raise MaterializeError(
                f"{self} does not exist, and batch {batch.batch_id} is not the first of query "
                f"{batch.query_id}: the rows of the batches before it would be missing. Nothing was "
                "written. Restore the table, or start with a new checkpoint."
            )
        self._create(batch)
        return self._newest()

    def _create(self, batch: Changes) -> None:
        """Create the table, unless another driver creates it at the same time, with the same properties."""
        library = deltalake()
        schema = library.Schema.from_arrow(batch.columns)
        try:
            library.DeltaTable.create(
                self.uri,
                schema,
                mode="ignore",
                configuration=new_properties(batch),
                storage_options=self._options,
                raise_if_key_not_exists=False,
            )
        except library.exceptions.CommitFailedError:
            # deltalake looks for a table before it writes, and fails if the other driver's comes between.
            if not library.DeltaTable.is_deltatable(self.uri, self._options):
                raise

    @property
    def _options(self) -> dict[str, str] | None:
        return None if self.storage_options is None else dict(self.storage_options)

    def _newest(self) -> Any:
        return deltalake().DeltaTable(self.uri, storage_options=self._options)

    def _stored(self, table: Any, batch: Changes) -> Marker | None:
        properties = table.metadata().configuration
        check_made_by_penstock(properties, str(self))
        refuse_former(steps_of(properties, str(self)), batch.query_id, str(self))
        number = table.transaction_version(BATCH)
        if number in (None, NO_BATCH):
            is_ours = properties[QUERY] == batch.query_id
            return None if is_ours else Marker(properties[QUERY], NO_BATCH, "")
        return Marker(properties[QUERY], number, f"{table.transaction_version(DIGEST):x}")

    def _check_no_rows(self, table: Any) -> None:
        if not _is_empty(table):
            raise MaterializeError(
                f"{self} has rows that penstock did not write, and the query is at its first batch. Rows "
                "that its source does not have would stay. Nothing of the batch was written. Empty the "
                "table, or name another one."
            )

    def _check_no_features(self, table: Any, stored: Marker, new: Marker) -> None:
        """Raise MaterializeError if the table has features of Delta that a change of its properties extends.

        deltalake 1.6 then adds the feature `variantType`, and readers that do not have it refuse the table.
        """
        protocol = table.protocol()
        if protocol.min_writer_version >= WRITER_WITH_FEATURES:
            features = ", ".join(sorted(protocol.writer_features or []))
            raise MaterializeError(
                f"{self} is empty and kept by query {stored.query_id}. Query {new.query_id} cannot take it, "
                f"because it has the table features {features} (`timestampNtz` is of a column without a time "
                "zone): many readers could not read it afterwards. Nothing was written. Delete the folder "
                "of the table, and start this query again.",
                query_id=new.query_id,
                stored_query_id=stored.query_id,
            )

    def _check_columns(self, table: Any, keys: Sequence[str], columns: pa.Schema) -> None:
        """Raise MaterializeError unless the table has these keys and columns."""
        properties = table.metadata().configuration
        known = keys_of(properties)
        wanted = deltalake().Schema.from_arrow(columns)
        found = {one.name: one.type for one in table.schema().fields}
        if known != tuple(keys) or any(found.get(one.name) != one.type for one in wanted.fields):
            raise other_columns(str(self), (keys, columns.names), (known, list(found)), properties[QUERY])

    def _has_moved(self, table: Any) -> bool:
        return bool(self._newest().version() > table.version())


def _take(table: Any, batch: Changes) -> None:
    """Give an empty version of the table of another query to the query of a batch, without a batch."""
    library = deltalake()
    # Without retries a commit fails if there is a newer version: the other query may have added rows.
    table.alter.set_table_properties(
        new_properties(batch),
        raise_if_not_exists=False,
        commit_properties=library.CommitProperties(
            app_transactions=[library.Transaction(BATCH, NO_BATCH)], max_commit_retries=0
        ),
    )


def _set_columns(table: Any, columns: pa.Schema) -> None:
    """Give an empty version of the table these columns, if it has others."""
    library = deltalake()
    if table.schema() != library.Schema.from_arrow(columns):
        library.write_deltalake(
            table,
            columns.empty_table(),
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=library.CommitProperties(max_commit_retries=0),
        )


def _add_columns(table: Any, added: Sequence[pa.Field]) -> None:
    """Add columns in a commit of their own, before that of the rows. A repeated batch finds them."""
    library = deltalake()
    known = {one.name for one in table.schema().fields}
    missing = [one for one in added if one.name not in known]
    if missing:
        fields = library.Schema.from_arrow(pa.schema(missing)).fields
        properties = library.CommitProperties(max_commit_retries=0)
        table.alter.add_columns(fields, commit_properties=properties)


def _commit(table: Any, batch: Batch, new: Marker) -> None:
    """Commit the version after that of `table`, with the rows and the marker of the batch."""
    before, properties = table.version(), properties_of(new)
    if batch.rows.num_rows and batch.is_append:
        append(table, batch, properties)
    elif batch.rows.num_rows:
        merge(table, batch, properties)
    if table.version() == before:  # no row has changed, and deltalake commits nothing then
        _commit_actions(table, [], new)


def _commit_actions(table: Any, actions: Sequence[Any], new: Marker) -> None:
    """Commit the version after that of `table`, with files that were written, and the marker."""
    properties = properties_of(new)
    table.create_write_transaction(list(actions), "append", table.schema(), commit_properties=properties)


def _is_empty(table: Any) -> bool:
    """Return whether a version of the table has no rows. It reads files until it finds one with rows."""
    return not table.file_uris() or not any(
        each.count_rows() for each in table.to_pyarrow_dataset().get_fragments()
    )
