"""An Iceberg table that is kept equal to a changelog, with the package `pyiceberg` (the extra `iceberg`).

Runs on the driver; needs no JAR. Guarantee: one commit of the catalog changes the rows and the marker.
penstock reads the marker and the rows from one snapshot of the table. The commit requires that this is still
the current one, so each batch is applied once, also if two drivers run.

A batch is one snapshot, which has the marker, also if the batch is empty. The first development versions
wrote up to three for a batch. Only the last one has the marker, so a rollback between them is found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock.errors import MaterializeError, OptionError, SchemaError
from penstock.targets import _iceberg_changes
from penstock.targets._iceberg_changes import FileChanges, library
from penstock.targets._iceberg_columns import change_columns
from penstock.targets._iceberg_snapshots import last_marker, owner_of, properties_of
from penstock.targets._iceberg_staged import staged_changes, staged_over
from penstock.targets._table_properties import (
    OF_ICEBERG,
    QUERY,
    check_made_by_penstock,
    check_no_retries,
    keys_of,
    new_properties,
)
from penstock.targets.batch import Batch, Changes, ChangesOver
from penstock.targets.change import ColumnChange, refuse
from penstock.targets.hand_over import refuse_former, steps_of
from penstock.targets.marker import Marker, is_applied, marker_of, other_columns
from penstock.targets.staged import Runner, Staged, StagedOver

_ATTEMPTS = 10


@dataclass(frozen=True)
class IcebergTable:
    """An Iceberg table.

    Attributes:
        identifier: `namespace.table`. The table is created if it is missing, the namespace is not.
        catalog: the name of a catalog in the configuration of pyiceberg.
        properties: of the catalog, such as `type`, `uri` and `warehouse`. They add to the configuration.
    """

    identifier: str
    catalog: str = "default"
    properties: Mapping[str, str] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"the Iceberg table {self.identifier}"

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the package is there and the table can hold these columns.

        Raises:
            MissingExtraError: the package `pyiceberg` is not installed.
            OptionError: the identifier has no namespace.
            SchemaError: a column has a type that Iceberg does not have, or a key has a type or name that a
                key cannot have.
        """
        library("catalog")
        if "." not in self.identifier:
            raise OptionError(
                f"Expected `namespace.table` for `identifier`, got {self.identifier!r}.",
                option="identifier",
                value=self.identifier,
            )
        for one in columns:
            _check_column(one)
            if one.name in keys:
                _check_key(one)

    def check_change(self, change: ColumnChange) -> None:
        """Check that the columns can change so: Iceberg adds, drops and widens, but keeps a decimal's scale.

        Raises:
            SchemaError: a type cannot become this one.
        """
        for one in change.widened:
            if kinds.is_decimal(one.new) and one.new.scale != one.old.scale:
                raise refuse(
                    str(self),
                    one.name,
                    f"has to become {one.new} from {one.old}, and Iceberg does not change the scale of "
                    "decimals",
                    "Use evolve='ignore' while the values fit. Or build the table again with a new "
                    "checkpoint and a new state: it then gets the wider type.",
                )

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table has exactly these columns and keys, if it exists.

        Raises:
            MaterializeError: it has other columns or keys, or penstock has not made it.
        """
        with library("catalog").load_catalog(self.catalog, **(self.properties or {})) as catalog:
            if catalog.table_exists(self.identifier):
                table = catalog.load_table(self.identifier)
                check_made_by_penstock(table.properties, str(self))
                self._check_columns(table, keys, columns)

    def apply(self, batch: Batch) -> bool:
        """Apply a batch in one commit; return False if it was applied before.

        Raises:
            MaterializeError: the batch does not follow the last one, has other columns or keys, other
                writers may have changed rows, or they commit all the time.
            RowError: pyiceberg would change a null of a row.
        """
        return self._apply(batch, lambda table: _iceberg_changes.changes_of(table, batch, str(self)))

    def apply_staged(self, batch: Staged, run: Runner) -> bool:
        """Apply a batch whose rows are in files, with tasks that read and write the files of the table.

        The tasks need pyiceberg too. The driver reads the keys of the batch, and commits.

        Args:
            batch: the rows.
            run: runs tasks.

        Raises:
            MaterializeError: as of `apply`.
            RowError: as of `apply`.
        """
        return self._apply(batch, lambda table: staged_changes(table, batch, str(self), run))

    def apply_over(self, batch: ChangesOver) -> bool:
        """Apply changes that depend on rows of the table, read from the snapshot that the commit follows.

        Args:
            batch: the changes, such as those of a history.

        Raises:
            MaterializeError: as of `apply`.
            RowError: as of `apply`.
        """

        def changes_of(table: Any) -> FileChanges:
            rows = _iceberg_changes.rows_with(table, batch.key_rows)
            return _iceberg_changes.changes_of(table, batch.over(rows), str(self))

        return self._apply(batch, changes_of)

    def apply_staged_over(self, batch: StagedOver, run: Runner) -> bool:
        """Apply changes in files that depend on rows of the table, with tasks; see `apply_over`.

        Args:
            batch: the changes, such as those of a history.
            run: runs tasks.

        Raises:
            MaterializeError: as of `apply`.
            RowError: as of `apply`.
        """

        def changes_of(table: Any) -> FileChanges:
            return staged_changes(table, staged_over(table, batch, run), str(self), run)

        return self._apply(batch, changes_of)

    def _apply(self, batch: Changes, changes_of: Callable[[Any], FileChanges]) -> bool:
        conflict = library("exceptions").CommitFailedException
        with library("catalog").load_catalog(self.catalog, **(self.properties or {})) as catalog:
            _metadata().load_quickly(catalog)
            is_changed = not batch.change
            for _ in range(_ATTEMPTS):
                table = self._open(catalog, batch)
                new = marker_of(batch)
                check_no_retries(table.properties, str(self))
                refuse_former(steps_of(table.properties, str(self)), batch.query_id, str(self))
                is_taken = _may_take(table, batch)
                if not is_taken and is_applied(self._stored(table, batch), new, str(self)):
                    return False
                if not is_changed:
                    try:
                        change_columns(table, batch.change)
                        is_changed = True
                    except conflict as error:
                        failed = error
                    continue  # another driver may have committed batches: read the marker again
                self._check_columns(table, batch.keys, batch.columns)
                changes = changes_of(table)
                try:
                    _commit(table, changes, new, new_properties(batch) if is_taken else {})
                except conflict as error:
                    if catalog.load_table(self.identifier).metadata_location == table.metadata_location:
                        raise
                    failed = error
                    continue  # another commit has come between: read the marker again
                return True
        raise MaterializeError(
            f"{self} was changed by other writers in each of {_ATTEMPTS} attempts to apply batch "
            f"{batch.batch_id}. Nothing of the batch was written. Spark will repeat it when the query starts "
            "again. Run compaction and other writers less often."
        ) from failed

    def _open(self, catalog: Any, batch: Changes) -> Any:
        """Return the table as it is now. The first batch creates it if it is missing."""
        errors = library("exceptions")
        with contextlib.suppress(errors.NoSuchTableError):
            table = catalog.load_table(self.identifier)  # to ask before whether it exists loads it twice
            table.metadata = _metadata().with_shared(table.metadata)
            return table
        if batch.batch_id:
            raise MaterializeError(
                f"{self} does not exist, and batch {batch.batch_id} is not the first of query "
                f"{batch.query_id}: the rows of the batches before it would be missing. Nothing was "
                "written. Restore the table, or start with a new checkpoint."
            )
        properties = {**new_properties(batch), **OF_ICEBERG}
        try:
            # Another driver may create it at the same time, with the same properties.
            catalog.create_table_if_not_exists(self.identifier, batch.columns, properties=properties)
        except errors.NoSuchNamespaceError as error:
            raise OptionError(
                f"The catalog has no namespace for {self}. Nothing was written. Create it.",
                option="identifier",
                value=self.identifier,
            ) from error
        return catalog.load_table(self.identifier)

    def _stored(self, table: Any, batch: Changes) -> Marker | None:
        stored, query_id = last_marker(table, str(self)), table.properties[QUERY]
        return Marker(query_id, -1, "") if stored is None and query_id != batch.query_id else stored

    def _check_columns(self, table: Any, keys: Sequence[str], columns: pa.Schema) -> None:
        """Raise MaterializeError unless the table has the keys and exactly the columns of a query."""
        known, found = keys_of(table.properties), table.schema()
        if known != tuple(keys) or _types(found) != _types(_with_ids(columns)):
            owner = owner_of(table, table.properties[QUERY])
            raise other_columns(str(self), (keys, columns.names), (known, found.as_arrow().names), owner)


def _may_take(table: Any, batch: Changes) -> bool:
    """Return whether the batch is the first of its query, and the table an empty one of another query."""
    query_id = owner_of(table, table.properties[QUERY])
    is_of_another = batch.batch_id == 0 and query_id != batch.query_id
    return is_of_another and table.scan().count() == 0


def _commit(table: Any, changes: FileChanges, new: Marker, properties: Mapping[str, str]) -> None:
    """Commit rows and marker of the batch, if the table has not changed since it was loaded.

    Args:
        table: as it was loaded.
        changes: the files.
        new: the marker.
        properties: of the table, to be set with it.
    """
    from penstock.targets._iceberg_transaction import OneCopy  # noqa: PLC0415 - imports pyiceberg

    with OneCopy(table) as transaction:
        if properties:
            transaction.set_properties(dict(properties))
        changes.commit(transaction, properties_of(new))
    _metadata().remember(table)


def _metadata() -> Any:
    from penstock.targets import _iceberg_metadata  # noqa: PLC0415 - imports pyiceberg

    return _iceberg_metadata


def _check_column(column: pa.Field) -> None:
    is_unsigned = kinds.is_unsigned_integer(column.type)  # pyiceberg would write it as a signed one
    try:
        if is_unsigned:
            raise TypeError("an unsigned integer")
        _with_ids(pa.schema([column]))
    except Exception as error:
        raise SchemaError(
            f"Column '{column.name}' has type {column.type}, which an Iceberg table cannot hold ({error}). "
            "Cast it.",
            column=column.name,
        ) from error


def _check_key(column: pa.Field) -> None:
    if kinds.is_floating(column.type) or kinds.is_nested(column.type):
        raise SchemaError(
            f"Column '{column.name}' has type {column.type}, and a key of an Iceberg table cannot have it. "
            "Cast it.",
            column=column.name,
        )
    if "." in column.name:  # pyiceberg would search for a field in a struct
        raise SchemaError(
            f"Column '{column.name}' is a key, and the name of a key of an Iceberg table cannot have a dot. "
            "Rename it.",
            column=column.name,
        )


def _with_ids(schema: pa.Schema) -> Any:
    """Return the schema of Iceberg for columns of Arrow, as `create_table` makes it."""
    convert = library("io.pyarrow")._pyarrow_to_schema_without_ids  # noqa: SLF001 - the version is bounded
    return library("schema").assign_fresh_schema_ids(convert(schema))


def _types(schema: Any) -> dict[str, pa.DataType]:
    return {one.name: one.type for one in schema.as_arrow()}
