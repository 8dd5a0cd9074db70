"""What penstock's own files of a Delta table need: tables that they may belong to, and their statistics.

Pure. Runs on the driver and in tasks. Invariant: a statistic excludes no value that the file has, because a
reader skips files by them. A column without one is unknown to readers, and never skipped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.errors import MaterializeError, RowError
from penstock.state.columns import one_array

_SERVED = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Table features with which a file needs no more than its rows, unless a property or a column uses them."""
_OFF = {
    "delta.appendOnly": "false",
    "delta.columnMapping.mode": "none",
    "delta.enableChangeDataFeed": "false",
    "delta.enableDeletionVectors": "false",
    "delta.enableRowTracking": "false",
    "delta.enableTypeWidening": "false",
}
"""Properties that demand more of a writer unless they have this value."""
_CONSTRAINT, _COLUMN_RULE = "delta.constraints.", "delta."
"""Begin the names of a property, and of the metadata of a column, that a writer has to check."""
_TEXT_LENGTH = 32
_LAST_CHARACTER = "\U0010ffff"
_MILLI = timedelta(milliseconds=1)


def check_features(table: Any, target: str) -> None:
    """Raise MaterializeError if files that tasks write could break a rule of the table, or bring back rows.

    Args:
        table: of the package `deltalake`.
        target: names the table in messages.
    """
    if found := list(_unknown(table)):
        raise MaterializeError(
            f"{target} has {', '.join(found)}, which files that penstock reads and writes by itself cannot "
            "serve. Nothing of the batch was written. Take it from the table. Or leave out `staging`, if you "
            "use it: the driver then writes by the package deltalake. This table cannot keep a HistoryTable.",
            found=found,
        )


def check_not_null(rows: pa.Table, schema: pa.Schema) -> None:
    """Raise RowError if rows of a file break a rule NOT NULL of the table.

    Args:
        rows: of the file. A reader finds null in a column of the table that it lacks.
        schema: of the table.
    """
    for field in schema:
        if field.nullable or not rows.num_rows:
            continue
        if field.name not in rows.column_names or rows.column(field.name).null_count:
            raise RowError(
                f"Column '{field.name}' of the Delta table is NOT NULL, and a row has null in it. Nothing of "
                "the batch was written. Fill the column, or let the table have nulls in it.",
                column=field.name,
            )


def _unknown(table: Any) -> Iterator[str]:
    protocol, metadata = table.protocol(), table.metadata()
    features = {*(protocol.reader_features or []), *(protocol.writer_features or [])}
    yield from (f"the table feature {one}" for one in sorted(features - _SERVED))
    for name, value in sorted(metadata.configuration.items()):
        is_on = str(value).lower() != _OFF[name] if name in _OFF else name.startswith(_CONSTRAINT)
        if is_on:
            yield f"the property {name} = {value}"
    for each in table.schema().fields:
        yield from (
            f"the rule {name} of column '{each.name}'"
            for name in sorted(each.metadata)
            if name.startswith(_COLUMN_RULE)
        )
    if metadata.partition_columns:
        yield f"the partition columns {', '.join(metadata.partition_columns)}"


def statistics_of(rows: pa.Table) -> str:
    """Return the statistics of a file with these rows, as an `add` of Delta's log has them."""
    smallest, largest, nulls = dict[str, str](), dict[str, str](), dict[str, str]()
    for name in rows.column_names:
        values = one_array(rows.column(name))
        if kinds.is_nested(values.type):  # readers want those of its fields
            continue
        nulls[name] = str(values.null_count)
        ends = _ends(values)
        if ends is not None:
            for found, text in zip((smallest, largest), ends, strict=True):
                if text is not None:
                    found[name] = text
    parts = {"minValues": smallest, "maxValues": largest, "nullCount": nulls}
    return _object(
        {"numRecords": str(rows.num_rows), **{name: _object(each) for name, each in parts.items()}}
    )


def _object(values: dict[str, str]) -> str:
    """Return the JSON of an object, of the JSON of its values: json.dumps has no exact decimals."""
    return f"{{{', '.join(f'{json.dumps(name)}: {text}' for name, text in values.items())}}}"


def _ends(values: pa.Array) -> tuple[str | None, str | None] | None:
    """Return the JSON of a lower and an upper bound; None without any, and None for one that is unknown."""
    kind = values.type
    if not values.null_count < len(values) or kinds.is_boolean(kind) or kinds.is_binary(kind):
        return None
    if kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        return None
    if kinds.is_floating(kind) and not _is_all(pc.is_finite(values)):
        return None
    try:
        found = pc.min_max(values)
        smallest, largest = found["min"].as_py(), found["max"].as_py()
    except (OverflowError, ValueError):  # a date that Python does not have
        return None
    return _bound(smallest, is_upper=False), _bound(largest, is_upper=True)


def _is_all(values: pa.Array) -> bool:
    return bool(pc.all(values).as_py())


def _bound(value: Any, *, is_upper: bool) -> str | None:
    if isinstance(value, str):
        return _text_bound(value, is_upper=is_upper)
    if isinstance(value, datetime):
        return _time_bound(value, is_upper=is_upper)
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, float):
        return _float_bound(value, is_upper=is_upper)
    return f"{value:f}" if hasattr(value, "as_tuple") else str(value)


def _float_bound(value: float, *, is_upper: bool) -> str | None:
    """Return a number. Bounds that are zero have both zeros between them."""
    if value == 0:  # pyarrow's bound may have either sign, and readers order -0.0 before 0.0
        return "0.0" if is_upper else "-0.0"
    return repr(value) if math.isfinite(value) else None


def _text_bound(value: str, *, is_upper: bool) -> str | None:
    if len(value) <= _TEXT_LENGTH or not is_upper:
        return json.dumps(value[:_TEXT_LENGTH])
    # No text of UTF-8 with this beginning is after it, unless it goes on with the last character of all.
    is_below = value[_TEXT_LENGTH] < _LAST_CHARACTER
    return json.dumps(value[:_TEXT_LENGTH] + _LAST_CHARACTER) if is_below else None


def _time_bound(value: datetime, *, is_upper: bool) -> str | None:
    """Return a time in whole milliseconds, as every reader knows it."""
    rest = timedelta(microseconds=value.microsecond % 1000)
    try:
        rounded = value - rest + (_MILLI if is_upper and rest else timedelta())
    except OverflowError:
        return None
    text = (
        (rounded if rounded.tzinfo is None else rounded.astimezone(UTC))
        .replace(tzinfo=None)
        .isoformat(timespec="milliseconds")
    )
    return json.dumps(text if value.tzinfo is None else f"{text}Z")
