"""Times from texts, and texts from times, as Flink's own readers and writers have them.

Runs on the driver. Invariant: no text passes through the session's time zone, so no time moves on the days on
which summer time begins or ends. A text that Flink's reader refuses gives NULL.
"""

from __future__ import annotations

import re

from penstock.sql.plan.texts import let, literal

MILLISECONDS = 3
"""The digits of a second that have them."""
_PARTS = re.compile(r"yyyy|MM|dd|HH|mm|ss|S{1,9}|'[^']*'|[-/: .,_]")
_DIGITS = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2}
_MISSING = {"yyyy": "1970", "MM": "01", "dd": "01", "HH": "00", "mm": "00", "ss": "00"}
_TIMESTAMP = r"^\d{4}-\d{1,2}-\d{1,2}( \d{1,2}:\d{1,2}:\d{1,2}(\.\d{0,9})?)?$"
_DATE = r"^ *\d{4}(-\d{1,2}(-\d{1,2})?)?( .*)?$"
_DAY = r"^(\d+-\d{1,2}-)"
_SPECIAL = re.compile(r"([\\.\[\]{}()*+?^$|])")


def pattern_parts(text: str) -> list[str]:
    """Return the parts of a pattern of times, which stands in quotes in Spark's SQL.

    Raises:
        ValueError: it is not a literal, or has letters that are read in several ways.
    """
    inner = text[1:-1].replace("\\'", "'") if text.startswith("'") else ""
    parts = _PARTS.findall(inner)
    if not inner or "\\" in inner or "".join(parts) != inner:
        raise ValueError(
            "expected a pattern in quotes of yyyy, MM, dd, HH, mm, ss, SSS and signs between them, because "
            "Spark reads other letters differently."
        )
    return [part for part in parts if part != "''"]


def timestamp_guard(text: str) -> str:
    """Return a text that Spark reads as a TIMESTAMP only if Flink does."""
    return guarded(text, _TIMESTAMP)


def date_guard(text: str) -> str:
    """Return a text that Spark reads as a DATE only if Flink does."""
    return guarded(text, _DATE)


def guarded(text: str, wanted: str) -> str:
    """Return a text with a question mark before it if it does not have the wanted form."""
    test = f"RLIKE {literal(wanted)}"
    return let([text], lambda x: f"CASE WHEN {x[0]} {test} THEN {x[0]} ELSE '?' || {x[0]} END")


def clamped_timestamp(text: str) -> str:
    """Return the ISO form of a text that Flink reads, any other text with a question mark before it."""
    iso = f"CAST({_clamped(timestamp_guard(text), _DAY)} AS STRING)"
    return let([text, iso], lambda x: f"coalesce({x[1]}, '?' || {x[0]})")


def read_timestamp(text: str) -> str:
    """Return TO_TIMESTAMP without a pattern. A day past the end of its month is the last one, as in Flink."""
    return cut_time(_clamped(timestamp_guard(text), _DAY), MILLISECONDS)


def read_by_pattern(text: str, pattern: str) -> str:
    """Return TO_TIMESTAMP with a pattern."""
    return cut_time(_clamped(found_by_pattern(text, pattern), r"^(\d+-\d\d-)"), MILLISECONDS)


def read_date_by_pattern(text: str, pattern: str) -> str:
    """Return TO_DATE with a pattern. A text that does not fit is an error; Flink makes another day of it."""
    message = "TO_DATE: the text does not fit the pattern, of which Flink would make another day"

    def body(x: list[str]) -> str:
        error = f"CAST(raise_error({literal(message)}) AS TIMESTAMP_NTZ)"
        found = f"coalesce(try_cast({found_by_pattern(x[0], pattern)} AS TIMESTAMP_NTZ), {error})"
        return f"CASE WHEN {x[0]} IS NOT NULL THEN CAST({found} AS DATE) END"

    return let([text], body)


def found_by_pattern(text: str, pattern: str) -> str:
    """Return a text in ISO's order; NULL if it does not fit the pattern."""
    parts = pattern_parts(pattern)
    names = ["S" if part.startswith("S") else part for part in parts if part in _DIGITS or part[0] == "S"]
    if len(set(names)) < len(names):
        raise ValueError("expected each of yyyy, MM, dd, HH, mm, ss and SSS once in the pattern.")
    if "yyyy" not in names and ("MM" in names or "dd" in names):
        raise ValueError("expected yyyy beside MM and dd in the pattern.")
    if "S" in names and parts[-1][0] != "S":
        raise ValueError("expected SSS at the end of the pattern.")

    def body(x: list[str]) -> str:
        wanted = "".join(map(_regex, parts))
        return f"CASE WHEN {x[0]} RLIKE {literal(f'^{wanted}$')} THEN {_iso(x[0], parts)} END"

    return let([text], body)


