"""Values as texts of JSON: what JSON_STRING, JSON_OBJECT and JSON_ARRAY of Flink write.

Runs on the driver. Invariant: the text has the digits that Flink gives, or the type is refused.
"""

from __future__ import annotations

import re

from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.texts import INTEGERS, decimal_digits, let, literal

_SCALE_MAX = 6
"""The text of a DECIMAL with more digits may have an exponent."""


def json_text(text: str, kind: str) -> str:
    """Return a value as JSON; NULL for NULL.

    Raises:
        ValueError: the type is not served. The message says what to do.
    """
    digits = decimal_digits(kind)
    if kind == "string":
        return f"to_json(CAST({text} AS VARIANT))"
    if kind == "variant":
        return f"to_json({text})"
    if kind == "boolean" or kind in INTEGERS or (digits and digits[1] <= _SCALE_MAX):
        return f"CAST({text} AS STRING)"
    if kind in ("double", "float"):
        return _double_text(text)
    if kind == "timestamp_ntz":
        return f"""concat('"', replace(CAST({text} AS STRING), ' ', 'T'), '"')"""
    if kind.startswith("array<"):
        element = json_text("__e", kind[len("array<") : -1])
        return f"concat('[', array_join(transform({text}, __e -> {element}), ',', 'null'), ']')"
    if digits:
        raise ValueError(
            f"a DECIMAL with more than {_SCALE_MAX} digits behind the point is not served. CAST it."
        )
    instead = {"timestamp": " Write CAST(... AS TIMESTAMP(3)).", "date": " Write CAST(... AS STRING)."}
    raise ValueError(f"JSON of the type {kind.upper()} is not served.{instead.get(kind, '')}")


def _double_text(text: str) -> str:
    """Return a DOUBLE as Java's BigDecimal writes the digits of Double.toString."""

    def body(x: list[str]) -> str:
        return (
            f"CASE WHEN {x[0]} IN ('NaN', 'Infinity', '-Infinity') THEN concat('\"', {x[0]}, '\"') "
            f"WHEN {x[0]} = '-0.0' THEN '0.0' WHEN NOT contains({x[0]}, 'E') THEN {x[0]} "
            f"ELSE {_shifted(x[0])} END"
        )

    return let([f"CAST(CAST({text} AS DOUBLE) AS STRING)"], body)


def _shifted(text: str) -> str:
    """Return a number such as 1.25E-5 without its exponent, unless BigDecimal keeps it."""
    front, power = f"substring_index({text}, 'E', 1)", f"CAST(substring_index({text}, 'E', -1) AS INT)"
    sign, digits = f"if({text} LIKE '-%', '-', '')", f"translate({front}, '-.', '')"

    def body(x: list[str]) -> str:
        exponent, minus, all_digits = x
        rest = f"substring({all_digits}, {exponent} + 2)"
        return (
            f"CASE WHEN char_length({all_digits}) - 1 < {exponent} OR {exponent} < -6 "
            f"THEN concat({front}, 'E', if({exponent} > 0, '+', ''), {exponent}) "
            f"WHEN {exponent} < 0 THEN concat({minus}, '0.', repeat('0', -{exponent} - 1), {all_digits}) "
            f"ELSE concat({minus}, left({all_digits}, {exponent} + 1), if({rest} = '', '', '.'), {rest}) END"
        )

    return let([power, sign, digits], body)


def json_string(args: list[TypedSql]) -> str:
    return json_text(args[0].text, args[0].type)


def json_object(entries: dict[str, str], *, keeps_nulls: bool) -> str:
    """Return JSON_OBJECT: the texts of values by their names. Flink sorts the names."""
    if not entries:
        return "'{}'"
    parts = []
    for name in sorted(entries, key=lambda each: each.encode("utf-16-be")):
        front = f"{_quoted(name)}:"
        value = f"coalesce({entries[name]}, 'null')" if keeps_nulls else entries[name]
        parts.append(f"concat({literal(front)}, {value})")
    return f"concat('{{', concat_ws(',', {', '.join(parts)}), '}}')"


def _quoted(name: str) -> str:
    if re.search(r"[\x00-\x1f]", name):
        raise ValueError("expected a KEY without signs of control.")
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def json_array(texts: list[str], *, keeps_nulls: bool) -> str:
    values = [f"coalesce({each}, 'null')" for each in texts] if keeps_nulls else texts
    return f"concat('[', concat_ws(',', {', '.join(values)}), ']')" if values else "'[]'"
