"""Explains why a text is not a date or time of its column, and what to declare or set instead.

Runs on executors, for failing values only. Invariant: pure. A text that fits none of the cases gets no
advice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.formats.base import excerpt

_DATE = r"[+-]?\d{4,9}-\d{2}-\d{2}"
_TIME = r"\d{2}:\d{2}(?P<seconds>:\d{2}(\.\d{1,9})?)?"
_TIMESTAMP = re.compile(rf"{_DATE}(?P<separator>[T ]){_TIME}(?P<zone>\D.*)?", re.ASCII)
_ZONE = re.compile(r"Z|[+-](0\d|1[0-8]):[0-5]\d", re.ASCII)
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)

NAMES = {"T": "ISO-8601", " ": "SQL"}
"""Flink's names of the two standards, by the character between date and time."""

_TEXT_BYTES_MAX = 48
"""How much of a text native/decode.h keeps. A text of this length may have been cut."""

_CONVERT = "declare STRING and convert it in the query"


@dataclass(frozen=True)
class TimestampStandard:
    """How a format reads timestamps: the character between date and time, and the option that sets it."""

    separator: str = " "
    option: str = ""


def time_advice(text: bytes, kind: str, standard: TimestampStandard) -> str:
    """Return what is wrong with a text as a date or time, and what to do.

    Args:
        text: The text in the record.
        kind: The kind of the column: "timestamp", "timestamp with zone", "date" or "time".
        standard: How the format reads timestamps.

    Returns:
        A sentence, or "" where there is no advice.
    """
    if len(text) >= _TEXT_BYTES_MAX:
        return ""
    try:
        shown = text.decode()
    except UnicodeDecodeError:
        return ""
    found = _TIMESTAMP.fullmatch(shown)
    if kind.startswith("timestamp"):
        found_wrong = _timestamp_advice(shown, found, kind == "timestamp with zone", standard)
    elif kind == "date" and found:
        found_wrong = ["it has a time after the date: declare a timestamp type"]
    elif _NUMBER.fullmatch(shown):
        found_wrong = [f"it is a number: {_CONVERT.replace('STRING', 'INT')}"]
    else:
        found_wrong = []
    return f"'{excerpt(text)}': {'; '.join(found_wrong)}" if found_wrong else ""


def _timestamp_advice(
    text: str, found: re.Match[str] | None, is_zoned: bool, standard: TimestampStandard
) -> list[str]:
    if found is None:
        return _other_advice(text)
    found_wrong = []
    if found["separator"] != standard.separator:
        shown = "a 'T'" if found["separator"] == "T" else "a blank"
        name = NAMES[found["separator"]]
        cure = f"set '{standard.option}' = '{name}'" if standard.option else _CONVERT
        found_wrong.append(f"it has {shown} between date and time: {cure}")
    elif found["separator"] == " " and found["seconds"] is None:
        found_wrong.append(f"it has no seconds: {_CONVERT}")
    zone = found["zone"]
    if is_zoned and zone is None:
        found_wrong.append("it has no zone: declare TIMESTAMP_NTZ")
    elif zone is not None and not _ZONE.fullmatch(zone):
        found_wrong.append(f"expected a zone (Z or +hh:mm) after the time: {_CONVERT}")
    elif zone is not None and not is_zoned:
        found_wrong.append("it has a zone: declare TIMESTAMP")
    return found_wrong


def _other_advice(text: str) -> list[str]:
    if _NUMBER.fullmatch(text):
        return [
            "it is a number: declare BIGINT and convert it in the query (timestamp_seconds, "
            "timestamp_millis, timestamp_micros)"
        ]
    if re.fullmatch(_DATE, text, re.ASCII):
        return ["it has no time: declare DATE"]
    return []
