"""What message formats give: schemas, the table of a schema, and changes.

Runs on driver and executors. Invariant: frozen, and its arrays have one entry for each message or row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.formats.base import RowFailure


@dataclass(frozen=True)
class Schemas:
    """The schemas of some messages.

    Attributes:
        ids: int32, for each message the index of its schema in `texts`. Null for a message without a value
            (a tombstone), and for one that has no schema; `failures` says why.
        texts: each different schema, in the order in which the messages have it first.
        failures: messages with a value whose schema cannot be found.
    """

    ids: pa.Int32Array
    texts: tuple[str, ...]
    failures: Sequence[RowFailure] = ()


@dataclass(frozen=True)
class SourceTable:
    """A table as the schema of a message describes it.

    Attributes:
        name: `schema.table`, or `database.table`, as Debezium spells it.
        columns: with the types that their values get. A column is nullable if the source says so.
        keys: the fields of the record's key; None if the records have no key.
        rest: the column of the fields that are not declared; None without one.
    """

    name: str
    columns: pa.Schema
    keys: tuple[str, ...] | None
    rest: str | None = None


@dataclass(frozen=True)
class Changes:
    """The rows of some messages.

    Attributes:
        rows: in the columns that were asked for.
        kinds: the row kind of each row: +I, -U, +U or -D. An update without its old row is only +U.
        index: int32, the message that each row is from, ascending.
        failures: messages that cannot be read. They give no row.
    """

    rows: pa.RecordBatch
    kinds: pa.StringArray
    index: pa.Int32Array
    failures: Sequence[RowFailure] = ()
