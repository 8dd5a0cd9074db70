"""Operators over changelogs: tables that change, as rows with the column `row_kind` (+I, -U, +U, -D).

`ROW_KIND` is the name of the column. docs/changelogs.md names the guides.

Inside:

    row_kinds.py    the four kinds
    operators/      pure functions of a batch and the rows that they kept before. They know no Spark

Invariant: the functions for DataFrames, such as `normalize`, are in `penstock.spark`, and load when they are
first used.
"""

from penstock._lazy import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__, needs_sources=True)
