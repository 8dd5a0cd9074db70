"""Find out how commands see a table: by the kind of the target.

Runs where `penstock table` runs. Invariant: a target that cannot be handed over is an error that names it.
"""

from __future__ import annotations

from penstock.targets._kept_delta import KeptDelta
from penstock.targets._kept_iceberg import KeptIceberg
from penstock.targets._kept_sql import KeptSql
from penstock.targets.delta import DeltaTable
from penstock.targets.hand_over import KeptTable
from penstock.targets.iceberg import IcebergTable
from penstock.targets.sql import SqlTable


def kept(target: DeltaTable | IcebergTable | SqlTable) -> KeptTable:
    """Return a table as commands see it."""
    if isinstance(target, DeltaTable):
        return KeptDelta(target)
    return KeptIceberg(target) if isinstance(target, IcebergTable) else KeptSql(target)
