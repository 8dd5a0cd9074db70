"""A record as a line: JSON that keeps all of it, and text for people.

Runs in commands. Pure. Invariant: `record_of(json_line(record))` has the same key, value, headers and
timestamp, also if they are null, not UTF-8, or after the year 9999.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import RowError

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIMESTAMP_MS = (2**63 - 1) // 1000
"""The last time that fits into the microseconds of a batch, in the year 294246."""

_BASE64 = "_base64"
"""The end of the name of a field with the bytes of a text that is not UTF-8."""
_RECORD_OFFSET = ("topic", "partition", "offset")
_FIELDS = frozenset(
    (
        *_RECORD_OFFSET,
        "timestamp",
        "headers",
        *(f"{n}{end}" for n in ("key", "value") for end in ("", _BASE64)),
    )
)


def records_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the records of a batch. A timestamp that no datetime holds is a number of milliseconds."""
    column = batch.schema.get_field_index("timestamp")
    numbers = batch.column(column).cast("int64")
    for record in batch.set_column(column, "timestamp", numbers).to_pylist():
        yield {**record, "timestamp": _datetime_or_ms(record["timestamp"])}


def _datetime_or_ms(timestamp_us: int) -> datetime | int:
    try:
        return _EPOCH + timedelta(microseconds=timestamp_us)
    except OverflowError:
        return timestamp_us // 1000


def json_line(record: Mapping[str, Any], *, with_headers: bool) -> str:
    """Return a record that was read as one line of JSON."""
    shown = {name: record[name] for name in _RECORD_OFFSET}
    shown["timestamp"] = _time(record)
    shown |= _bytes_to_json("key", record["key"]) | _bytes_to_json("value", record["value"])
    if with_headers:
        headers = record["headers"] or ()
        shown["headers"] = [
            {"key": each["key"], **_bytes_to_json("value", each["value"])} for each in headers
        ]
    return json.dumps(shown, ensure_ascii=False)


def text_lines(record: Mapping[str, Any]) -> str:
    """Return a record with its offset, key and headers, for people."""
    offset = f"{record['topic']}-{record['partition']} offset {record['offset']}"
    lines = [f"{offset}  {_time(record)}  key {as_text(record['key'])}"]
    lines += [f"  {each['key']}: {as_text(each['value'])}" for each in record["headers"] or ()]
    return "\n".join([*lines, f"  {as_text(record['value'])}"])


def as_text(value: bytes | None) -> str:
    """Return text for a terminal, which shows invalid UTF-8 and a missing value differently from text."""
    return "(null)" if value is None else value.decode(errors="backslashreplace")


def record_of(line: bytes, number: int) -> dict[str, Any]:
    """Return the record of a line that `json_line` has written, without its topic, partition and offset.

    Raises:
        RowError: the line is not a record.
    """
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise _wrong(number, f"expected JSON, {error}") from None
    if not isinstance(fields, dict):
        raise _wrong(number, "expected a JSON object")
    unknown = sorted(fields.keys() - _FIELDS)
    if unknown:
        raise _wrong(number, f"expected only the fields {', '.join(sorted(_FIELDS))}, got {unknown[0]!r}")
    if "offset" in fields and "headers" not in fields:
        raise _wrong(number, "the record was printed without --headers, so its headers would be lost")
    if not {"value", f"value{_BASE64}"} & fields.keys():
        raise _wrong(number, "expected a field 'value' (null is a tombstone)")
    return {
        "key": _bytes_of(fields, "key", number),
        "value": _bytes_of(fields, "value", number),
        "headers": _headers_of(fields.get("headers"), number),
        "timestamp": _timestamp_of(fields.get("timestamp"), number),
    }


def _time(record: Mapping[str, Any]) -> str | int:
    at: datetime | int = record["timestamp"]
    return at if isinstance(at, int) else at.isoformat(timespec="milliseconds")


def _bytes_to_json(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name: as_text(value), f"{name}{_BASE64}": base64.b64encode(value).decode()}


def _bytes_of(fields: Mapping[str, Any], name: str, number: int) -> bytes | None:
    encoded, told = fields.get(f"{name}{_BASE64}"), fields.get(name)
    try:
        if encoded is not None:
            value = base64.b64decode(encoded, validate=True)
            if told is None or told == as_text(value):
                return value
            raise _wrong(number, f"'{name}' and '{name}{_BASE64}' differ. Remove the one that is not right")
        if told is None or isinstance(told, str):
            return None if told is None else told.encode()
    except (ValueError, TypeError) as error:
        raise _wrong(number, f"the bytes of '{name}' cannot be read: {error}") from None
    raise _wrong(number, f"expected a text or null for '{name}', got {type(told).__name__}")


def _headers_of(headers: Any, number: int) -> list[dict[str, Any]] | None:
    if not headers:
        return None
    names = {"key", "value", f"value{_BASE64}"}
    is_right = isinstance(headers, Sequence) and all(
        isinstance(each, dict) and isinstance(each.get("key"), str) and each.keys() <= names
        for each in headers
    )
    if not is_right:
        raise _wrong(number, 'expected \'headers\' as a list of {"key": "name", "value": "text"}')
    return [{"key": each["key"], "value": _bytes_of(each, "value", number)} for each in headers]


def _timestamp_of(told: Any, number: int) -> datetime | int | None:
    if told is None:
        return None
    if type(told) is int and abs(told) <= _MAX_TIMESTAMP_MS:
        return told
    try:
        at = datetime.fromisoformat(told)
    except (ValueError, TypeError):
        at = None
    if at is None or at.tzinfo is None:
        raise _wrong(
            number, "expected a 'timestamp' like 2026-11-22T15:04:05.000+00:00, milliseconds, or null for now"
        )
    return at


def _wrong(number: int, what: str) -> RowError:
    # The line itself is left out: it may hold what must not be in a log.
    return RowError(f"Line {number}: {what}.", line=number)
