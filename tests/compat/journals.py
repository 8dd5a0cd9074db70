"""The journal of `penstock.cdc.replicate`, as penstock writes it now.

The values are here: a later version has to read the files of an earlier one as these values.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.cdc.journal import Decided, Journal, TableColumns, TableState, rest_mark

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
REST = "rest"
_DECLARED = TableColumns(
    2,
    pa.schema([pa.field("id", pa.int64(), False), (REST, pa.string())]),
    ("id",),
    "shop.prices",
    frozenset({"00112233445566778899aabbccddeeff"}) | rest_mark(REST),
)
BATCHES = (
    Decided({"goods": TableState(_FIRST, 0, "3-0000000000000001-0000000000000002", _FIRST)}),
    Decided({"goods": TableState(_SECOND, 0, None, _FIRST)}, {"log": "no key"}),
    Decided(
        {
            "goods": TableState(_SECOND, 0, None, _FIRST),
            "prices": TableState(_DECLARED, 0, "1-0000000000000003-0000000000000004", _DECLARED),
        },
        {"log": "no key"},
    ),
)
_COLUMNS = ({"goods": _FIRST}, {"goods": _SECOND}, {"prices": _DECLARED})


def write(folder: Path) -> None:
    """Write the journal of three batches.

    The second one adds a column, and leaves a topic out. The third one has a table whose column `REST` gets
    the fields that are not declared.
    """
    journal = Journal(str(folder))
    for number, (columns, decided) in enumerate(zip(_COLUMNS, BATCHES, strict=True)):
        journal.before(QUERY, number)
        journal.decide_columns(number, columns)
        journal.decide(number, decided)
