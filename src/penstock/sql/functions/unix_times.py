"""UNIX_TIMESTAMP and CONVERT_TZ of texts, which Flink reads with Java's old SimpleDateFormat.

Runs on the driver. Invariant: a text of which SimpleDateFormat would make another day or hour stops the
query. An hour that comes twice, when summer time ends, is the later one.
"""

from __future__ import annotations

from zoneinfo import available_timezones

from penstock.sql.functions.read_times import found_by_pattern
from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.texts import let, literal

_EXACT = r"^(\d{4}-\d{1,2}-\d{1,2} \d{1,2}:\d{1,2}:\d{1,2})(?!\d)"
_LENIENT = r"^\s*-?\d+-\s*-?\d+-\s*-?\d+\s+-?\d+:\s*-?\d+:\s*-?\d+"
_NOT_READ = "CAST(-9223372036854775808 AS BIGINT)"
_STEPS_S = (1_800, 3_600, 7_200)
"""How much later an hour may come again when a summer time ends."""


def _time(text: str, name: str) -> str:
    """Return the TIMESTAMP_NTZ of a text; NULL if Flink reads none."""
    message = f"{name}: of this text Flink would make another day or hour"
    time = f"try_cast(regexp_extract({text}, {literal(_EXACT)}, 1) AS TIMESTAMP_NTZ)"
    fails = f"CAST(raise_error({literal(message)}) AS TIMESTAMP_NTZ)"
    return f"coalesce({time}, CASE WHEN {text} RLIKE {literal(_LENIENT)} THEN {fails} END)"


def unix_timestamp(args: list[TypedSql], *, zone_is_utc: bool) -> str:
    """Return UNIX_TIMESTAMP: of now, of a text, or of a text and a pattern."""
    if not args:
        return "unix_timestamp()"
    if len(args) > 2 or any(each.type not in ("string", "void") for each in args):
        raise ValueError("expected a STRING, or a STRING and a pattern in quotes.")
    text = args[0].text
    time = _time(text, "UNIX_TIMESTAMP")
    if len(args) > 1:
        message = "UNIX_TIMESTAMP: the text does not fit the pattern, of which Flink may make another time"
        found = f"try_cast({found_by_pattern(text, args[1].text)} AS TIMESTAMP_NTZ)"
        time = f"coalesce({found}, CAST(raise_error({literal(message)}) AS TIMESTAMP_NTZ))"

    def seconds(x: list[str]) -> str:
        first = f"unix_timestamp(CAST({x[0]} AS TIMESTAMP))"
        later = " ".join(
            f"WHEN CAST(timestamp_seconds({first} + {step}) AS TIMESTAMP_NTZ) = {x[0]} THEN {first} + {step}"
            for step in _STEPS_S
        )
        found = first if zone_is_utc else f"CASE {later} ELSE {first} END"
        return f"coalesce({found}, {_NOT_READ})"

    return f"CASE WHEN {text} IS NOT NULL THEN {let([time], seconds)} END"


def convert_tz(args: list[TypedSql]) -> str:
    """Return CONVERT_TZ.

    Raises:
        ValueError: a zone is not a known name in quotes.
    """
    if args[0].type not in ("string", "void"):
        raise ValueError(f"expected a STRING, got {args[0].type.upper()}.")
    start, stop = (_zone(each.text) for each in args[1:])

    def body(x: list[str]) -> str:
        first = f"convert_timezone({start}, 'UTC', {x[0]})"
        later = " ".join(
            f"WHEN convert_timezone('UTC', {start}, {first} + INTERVAL '{step}' SECOND) = {x[0]} "
            f"THEN {first} + INTERVAL '{step}' SECOND"
            for step in _STEPS_S
        )
        instant = first if start == "'UTC'" else f"CASE {later} ELSE {first} END"
        return f"left(CAST(convert_timezone('UTC', {stop}, {instant}) AS STRING), 19)"

    return let([_time(args[0].text, "CONVERT_TZ")], body)


def _zone(text: str) -> str:
    name = text[1:-1]
    if not text.startswith("'") or name not in available_timezones() or ("/" not in name and name != "UTC"):
        raise ValueError("expected a zone in quotes such as 'UTC' or 'Europe/Berlin'.")
    return text
