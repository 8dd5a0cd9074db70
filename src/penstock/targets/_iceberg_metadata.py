"""The metadata of Iceberg tables, without copies of all snapshots and without reading a file twice.

Runs on the driver, and imports the package `pyiceberg`, so import it where it is used. A table that gets a
batch each 300 ms has thousands of snapshots after an hour, and pyiceberg copies and parses all of them
several times in a commit. Invariants: each load asks the catalog for the newest file of metadata. Only a file
that this process has read or written last is not parsed again, because a file of metadata is written once,
under a name of its own. pyiceberg changes no metadata in place (tests/contract/test_pyiceberg.py).
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

Item = TypeVar("Item")
_SNAPSHOTS_AT_MOST = 20_000
"""The snapshots of all tables that are remembered: about 4 KB of memory each."""


class Shared(list[Item]):
    """A list that copies of its owner share, with its items."""

    def __deepcopy__(self, memo: Any) -> Shared[Item]:
        return self

    def __add__(self, other: Iterable[Any]) -> Shared[Any]:
        return Shared([*self, *other])

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Shared(found) if isinstance(index, slice) else found


def with_shared(metadata: TableMetadata) -> TableMetadata:
    """Return the same metadata, whose deep copies share the lists that grow with each commit."""
    names = "snapshots", "snapshot_log", "metadata_log"
    return metadata.model_copy(update={name: Shared(getattr(metadata, name)) for name in names})


class Memory:
    """The newest metadata of tables.

    Args:
        snapshots_at_most: of all tables together. The table that was not used for longest is forgotten first.
    """

    def __init__(self, snapshots_at_most: int) -> None:
        self._at_most, self._lock = snapshots_at_most, Lock()
        self._tables = OrderedDict[tuple[str, ...], tuple[str, TableMetadata]]()

    def get(self, name: tuple[str, ...], location: str) -> TableMetadata | None:
        """Return the metadata in a file; None if another file, or none, is remembered for the table."""
        with self._lock:
            known = self._tables.get(name)
        return known[1] if known is not None and known[0] == location else None

    def put(self, name: tuple[str, ...], location: str, metadata: TableMetadata) -> None:
        """Remember the metadata in a file instead of those before."""
        with self._lock:
            self._tables.pop(name, None)
            self._tables[name] = location, metadata
            while self._size() > self._at_most:
                self._tables.popitem(last=False)

    def _size(self) -> int:
        return sum(1 + len(metadata.snapshots) for _, metadata in self._tables.values())


MEMORY = Memory(_SNAPSHOTS_AT_MOST)


def remember(table: Table) -> None:
    """Remember the metadata of a table that was loaded or has been committed."""
    MEMORY.put((table.catalog.name, *table.name()), table.metadata_location, table.metadata)


def load_quickly(catalog: Catalog) -> None:
    """Let a catalog in a database parse no file of metadata that is remembered, also while it commits."""
    sql = sys.modules.get("pyiceberg.catalog.sql")
    if sql is not None and type(catalog) is sql.SqlCatalog:  # one of a derived class may load in another way
        catalog.load_table = _QuickLoad(catalog, sql)  # type: ignore[method-assign]  # of this one only


class _QuickLoad:
    """The method `load_table` of a catalog in a database.

    Args:
        catalog: whose method it becomes.
        sql: the module of its class.
    """

    def __init__(self, catalog: Any, sql: Any) -> None:
        self._catalog, self._sql, self._load = catalog, sql, catalog.load_table

    def __call__(self, identifier: str | tuple[str, ...]) -> Table:
        """Return the table as it is now."""
        name = Catalog.identifier_to_tuple(identifier)
        location = self._location(name)
        metadata = None if location is None else MEMORY.get((self._catalog.name, *name), location)
        if location is None or metadata is None:
            table: Table = self._load(identifier)
            table.metadata = with_shared(table.metadata)
            remember(table)
            return table
        io = load_file_io({**self._catalog.properties, **metadata.properties}, location)
        return Table(name, metadata, location, io, self._catalog)

    def _location(self, name: tuple[str, ...]) -> str | None:
        """Return the file with the metadata of a table; None if the catalog has no such table."""
        row = self._sql.IcebergTables
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(name))
        wanted = (self._catalog.name, namespace, Catalog.table_name_from(name))
        columns = row.catalog_name, row.table_namespace, row.table_name
        query = self._sql.select(row.metadata_location).where(
            *(column == value for column, value in zip(columns, wanted, strict=True))
        )
        with self._catalog.engine.connect() as connection:
            found: str | None = connection.scalar(query)
        return found
