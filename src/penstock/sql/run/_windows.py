"""The ends of windows as columns that Spark knows the watermark of.

Runs on the driver. Spark closes a group when the watermark passes that column of the group whose metadata
has the key WATERMARK. Its own window has it. The columns window_end and window_time, which a query makes of
the window, do not. With the key on window_end, later aggregations and joins by that column are complete when
Spark's window is. So they only insert rows, and forget what is complete.

Invariant: one column of a stream has the key, because Spark's joins refuse two. The test
tests/spark/test_sql_windows.py guards what this file relies on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import TimestampType

from penstock.spark.native import WATERMARK
from penstock.sql.plan.texts import quoted

_PART = "penstock.window"
"""Our key: "end" or "time"."""
_PLAIN = "penstock.plain"
"""Our key of a time that is a plain value."""


def with_window_ends(
    frame: Any, window: str | None, ends: Sequence[str], times: Sequence[str], struct: str | None = None
) -> Any:
    """Return rows whose watermark stands on the ends of windows. Without ends it stands on the times.

    All other columns lose the watermark. Rows without a watermark stay as they are, because their windows
    never end.

    Args:
        frame: the rows.
        window: Spark's window, which goes; None if there is none.
        ends: the columns with the end of the window.
        times: the columns with its last millisecond, which another window may be over.
        struct: a column with a start and an end that becomes a window of Spark's; None without one.
    """
    delays = _delays(frame.schema.fields, window)
    if not delays:
        return frame if window is None else frame.drop(window)
    parts = {**dict.fromkeys(times, "time"), **dict.fromkeys(ends, "end")}
    first = next(iter((*ends, *times)), None)
    for field in frame.schema.fields:
        known = {key: value for key, value in field.metadata.items() if key not in (WATERMARK, _PART)}
        if field.name in parts:
            # Spark's watermarks are of TIMESTAMP columns only. In UTC both types show the same time.
            frame = frame.withColumn(field.name, frame[quoted(field.name)].cast("timestamp"))
            known[_PART] = parts[field.name]
        elif WATERMARK not in field.metadata and field.name != struct:
            continue
        if field.name in (first, struct):
            known[WATERMARK] = delays[0]
        frame = frame.withMetadata(field.name, known)
    return frame if window is None else frame.drop(window)


def _delays(fields: list[Any], window: str | None) -> list[int]:
    """Return the delays of columns with a watermark, and of the end of a window that an operator made."""
    made = [part for each in fields if each.name == window for part in getattr(each.dataType, "fields", [])]
    return [each.metadata[WATERMARK] for each in (*fields, *made) if WATERMARK in each.metadata]


def with_plain_times(frame: Any, keep: str | None) -> Any:
    """Return rows whose times have no watermark, but the one that keeps it."""
    for field in frame.schema.fields:
        is_time = keep is None and isinstance(field.dataType, TimestampType)
        if field.name == keep:
            continue
        if WATERMARK in field.dataType.json():
            plain = frame[quoted(field.name)].cast(_without_watermark(field.dataType))
            frame = frame.withColumn(field.name, plain)
        elif WATERMARK in field.metadata or is_time:
            # With no metadata at all, Spark's optimizer puts the column with the watermark here again.
            frame = frame.withMetadata(field.name, {_PLAIN: True})
    return frame


def _without_watermark(kind: Any) -> Any:
    """Return a type whose fields have no watermark."""

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {key: plain(value) for key, value in node.items() if key != WATERMARK}

    return type(kind).fromJson(plain(kind.jsonValue()))
