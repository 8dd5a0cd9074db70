"""Rows of slow topic partitions that Spark may drop as late: what prevents it, and a warning if nothing does.

Runs on the driver. Spark has one watermark, which follows the fastest topic partition. Flink's follows the
slowest one. Invariant: a drift that is longer than the delay of the watermark is refused, because it could
not prevent the loss.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.options.values import parse_duration_ms
from penstock.sql.language.statements import MetadataColumn, PhysicalColumn
from penstock.sql.run._changing import Changes, changes_of
from penstock.sql.run._tables import DRIFT, KAFKA, delay_ms
from penstock.sql.run.catalog import Table

_COLUMN = "scan.event-time.column"


def check_drift(table: Table, options: Mapping[str, str]) -> None:
    """Check that topic partitions are not further apart than the watermark waits.

    Raises:
        ValueError: the drift is longer than the delay of the watermark.
    """
    drift_ms, mark = _drift_ms(options), table.definition.watermark
    if mark is None or options.get("connector") not in KAFKA or drift_ms <= delay_ms(table):
        return
    raise ValueError(
        f"'{DRIFT}' is {_shown(drift_ms)}, and the WATERMARK waits {_shown(delay_ms(table))}. So Spark could "
        "drop rows of a slower topic partition as late. Declare a WATERMARK with at least that delay: "
        f"{mark.column} - INTERVAL ..."
    )


def late_rows(table: Table, options: Mapping[str, str], *, is_of_changes: bool = False) -> str | None:
    """Return a warning if Spark may drop rows of a slower topic partition; None if not.

    Args:
        table: its declaration.
        options: of it, with those of hints.
        is_of_changes: whether windows are over rows that change, which have no watermark otherwise.
    """
    mark = table.definition.watermark
    if mark is None or options.get("connector") not in KAFKA:
        return None
    if changes_of(table, dict(options)) is not Changes.INSERTS and not is_of_changes:
        return None
    column = next(each for each in table.definition.columns if each.name == mark.column)
    name, delay = str(table.definition.name), delay_ms(table)
    is_of_record = isinstance(column, MetadataColumn) and (column.key or column.name) == "timestamp"
    is_of_value = isinstance(column, PhysicalColumn) and column.type.name == "TIMESTAMP_LTZ"
    by_column = _given(options, _COLUMN)
    if _drift_ms(options) and (is_of_record if by_column is None else by_column == column.name):
        return None
    why = (
        f"Spark may drop rows of '{name}' as late that Flink keeps, if its topic has several topic "
        "partitions: Spark's watermark follows the fastest one. "
    )
    if not (is_of_record or is_of_value):
        return f"{why}Give the WATERMARK a delay as long as the topic partitions may be apart."
    first = "" if delay else f"Declare {mark.column} - INTERVAL '5' SECOND as WATERMARK. "
    pair = f"'{DRIFT}' = '{_shown(delay or 5_000)}'"
    if is_of_value:
        pair += f" and '{_COLUMN}' = '{column.name}'"
    return f"{why}{first}Set {pair} in WITH. A micro-batch then reads at most this length of event time."


def _drift_ms(options: Mapping[str, str]) -> int:
    text = _given(options, DRIFT)
    return 0 if text is None else parse_duration_ms(text)


def _given(options: Mapping[str, str], key: str) -> str | None:
    return next((value for name, value in options.items() if name.lower() == key), None)


def _shown(length_ms: int) -> str:
    for unit, unit_ms in (("min", 60_000), ("s", 1_000)):
        if length_ms and length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms} {unit}"
    return f"{length_ms} ms"
