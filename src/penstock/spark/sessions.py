"""`penstock.changelog.sessions`: each row with the session that it is in.

Runs in the user's program, on Spark classic and Connect. Invariant: rows with equal keys go to the same
partition of the state in every batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from penstock.changelog.operators.sessions import Sessions
from penstock.errors import OptionError
from penstock.spark._arguments import (
    KIND_FIELD,
    Duration,
    check_names,
    check_texts,
    check_time,
    columns_without_kind,
    duration_ms,
    folder_of,
)
from penstock.spark._keyed_frame import apply, arrow, rows_that_wait
from penstock.spark.native import check_rows_come_once
from penstock.state.columns import check_columns
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        df: rows that are only inserted.
        keys: rows with equal keys are in one session.
        time: the time of a row, a TIMESTAMP. It is never null.
        gap: the longest time between two rows of a session, such as "30 min".
        delay: how late rows may come, such as "5 s" or "0 s".
        names: of the new columns.
        state: the folder of the operator, as for `normalize`.
        name: of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.

    Returns:
        The columns of `df`, those of `names`, and `row_kind`, which is always +I.

    Raises:
        SchemaError: a column does not exist, or has another type.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    columns = columns_without_kind(df)
    check_names("keys", keys)
    check_columns(arrow(columns), [*keys, time])
    check_texts(columns, keys)
    check_time(columns, time)
    for column in names:
        if column in columns.fieldNames():
            raise OptionError(
                f"The rows have the column {column!r} already. Choose other `names`.", option="names"
            )
    check_rows_come_once(df, "sessions")
    rows = rows_that_wait(df)
    operator = Sessions(
        arrow(columns_without_kind(rows)),
        tuple(keys),
        time,
        1_000 * duration_ms("gap", gap),
        names,
        1_000 * duration_ms("delay", delay, is_zero_allowed=True),
        is_bounded=state is None,
    )
    check_columns(operator.out_columns, [])
    new = [StructField(name, columns[time].dataType, nullable=False) for name in names]
    out = StructType([*columns.fields, *new, KIND_FIELD])
    return apply(
        rows, operator, out, folder_of(state, name), partitions, Lifetime(remembers_deleted=False), (time,)
    )
