"""The types of Flink's SQL.

Runs on the driver. Invariant: a type that is written and read again is equal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """A field of a ROW."""

    name: str
    type: FlinkType
    comment: str | None = None


@dataclass(frozen=True)
class FlinkType:
    """A type under its canonical name.

    Attributes:
        name: e.g. `INT`, `VARCHAR`, `TIMESTAMP_LTZ`, `ARRAY`, `ROW`.
        args: the lengths and precisions that were written.
        elements: the types inside of ARRAY, MULTISET and MAP.
        fields: of a ROW.
        unit: of an INTERVAL, e.g. `DAY TO SECOND`.
        nullable: False after NOT NULL.
    """

    name: str
    args: tuple[int, ...] = ()
    elements: tuple[FlinkType, ...] = ()
    fields: tuple[Field, ...] = ()
    unit: str = ""
    nullable: bool = True
