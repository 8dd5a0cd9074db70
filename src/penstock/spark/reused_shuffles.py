"""Keep Spark from reusing the shuffle of one watermark in two parts of a streaming query.

Runs in the user's program, on Spark classic and Connect. If two parts of a query shuffle the same rows, Spark
plans one shuffle and reads it twice. It then looks for the watermark below each part, and finds none below
the second one. So the windows of that part never close, and the query gives no row, without an error.
Only Spark's option prevents it.

A query keeps the value that the option has when it starts. So SQL, which starts its queries itself, sets the
option for each start only (`without_reused_shuffles`). Code that gives a DataFrame to the user
calls `keep_watermarks`. It sets the option for the Spark session, but only if a shuffle with a watermark may
be reused. Invariant: no other option of Spark changes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.spark.native import watermark_count
from penstock.spark.one_thread import is_left_to_the_start, option_set, setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REUSE = "spark.sql.exchange.reuse"
_log = logging.getLogger(__name__)


def keep_watermarks(df: DataFrame) -> None:
    """Turn the option off for queries that start from now on, if `df` has two watermarks.

    Args:
        df: a stream. Equal parts of it need a watermark each, so one watermark is never read twice.
    """
    if is_left_to_the_start() or watermark_count(df) <= 1:
        return
    session = df.sparkSession
    with setting:
        if session.conf.get(REUSE) == "false":
            return
        _log.warning(
            "%s of this Spark session is now false: the stream has two watermarks, and windows behind a "
            "shuffle that Spark reuses would never close. Set it to true again after the query has started, "
            "if batches need it.",
            REUSE,
        )
        session.conf.set(REUSE, "false")


@contextlib.contextmanager
def without_reused_shuffles(session: Any) -> Iterator[None]:
    """Return a context in which queries start, and are explained, that reuse no shuffle."""
    with option_set(session, REUSE, "false"):
        yield
