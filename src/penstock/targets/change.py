"""How the columns of a table change between two batches of `penstock.cdc.replicate`.

Runs on the driver; pure. Invariant: a target makes the change together with the rows of the batch, or before
them in a way that does no harm if the batch is repeated. What a target cannot do, it refuses in
`check_change`, before anything of the batch is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from penstock.errors import SchemaError


class Widening(NamedTuple):
    """A column that gets a wider type."""

    name: str
    old: pa.DataType
    new: pa.DataType


@dataclass(frozen=True)
class ColumnChange:
    """What is different since the last batch that had rows of the table.

    Attributes:
        dropped: names of columns that leave the table. They are dropped before columns are added, because a
            new column may have the name of a dropped one.
        added: new columns.
        widened: columns with a wider type.
    """

    dropped: tuple[str, ...] = ()
    added: tuple[pa.Field, ...] = ()
    widened: tuple[Widening, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dropped or self.added or self.widened)


NO_CHANGE = ColumnChange()


@runtime_checkable
class ChangesColumns(Protocol):
    """A target whose columns can change."""

    def check_change(self, change: ColumnChange) -> None:
        """Raise SchemaError if the table cannot change in this way."""


def refuse(target: str, column: str, what: str, advice: str) -> SchemaError:
    """Return the error of a target that cannot follow its source."""
    return SchemaError(
        f"Column '{column}' of {target} {what}. Nothing of the batch was written to it. {advice}",
        column=column,
    )
