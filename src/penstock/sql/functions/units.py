"""FLOOR and CEIL to a unit of time, and differences in months.

Runs on the driver. Invariant: a TIMESTAMP without a zone never passes through the zone of the session.
"""

from __future__ import annotations

from penstock.sql.plan.texts import let

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_STEPS = {"WEEK": "INTERVAL '7' DAY", "QUARTER": "INTERVAL '3' MONTH"}


def floor_to(time: str, kind: str, unit: str) -> str:
    """Return FLOOR(time TO unit), of the type `kind` (date, timestamp or timestamp_ntz)."""
    return let([time], lambda x: _floor(x[0], kind, unit))


def ceil_to(time: str, kind: str, unit: str) -> str:
    """Return CEIL(time TO unit); see `floor_to`."""
    step = _STEPS.get(unit, f"INTERVAL '1' {unit}")

    def body(x: list[str]) -> str:
        floor = _floor(x[0], kind, unit)
        above = f"CAST({floor} + {step} AS {kind.upper()})"
        return f"CASE WHEN {floor} = {x[0]} THEN {floor} ELSE {above} END"

    return let([time], body)


def _floor(time: str, kind: str, unit: str) -> str:
    if kind == "timestamp" and unit != "WEEK":
        return f"CAST(date_trunc('{unit}', {time}) AS TIMESTAMP)"
    day = time if kind == "date" else f"CAST({time} AS DATE)"
    if unit in _MONTHS:
        return f"CAST(trunc({day}, '{unit}') AS {kind.upper()})"
    if unit == "WEEK":  # Flink's begin on Sunday, those of Spark on Monday
        return f"CAST(date_sub({day}, dayofweek({day}) - 1) AS {kind.upper()})"
    if unit == "DAY" or kind == "date":
        return f"CAST({day} AS {kind.upper()})"
    second = f"extract(SECOND FROM {time})"
    less = {
        "HOUR": f"0, 0, minute({time}), {second}",
        "MINUTE": f"0, 0, 0, {second}",
        "SECOND": f"0, 0, 0, CAST({second} % 1 AS DECIMAL(18,6))",
    }
    return f"({time} - make_dt_interval({less[unit]}))"


def months_between(first: str, second: str, unit: str) -> str:
    """Return TIMESTAMPDIFF of months, quarters or years, as Calcite counts them."""

    def body(x: list[str]) -> str:
        start, stop = (f"CAST({each} AS DATE)" for each in x)
        count = (
            f"CASE WHEN {stop} >= {start} THEN {_whole_months(start, stop)} "
            f"ELSE - ({_whole_months(stop, start)}) END"
        )
        clock = [f"substring(CAST(CAST({each} AS TIMESTAMP_NTZ) AS STRING), 12)" for each in x]
        less = (
            f"CASE WHEN add_months({start}, {count}) = {stop} AND {clock[1]} < {clock[0]} THEN 1 ELSE 0 END"
        )
        return f"CAST((({count}) - {less}) div {_MONTHS[unit]} AS INT)"

    return let([first, second], body)


def _whole_months(start: str, stop: str) -> str:
    months = f"(year({stop}) - year({start})) * 12 + month({stop}) - month({start})"
    last = f"least(dayofmonth({start}), dayofmonth(last_day({stop})))"
    return f"{months} - CASE WHEN dayofmonth({stop}) < {last} THEN 1 ELSE 0 END"


_SECONDS = "CAST(({0} - TIMESTAMP_NTZ '1970-01-01 00:00:00') div INTERVAL '1' SECOND AS BIGINT)"
_FRACTION = "CAST(floor((extract(SECOND FROM {0}) % 1) * {1}) AS BIGINT)"
EXTRACTED = {
    "EPOCH": _SECONDS,
    "MILLISECOND": _FRACTION.format("{0}", 1_000),
    "MICROSECOND": _FRACTION.format("{0}", 1_000_000),
    "ISODOW": "CAST(weekday({0}) + 1 AS BIGINT)",
    "ISOYEAR": "CAST(extract(YEAROFWEEK FROM {0}) AS BIGINT)",
    "DECADE": "CAST(year({0}) div 10 AS BIGINT)",
    "CENTURY": "CAST((year({0}) + 99) div 100 AS BIGINT)",
    "MILLENNIUM": "CAST((year({0}) + 999) div 1000 AS BIGINT)",
}
"""Units of EXTRACT that are not functions: their texts for a TIMESTAMP without a zone."""
