"""What the scans of one query read of their tables: the columns, and what a read leaves out.

Runs on the driver. Pure. Invariant: all scans of a static table have one read, so that they see the same
rows. So do scans of a stream with the same columns, so that they are one source with one offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.sql.connectors.described import Kafka
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.statements import Options
from penstock.sql.plan.hidden import OFFSETS, PLACE
from penstock.sql.plan.nodes import Scan, Source
from penstock.sql.run._opened import with_columns
from penstock.sql.run.catalog import Table

_WANTED, _KEPT = "scan.filter", "scan.row-filter"


class ScanRead(NamedTuple):
    """A read of a table of the session.

    Attributes:
        table: with the columns that are read.
        options: of the read, which replace those of the table.
        has_offsets: whether it reads offsets.
        has_place: whether it reads where its rows are.
    """

    table: Table
    options: Options
    has_offsets: bool
    has_place: bool = False


class Scans:
    """The scans of one query."""

    def __init__(self, scans: Iterable[Scan]) -> None:
        self._scans = list(scans)

    def of(self, key: object) -> list[Scan]:
        """Return the scans of a table with a hint."""
        return [each for each in self._scans if each.source.key == key]

    def read(self, node: Scan) -> ScanRead:
        """Return the read of a scan of a table of the session."""
        key: Any = node.source.key
        declared, options = key
        scans = [node] if node.source.is_stream else self.of(key)
        return _read_of(declared, (*options, *self._left_out(node)), scans)

    def read_of_all(self, key: Any) -> ScanRead:
        """Return a read that has the rows of all scans of a table."""
        declared, options = key
        return _read_of(declared, options, self.of(key))

    def is_shared(self, read: ScanRead) -> bool:
        """Return whether several scans have this read, so that Spark reads them by one source."""
        return sum(self.read(each) == read for each in self._scans if is_of_table(each.source)) > 1

    def _left_out(self, node: Scan) -> Options:
        """Return the options by which a read leaves out what all of its scans leave out."""
        scans = self.of(node.source.key)
        records = {each.wanted for each in scans}
        rows = {each.kept for each in scans if _has_columns_of(each, node)}
        wanted = (_WANTED, node.wanted if len(records) == 1 else "")
        kept = (_KEPT, node.kept if len(rows) == 1 else "")
        return tuple((option, text) for option, text in (wanted, kept) if text)


def is_of_table(source: Source) -> bool:
    """Return whether a source is a table of the session, and not a view of Spark."""
    key: Any = source.key
    return isinstance(key[0], Table)


def _has_columns_of(one: Scan, other: Scan) -> bool:
    """Return whether two scans of a table have one read: of a stream they need the same columns."""
    of_one, of_other = ({(each.name, each.type) for each in scan.columns} for scan in (one, other))
    return not one.source.is_stream or of_one == of_other


def _read_of(declared: Table, options: Options, scans: list[Scan]) -> ScanRead:
    types: dict[str, list[FlinkType]] = {}
    for scan in scans:
        for each in scan.columns:
            types.setdefault(each.name, []).append(each.type)
    table = with_columns(declared.hinted(options), types)
    has_offsets = isinstance(table.connector, Kafka) and not types.keys().isdisjoint(OFFSETS)
    return ScanRead(table, options, has_offsets, PLACE in types)
