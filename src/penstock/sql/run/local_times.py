"""Rows with local times, which look the same on every machine.

Runs on the driver. PySpark gives a TIMESTAMP with a zone in the zone of the machine, a local time as it is.
"""

from __future__ import annotations

from typing import Any

from penstock.sql.query.piece import spark_type
from penstock.sql.query.zones import has_zone, without_zone


def local_rows(frame: Any) -> Any:
    """Return rows in which each TIMESTAMP is a local time in the zone that Spark has now, nested ones too."""
    kinds = [spark_type(field.dataType) for field in frame.schema.fields]
    if not any(map(has_zone, kinds)):
        return frame
    names = [f"c{place}" for place in range(len(kinds))]  # two columns may have one name
    texts = [
        f"CAST({name} AS {without_zone(kind)}) AS {name}" if has_zone(kind) else name
        for name, kind in zip(names, kinds, strict=True)
    ]
    return frame.toDF(*names).selectExpr(*texts).toDF(*frame.columns)
