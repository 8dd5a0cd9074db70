"""`penstock.changelog.sort_by_time`: the rows of a stream in the order of their times.

Runs in the user's program, on Spark classic and Connect. Invariant: one task has all rows, so that the order
of its output is that of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from penstock.changelog.operators.sort_by_time import SortByTime
from penstock.spark._arguments import (
    KIND_FIELD,
    Duration,
    check_names,
    check_texts,
    check_time,
    columns_without_kind,
    direction,
    duration_ms,
    folder_of,
)
from penstock.spark._keyed_frame import apply, arrow, rows_that_wait
from penstock.spark.native import check_rows_come_once
from penstock.state.columns import check_columns
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sort_by_time(
    df: DataFrame,
    *,
    time: str,
    delay: Duration,
    order_by: Sequence[str] = (),
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Return the rows in the order of their times, as Flink's ORDER BY of a time attribute does.

    A row waits until a row has come that is later by more than `delay`. So rows come out when newer rows
    come. A row is late if the batches before have seen such a row already. Late rows are dropped. One task
    has all rows: do not shuffle them behind it.

    Args:
        df: rows that are only inserted.
        time: the time of a row, a TIMESTAMP. It is never null.
        delay: how late rows may come, such as "5 s" or "0 s".
        order_by: columns that order rows of one time, each as `name`, `name asc` or `name desc`. Null is the
            lowest value. After them the values decide.
        state: the folder of the operator, as for `normalize`.
        name: of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`. One of them has all rows.

    Returns:
        The columns of `df`, and `row_kind`, which is always +I.

    Raises:
        SchemaError: a column does not exist, or has no order.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    columns = columns_without_kind(df)
    if order_by:
        check_names("order_by", order_by)
    ordered = tuple(map(direction, order_by))
    check_columns(arrow(columns), [time, *(name for name, _ in ordered)])
    check_texts(columns, [name for name, _ in ordered])
    check_time(columns, time)
    check_rows_come_once(df, "sort_by_time")
    rows = rows_that_wait(df)
    operator = SortByTime(
        arrow(columns_without_kind(rows)),
        time,
        ordered,
        1_000 * duration_ms("delay", delay, is_zero_allowed=True),
        is_bounded=state is None,
    )
    out = StructType([*columns.fields, KIND_FIELD])
    return apply(
        rows, operator, out, folder_of(state, name), partitions, Lifetime(remembers_deleted=False), (time,)
    )
