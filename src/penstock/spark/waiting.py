"""`penstock.changelog.over`, `sessions` and `sort_by_time`: a row waits until its time has passed.

Runs in the user's program, on Spark classic and Connect. Invariant: rows with equal keys go to the same
partition of the state in every batch. One task has all rows of `sort_by_time`, so that the order of its
output is that of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.over.calls import NUMBERS, parse_over_calls
from penstock.changelog.operators.over.operator import Over
from penstock.changelog.operators.sessions import Sessions
from penstock.changelog.operators.sort_by_time import SortByTime
from penstock.errors import OptionError
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
    parsed_calls,
)
from penstock.spark._keyed_frame import apply, arrow, fields_that_wait, rows_that_wait, without_watermark
from penstock.spark.native import WATERMARK, check_rows_come_once, watermark_behind
from penstock.state.columns import check_columns
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def over(  # noqa: PLR0913 - each is a keyword of its own
    df: DataFrame,
    keys: Sequence[str],
    calls: Mapping[str, str],
    *,
    time: str,
    delay: Duration,
    frame: Literal["rows", "range"] = "range",
    preceding: int | Duration | None = None,
    order_by: Sequence[str] = (),
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Return each row with aggregates of the rows of its key before it, in the order of their times.

    A row waits until a row has come that is later by more than `delay`. So rows come out when newer rows
    come. A row is late if the batches before have seen such a row already. Late rows are dropped.

    Args:
        df: append-only rows.
        keys: rows with equal keys are aggregated together.
        calls: the name of each new column and its aggregate: `count(*)`, `row_number()`, `rank()` and
            `dense_rank()` (rows of one time have one rank), `lag(x, 1)`, or `count`, `sum`, `avg`, `min`,
            `max`, `first`, `last` of a column. Sums of integers are BIGINT, averages DOUBLE. Null values do
            not count, except for `lag`.
        time: the time of a row, a TIMESTAMP. It is never null.
        delay: how late rows may come, such as "5 s" or "0 s".
        frame: "range" aggregates all rows up to the time of the row, "rows" those up to the row itself.
        preceding: how far back the frame begins: a number of rows for "rows", a duration for "range". By
            default it has all rows so far. Not beside `row_number()`, `rank()` and `dense_rank()`, which
            count all rows of a key.
        order_by: columns that order rows of one time, such as the offset of the record. Never null. After
            them the values decide.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.

    Returns:
        The columns of `df`, the aggregates, and `row_kind`, which is always +I.

    Raises:
        SchemaError: a column does not exist, or an aggregate does not take its type.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    check_names("keys", keys)
    if order_by:
        check_names("order_by", order_by)
    parsed = parsed_calls(parse_over_calls, calls)
    numbers = [call.function for call in parsed if call.function in NUMBERS]
    if numbers and preceding is not None:
        raise OptionError(
            f"{numbers[0]}() counts all rows of a key, and with `preceding` older rows are forgotten. Leave "
            "`preceding` out, or use another call of `over` for the number.",
            option="preceding",
        )
    used = [*keys, time, *order_by, *(call.column for call in parsed if call.column is not None)]
    rows = _checked(df, used, time, "over")
    delay_ms = duration_ms("delay", delay, is_zero_allowed=True)
    operator = Over(
        arrow(columns_without_kind(rows)),
        tuple(keys),
        time,
        tuple(order_by),
        parsed,
        frame,
        _preceding(frame, preceding),
        1_000 * delay_ms,
        is_bounded=state is None,
    )
    check_columns(operator.out_columns, [])
    new = from_arrow_schema(operator.out_columns, prefer_timestamp_ntz=True)
    out = [*fields_that_wait(df, time, delay_ms), *(new[call.name] for call in parsed)]
    return _applied(rows, operator, out, time, folder_of(state, name), partitions)


def sessions(  # noqa: PLR0913 - each is a keyword of its own
    df: DataFrame,
    keys: Sequence[str],
    *,
    time: str,
    gap: Duration,
    delay: Duration,
    names: tuple[str, str] = ("session_start", "session_end"),
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Return each row with the beginning and the end of the session that it is in.

    A session has the rows of a key of which no two that follow one another are apart by more than `gap`. It
    begins at the time of its first row, and ends `gap` after its last one. Its rows come out when a row has
    come that is later than its end by more than `delay`. A row is late, and dropped, if the batches before
    have seen such a row already, and no session is open that it would be in.

    Args:
        df: append-only rows.
        keys: rows with equal keys are in one session.
        time: the time of a row, a TIMESTAMP. It is never null.
        gap: the longest time between two rows of a session, such as "30 min".
        delay: how late rows may come, such as "5 s" or "0 s".
        names: of the new columns.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.

    Returns:
        The columns of `df`, those of `names`, and `row_kind`, which is always +I.

    Raises:
        SchemaError: a column does not exist, or has another type.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    columns = columns_without_kind(df)
    check_names("keys", keys)
    for column in names:
        if column in columns.fieldNames():
            raise OptionError(
                f"The rows have the column {column!r} already. Choose other `names`.", option="names"
            )
    rows = _checked(df, [*keys, time], time, "sessions")
    delay_ms = duration_ms("delay", delay, is_zero_allowed=True)
    operator = Sessions(
        arrow(columns_without_kind(rows)),
        tuple(keys),
        time,
        1_000 * duration_ms("gap", gap),
        names,
        1_000 * delay_ms,
        is_bounded=state is None,
    )
    check_columns(operator.out_columns, [])
    begins, ends = (StructField(name, columns[time].dataType, nullable=False) for name in names)
    if watermark_behind(df, time, delay_ms):  # rows come out before the watermark passes the end
        ends.metadata = {WATERMARK: columns[time].metadata[WATERMARK]}
    out = [*map(without_watermark, columns.fields), begins, ends]
    return _applied(rows, operator, out, time, folder_of(state, name), partitions)


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
        df: append-only rows.
        time: the time of a row, a TIMESTAMP. It is never null.
        delay: how late rows may come, such as "5 s" or "0 s".
        order_by: columns that order rows of one time, each as `name`, `name asc` or `name desc`. Null is the
            lowest value. After them the values decide.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`. One of them has all rows.

    Returns:
        The columns of `df`, and `row_kind`, which is always +I.

    Raises:
        SchemaError: a column does not exist, or has no order.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    if order_by:
        check_names("order_by", order_by)
    ordered = tuple(map(direction, order_by))
    rows = _checked(df, [time, *(name for name, _ in ordered)], time, "sort_by_time")
    delay_ms = duration_ms("delay", delay, is_zero_allowed=True)
    operator = SortByTime(
        arrow(columns_without_kind(rows)),
        time,
        ordered,
        1_000 * delay_ms,
        is_bounded=state is None,
    )
    out = fields_that_wait(df, time, delay_ms)
    return _applied(rows, operator, out, time, folder_of(state, name), partitions)


def _checked(df: DataFrame, compared: Sequence[str], time: str, function: str) -> DataFrame:
    """Return the rows with the columns that waiting needs, after the checks of the columns."""
    columns = columns_without_kind(df)
    check_columns(arrow(columns), compared)
    check_time(columns, time)
    check_texts(columns, compared)
    check_rows_come_once(df, function)
    return rows_that_wait(df)


def _applied(
    rows: DataFrame,
    operator: Operator,
    out: Sequence[StructField],
    time: str,
    folder: str | None,
    partitions: int | None,
) -> DataFrame:
    lifetime = Lifetime(remembers_deleted=False)
    return apply(rows, operator, StructType([*out, KIND_FIELD]), folder, partitions, lifetime, (time,))


def _preceding(frame: str, preceding: int | Duration | None) -> int | None:
    """Return rows, or microseconds for "range"; None for all."""
    if frame not in ("rows", "range"):
        raise OptionError(f"Expected 'rows' or 'range' for `frame`, got {frame!r}.", option="frame")
    if preceding is None:
        return None
    if frame == "range":
        if isinstance(preceding, int):
            raise OptionError(
                f"Expected a duration such as '5 s' for `preceding`, got {preceding}.", option="preceding"
            )
        return 1_000 * duration_ms("preceding", preceding, is_zero_allowed=True)
    if not isinstance(preceding, int) or preceding < 0:
        raise OptionError(f"Expected a number of rows for `preceding`, got {preceding}.", option="preceding")
    return preceding
