"""`penstock.changelog.over`: each row with aggregates of the rows of its key before it.

Runs in the user's program, on Spark classic and Connect. Invariant: rows with equal keys go to the same
partition of the state in every batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType, TimestampType

from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.over.calls import OverCall, parse_over_calls
from penstock.changelog.operators.over.operator import Over
from penstock.changelog.operators.temporal_join import CLOCK
from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import OptionError, SchemaError
from penstock.options.values import parse_duration_ms
from penstock.spark._keyed_frame import apply, arrow, quoted
from penstock.state.columns import check_columns
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Duration = str | timedelta
_KIND_FIELD = StructField(ROW_KIND, StringType(), nullable=False)


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
    partitions: int | None = None,
) -> DataFrame:
    """Return each row with aggregates of the rows of its key before it, in the order of their times.

    A row waits until a row has come that is later by more than `delay`. So rows come out when newer rows
    come. A row is late if the batches before have seen such a row already. Late rows are dropped.

    Args:
        df: rows that are only inserted.
        keys: rows with equal keys are aggregated together.
        calls: the name of each new column and its aggregate: `count(*)`, `row_number()`, `lag(x, 1)`, or
            `count`, `sum`, `avg`, `min`, `max`, `first`, `last` of a column. Sums of integers are BIGINT,
            averages DOUBLE. Null values do not count, except for `lag`.
        time: the time of a row, a TIMESTAMP. It is never null.
        delay: how late rows may come, such as "5 s" or "0 s".
        frame: "range" aggregates all rows up to the time of the row, "rows" those up to the row itself.
        preceding: how far back the frame begins: a number of rows for "rows", a duration for "range". By
            default it has all rows so far.
        order_by: columns that order rows of one time, such as the offset of the record. Never null. After
            them the values decide.
        state: the folder of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.

    Returns:
        The columns of `df`, the aggregates, and `row_kind`, which is always +I.

    Raises:
        SchemaError: a column does not exist, or an aggregate does not take its type.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    columns = StructType([field for field in df.schema if field.name != ROW_KIND])
    parsed = _checked_calls(arrow(columns), keys, calls, [*keys, time, *order_by])
    if not isinstance(columns[time].dataType, TimestampType | TimestampNTZType):
        raise SchemaError(
            f"Expected a TIMESTAMP for the column {time}, got {columns[time].dataType.simpleString()}.",
            column=time,
        )
    rows = df.selectExpr(
        f"CAST(0 AS TINYINT) AS {quoted(SIDE)}",
        f"CAST(NULL AS BIGINT) AS {quoted(CLOCK)}",
        *(quoted(field.name) for field in columns),
        ROW_KIND if ROW_KIND in df.columns else f"'+I' AS {ROW_KIND}",
    )
    operator = Over(
        arrow(StructType([field for field in rows.schema if field.name != ROW_KIND])),
        tuple(keys),
        time,
        tuple(order_by),
        parsed,
        frame,
        _preceding(frame, preceding),
        1_000 * _ms("delay", delay),
        is_bounded=state is None,
    )
    new = from_arrow_schema(operator.out_columns, prefer_timestamp_ntz=True)
    out = StructType([*columns.fields, *(new[call.name] for call in parsed), _KIND_FIELD])
    return apply(rows, operator, out, state, partitions, Lifetime(remembers_deleted=False), (time,))


def _checked_calls(
    columns: pa.Schema, keys: Sequence[str], calls: Mapping[str, str], used: list[str]
) -> tuple[OverCall, ...]:
    """Return the aggregates, after a check of all columns."""
    if isinstance(keys, str) or not keys:
        raise OptionError(f"Expected a list of columns for `keys`, got {keys!r}.", option="keys")
    try:
        parsed = tuple(parse_over_calls(calls))
    except ValueError as error:
        raise OptionError(f"`calls` is wrong: {error}.", option="calls") from None
    if not parsed:
        raise OptionError("`calls` is empty. Name at least one aggregate.", option="calls")
    check_columns(columns, [*used, *(call.column for call in parsed if call.column is not None)])
    return parsed


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
        return 1_000 * _ms("preceding", preceding)
    if not isinstance(preceding, int) or preceding < 0:
        raise OptionError(f"Expected a number of rows for `preceding`, got {preceding}.", option="preceding")
    return preceding


def _ms(option: str, duration: Duration) -> int:
    if isinstance(duration, timedelta):
        duration_ms = duration // timedelta(milliseconds=1)
    else:
        try:
            duration_ms = parse_duration_ms(duration)
        except ValueError as error:
            raise OptionError(f"The duration in `{option}` is wrong: {error}", option=option) from None
    if duration_ms < 0:
        raise OptionError(f"Expected a duration from 0 for `{option}`, got {duration}.", option=option)
    return duration_ms
