"""Queries whose times do not depend on the zone of the session, and which run in UTC.

Runs on the driver. Spark has watermarks of TIMESTAMP with a zone only, and cuts windows at UTC. So a column
TIMESTAMP with a watermark travels as the same local time in UTC. Where the session is in another zone, Spark
analyses and runs such a query in UTC.

Invariant: a query that runs in UTC for a session of another zone has no TIMESTAMP_LTZ and no function that
asks for the zone. So its rows are those of every zone. What asks for the zone is refused with line and
column.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.errors import SqlError
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.types import text_of_spark

_NAME_OR_ZONED = re.compile(r"`(?:[^`]|``)*`|\btimestamp\b(?!:)", re.IGNORECASE)
"""A name in backticks, or a TIMESTAMP with a zone. A name without backticks has a colon behind it."""
_ASK_FOR_ZONE = (
    "CURRENT_DATE",
    "CURRENT_ROW_TIMESTAMP",
    "CURRENT_TIMESTAMP",
    "FROM_UNIXTIME",
    "LOCALTIMESTAMP",
    "NOW",
    "PROCTIME",
    "TO_TIMESTAMP_LTZ",
    "UNIX_TIMESTAMP",
)
"""Functions that give a TIMESTAMP_LTZ, or depend on the zone."""
SET_UTC = "SET 'table.local-time-zone' = 'UTC'."


class NeedsUtcError(Exception):
    """A query has to be translated again, in UTC.

    Attributes:
        refusal: the error for a session that cannot do this.
    """

    def __init__(self, refusal: SqlError) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def asks_for_zone(name: str, count: int) -> bool:
    """Return whether a function with this many arguments gives a TIMESTAMP_LTZ or depends on the zone."""
    return name in _ASK_FOR_ZONE and (count > 0 or name != "UNIX_TIMESTAMP")


def is_zoned(kind: FlinkType) -> bool:
    """Return whether a type of Flink is or has a TIMESTAMP_LTZ."""
    inner = (*kind.elements, *(each.type for each in kind.fields))
    return kind.name == "TIMESTAMP_LTZ" or any(map(is_zoned, inner))


def has_zone(kind: str) -> bool:
    """Return whether a type of Spark (from `spark_type`) is or has a TIMESTAMP with a zone."""
    return any(not found[0].startswith("`") for found in _NAME_OR_ZONED.finditer(kind))


def without_zone(kind: str) -> str:
    """Return the type of Spark in which each TIMESTAMP has no zone."""
    return _NAME_OR_ZONED.sub(lambda found: found[0] if found[0].startswith("`") else "timestamp_ntz", kind)


def depends_on_zone(what: str, zone: str) -> str:
    """Return the message for a part of a query that depends on the zone of the session."""
    return (
        f"{what} depends on the time zone of the session, {zone}. A query with a WATERMARK or a window runs "
        f"in UTC, where it would be another time. {SET_UTC}"
    )


def local_rows(frame: Any) -> Any:
    """Return rows in which each TIMESTAMP is a local time in the zone that Spark has now, nested ones too.

    PySpark gives a TIMESTAMP with a zone in the zone of the machine, a local time as it is.
    """
    kinds = [text_of_spark(field.dataType) for field in frame.schema.fields]
    if not any(map(has_zone, kinds)):
        return frame
    names = [f"c{index}" for index in range(len(kinds))]  # two columns may have one name
    texts = [
        f"CAST({name} AS {without_zone(kind)}) AS {name}" if has_zone(kind) else name
        for name, kind in zip(names, kinds, strict=True)
    ]
    return frame.toDF(*names).selectExpr(*texts).toDF(*frame.columns)
