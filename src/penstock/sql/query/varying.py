"""Functions that may give another value when they are computed again: clocks, RAND, functions of the user.

Runs on the driver. Invariant: such a function is not computed for rows that change. When a row is taken back,
the second value would not be the first one, so the old row would stay, or a sum would be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.query.rows import Varies, VaryingColumn

STRATEGY = "table.optimizer.non-deterministic-update.strategy"
_WHY = "It may give another value when a row is taken back, so old rows would stay in the result."


@dataclass(frozen=True)
class VaryingCall:
    """A call of such a function, or a column with such a value.

    Attributes:
        name: of the function or column.
        varies: how often it may give another value.
        why: of a column, what gives its value.
    """

    name: str
    varies: Varies
    why: str = ""

    @property
    def shown(self) -> str:
        """Return what stands in the query."""
        return f"the column '{self.name}' ({self.why})" if self.why else self.name


def refusal(call: VaryingCall, cause: str) -> str:
    """Return why a function is refused, and what to do.

    Args:
        call: of the function.
        cause: what changes the rows; "" if it is unknown.
    """
    said = f" ({cause})" if cause else ""
    return f"{call.shown} over rows that change{said} is refused. {_WHY} {_advice(call)}"


def _advice(call: VaryingCall) -> str:
    if call.varies is Varies.RECORD:
        return (
            "Declare a PRIMARY KEY and SET 'table.exec.source.cdc-events-duplicate' = 'true', so that the "
            "old row is kept with its metadata. Or use it only in the outermost SELECT, from this table "
            "alone, without WHERE and other clauses."
        )
    ignore = f"To accept wrong rows, SET '{STRATEGY}' = 'IGNORE'."
    if call.varies is Varies.BATCH:
        return (
            "Use a time of the record. Or show the value only in the outermost SELECT of an INSERT, as a "
            f"column that is not in the PRIMARY KEY of an 'upsert-kafka' or 'jdbc' table. {ignore}"
        )
    if call.name.upper() == "RAND":
        return f"Use a value of the record, e.g. one made of MD5. {ignore}"
    return (
        "If equal arguments always give equal values, say so: CREATE FUNCTION ... LANGUAGE PYTHON "
        f"DETERMINISTIC. {ignore}"
    )


def varying_column(name: str, calls: list[VaryingCall]) -> VaryingColumn | None:
    """Return a computed column that calls such functions; None if it calls none."""
    if not calls:
        return None
    often = Varies.CALL if any(each.varies is Varies.CALL for each in calls) else Varies.BATCH
    return VaryingColumn(name, ", ".join(dict.fromkeys(each.name for each in calls)), often)


def warning(call: VaryingCall) -> str:
    """Return what a function does that was accepted over rows that change."""
    return (
        f"{call.shown} over rows that change may give another value when a row is taken back. Old rows may "
        f"stay in the result, and sums may be wrong, because '{STRATEGY}' is IGNORE."
    )
