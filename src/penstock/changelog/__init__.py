"""Operators over changelogs: tables that change, as rows with the column `row_kind` (+I, -U, +U, -D).

    row_kinds.py    the four kinds
    operators/      pure functions of a batch and the rows that they kept before. They know no Spark

Invariant: `penstock.changelog.normalize` and the other functions for DataFrames are in `penstock.spark`,
and load when they are first used. docs/changelogs.md is the guide.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.changelog import aggregate as aggregate
    from penstock.spark.changelog import deduplicate as deduplicate
    from penstock.spark.changelog import join as join
    from penstock.spark.changelog import normalize as normalize
    from penstock.spark.changelog import temporal_join as temporal_join
    from penstock.spark.changelog import top_n as top_n
    from penstock.spark.in_order import in_order as in_order
    from penstock.spark.materialize import materialize as materialize
    from penstock.spark.over import over as over
    from penstock.spark.sessions import sessions as sessions
    from penstock.spark.signed_sums import signed_sums as signed_sums
    from penstock.spark.sort_by_time import sort_by_time as sort_by_time

_OPERATORS = "penstock.spark.changelog"
_HOMES = {
    "aggregate": _OPERATORS,
    "deduplicate": _OPERATORS,
    "in_order": "penstock.spark.in_order",
    "join": _OPERATORS,
    "materialize": "penstock.spark.materialize",
    "normalize": _OPERATORS,
    "over": "penstock.spark.over",
    "sessions": "penstock.spark.sessions",
    "signed_sums": "penstock.spark.signed_sums",
    "sort_by_time": "penstock.spark.sort_by_time",
    "temporal_join": _OPERATORS,
    "top_n": _OPERATORS,
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'penstock.changelog' has no attribute {name!r}")