def _regex(part: str) -> str:
    if part in _DIGITS:
        return rf"\d{{{_DIGITS[part]}}}"
    return rf"\d{{1,{len(part)}}}" if part[0] == "S" else _SPECIAL.sub(r"\\\1", _plain(part))


def _plain(part: str) -> str:
    return part[1:-1] if part.startswith("'") else part


def _iso(text: str, parts: list[str]) -> str:
    """Return the parts of a text, whose positions the pattern fixes, in ISO's order."""
    found: dict[str, str] = {}
    at = 1
    for part in parts:
        length = _DIGITS.get(part) or len(_plain(part))
        if part in _DIGITS or part[0] == "S":
            found["S" if part[0] == "S" else part] = f"substring({text}, {at}, {length})"
        at += length
    pieces = [found.get(name, f"'{missing}'") for name, missing in _MISSING.items()]
    year, month, day, hour, minute, second = pieces
    fraction = f", '.', {found['S']}" if "S" in found else ""
    return f"concat({year}, '-', {month}, '-', {day}, ' ', {hour}, ':', {minute}, ':', {second}{fraction})"


def _clamped(text: str, before_day: str) -> str:
    """Return a text as a TIMESTAMP_NTZ. The days 29 to 31 of a shorter month are its last day."""

    def body(x: list[str]) -> str:
        tries = [x[0]]
        for days, last in (("31", "30"), ("(?:30|31)", "29"), ("(?:29|30|31)", "28")):
            tries.append(f"regexp_replace({x[0]}, {literal(f'{before_day}{days}')}, '$1{last}')")
        # 24:00:00 is the beginning of the next day.
        next_day = f"regexp_replace({x[0]}, ' 24:00:00([.]0*)?$', ' 00:00:00')"
        midnight = f"try_cast({next_day} AS TIMESTAMP_NTZ) + INTERVAL '1' DAY"
        return f"coalesce({', '.join(f'try_cast({each} AS TIMESTAMP_NTZ)' for each in tries)}, {midnight})"

    return let([text], body)


def cut_time(time: str, digits: int, *, has_zone: bool = False) -> str:
    """Return a TIMESTAMP_NTZ, or a TIMESTAMP, with so many digits of the second, 0 to 5.

    It is made of whole numbers: Spark took 7 us a row for the decimals of `extract`, and 0.5 us for these.
    """
    if has_zone and digits == MILLISECONDS:
        return f"timestamp_millis(unix_millis({time}))"

    def body(x: list[str]) -> str:
        # Zones differ by whole seconds. So this is the rest in each of them.
        rest = f"pmod(unix_micros(CAST({x[0]} AS TIMESTAMP)), {10 ** (6 - digits)})"
        less = f"timestampadd(MICROSECOND, CAST(-{rest} AS INT), {x[0]})"
        return f"CASE WHEN {rest} = 0 THEN {x[0]} ELSE {less} END"

    return let([time], body)


def write_by_pattern(time: str, pattern: str) -> str:
    """Return DATE_FORMAT of a DATE or TIMESTAMP without a zone."""
    parts = pattern_parts(pattern)
    positions = {"yyyy": 1, "MM": 6, "dd": 9, "HH": 12, "mm": 15, "ss": 18}

    def body(x: list[str]) -> str:
        text = f"CAST(CAST({x[0]} AS TIMESTAMP_NTZ) AS STRING)"
        pieces = []
        for part in parts:
            if part in positions:
                pieces.append(f"substring({text}, {positions[part]}, {_DIGITS[part]})")
            elif part[0] == "S":
                pieces.append(f"rpad(substring({text}, 21, {len(part)}), {len(part)}, '0')")
            else:
                pieces.append(literal(_plain(part)))
        return f"concat({', '.join(pieces)})"

    return let([time], body)


def with_zone(time: str, kind: str, pattern: str) -> str:
    """Return DATE_FORMAT: of a TIMESTAMP_LTZ in the zone of the session, of others without one."""
    pattern_parts(pattern)
    return f"date_format({time}, {pattern})" if kind == "timestamp" else write_by_pattern(time, pattern)
