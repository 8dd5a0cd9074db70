"""The journal of `penstock.cdc.replicate`, as penstock writes it now.

The values are here: a later version has to read the files of an earlier one as these values.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.cdc.journal import Decided, Journal, TableColumns, TableState

QUERY = "8c19773b-93ee-4f08-a627-63d7f625a574"
_FIRST = TableColumns(
    0,
    pa.schema(
        [
            pa.field("id", pa.int64(), False),
            ("price", pa.decimal128(12, 3)),
            ("at", pa.timestamp("us", "UTC")),
        ]
    ),
    ("id",),
    "shop.goods",
    frozenset({"0123456789abcdef0123456789abcdef"}),
)
_SECOND = TableColumns(
    1,
    pa.schema([*_FIRST.columns, ("note", pa.string())]),
    ("id",),
    "shop.goods",
    frozenset({*_FIRST.schemas, "fedcba9876543210fedcba9876543210"}),
)
BATCHES = (
    Decided({"goods": TableState(_FIRST, 0, "3-0000000000000001-0000000000000002", _FIRST)}),
    Decided({"goods": TableState(_SECOND, 0, None, _FIRST)}, {"log": "no key"}),
)
_COLUMNS = (_FIRST, _SECOND)


def write(folder: Path) -> None:
    """Write the journal of two batches: the second one adds a column, and leaves a topic out."""
    journal = Journal(str(folder))
    for number, (columns, decided) in enumerate(zip(_COLUMNS, BATCHES, strict=True)):
        journal.before(QUERY, number)
        journal.decide_columns(number, {"goods": columns})
        journal.decide(number, decided)
