"""Rows of slow topic partitions that Spark may drop as late: what prevents it, and a warning if nothing does.

Runs on the driver. Spark has one watermark, which follows the fastest topic partition. Flink's follows the
slowest one. Invariant: a drift that is longer than the delay of the watermark is refused, because it could
not prevent the loss.
"""

from __future__ import annotations

from penstock.options.flink import ALIGNMENT_MAX_DRIFT
from penstock.options.table import EVENT_TIME_COLUMN
from penstock.sql.connectors.described import Kafka
from penstock.sql.connectors.options import WrongOptionError
from penstock.sql.language.statements import MetadataColumn, PhysicalColumn
from penstock.sql.plan.nodes import Changelog
from penstock.sql.run._changing import changes_of
from penstock.sql.run._tables import delay_ms
from penstock.sql.run.catalog import Table

_DRIFT, _COLUMN = ALIGNMENT_MAX_DRIFT.key, EVENT_TIME_COLUMN.key


def check_drift(table: Table) -> None:
    """Check that topic partitions are not further apart than the watermark waits.

    Raises:
        WrongOptionError: the drift is longer than the delay of the watermark.
    """
    mark, connector = table.definition.watermark, table.connector
    if mark is None or not isinstance(connector, Kafka):
        return
    drift_ms = connector.config.stream.source.max_drift_ms or 0
    if drift_ms <= delay_ms(table):
        return
    raise WrongOptionError(
        f"'{_DRIFT}' is {_shown(drift_ms)}, and the WATERMARK waits {_shown(delay_ms(table))}. So Spark "
        "could drop rows of a slower topic partition as late. Declare a WATERMARK with at least that delay: "
        f"{mark.column} - INTERVAL ...",
        _DRIFT,
    )


def late_rows(table: Table) -> str | None:
    """Return a warning if Spark may drop rows of a slower topic partition; None if not.

    `table` is its declaration, with the options of hints.
    """
    mark, connector = table.definition.watermark, table.connector
    if mark is None or not isinstance(connector, Kafka):
        return None
    if changes_of(table) is not Changelog.APPEND:
        return None
    column = next(each for each in table.definition.columns if each.name == mark.column)
    name, delay = str(table.definition.name), delay_ms(table)
    is_of_record = isinstance(column, MetadataColumn) and column.metadata_key == "timestamp"
    is_of_value = isinstance(column, PhysicalColumn) and column.type.name == "TIMESTAMP_LTZ"
    config = connector.config.stream
    by = config.table.event_time if config.table is not None else None
    if config.source.max_drift_ms and (is_of_record if by is None else by.column == column.name):
        return None
    why = (
        f"Spark may drop rows of '{name}' as late that Flink keeps, if its topic has several topic "
        "partitions: Spark's watermark follows the fastest one. "
    )
    if not (is_of_record or is_of_value):
        return f"{why}Give the WATERMARK a delay as long as the topic partitions may be apart."
    first = "" if delay else f"Declare {mark.column} - INTERVAL '5' SECOND as WATERMARK. "
    pair = f"'{_DRIFT}' = '{_shown(delay or 5_000)}'"
    if is_of_value:
        pair += f" and '{_COLUMN}' = '{column.name}'"
    return f"{why}{first}Set {pair} in WITH. A micro-batch then reads at most this length of event time."


def _shown(length_ms: int) -> str:
    for unit, unit_ms in (("min", 60_000), ("s", 1_000)):
        if length_ms and length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms} {unit}"
    return f"{length_ms} ms"
