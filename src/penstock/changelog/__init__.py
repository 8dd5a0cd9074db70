"""Operators over changelogs: tables that change, as rows with the column `row_kind` (+I, -U, +U, -D).

    row_kinds.py    the four kinds
    operators/      pure functions of a batch and the rows that they kept before. They know no Spark

Invariant: `penstock.changelog.normalize` and the other functions for DataFrames are in
`penstock.spark.changelog`, and load when they are first used. docs/changelogs.md is the guide.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.changelog import aggregate as aggregate
    from penstock.spark.changelog import deduplicate as deduplicate
    from penstock.spark.changelog import normalize as normalize
    from penstock.spark.changelog import top_n as top_n

_FUNCTIONS = {"aggregate", "deduplicate", "normalize", "top_n"}


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module("penstock.spark.changelog"), name)
    raise AttributeError(f"module 'penstock.changelog' has no attribute {name!r}")
