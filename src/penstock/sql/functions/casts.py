"""CAST and TRY_CAST with the results of Flink.

Runs on the driver. Invariant: a text that only one of the two systems reads is read as Flink reads it.
"""

from __future__ import annotations

from penstock.sql.functions.read_times import clamped_timestamp, cut_time, date_guard, guarded
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.declared_types import spark_type
from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.texts import INTEGERS, literal

_ALL = 2**31 - 1
_MICROSECONDS = 6
_NUMBERS = (*INTEGERS, "decimal", "float", "double", "boolean")
_NUMBER = r"^\s*[+-]?(NaN|Infinity|[0-9.].*)\s*$"
_SHAPES = {"BOOLEAN": r"^\S+$", "FLOAT": _NUMBER, "DOUBLE": _NUMBER}
_ONLY_FRACTION = r"^\s*[+-]?\.\d+\s*$"
_FRACTION = r"^(\s*[+-]?\d+)\.\d*(\s*)$"


def cast(inner: TypedSql, kind: FlinkType, *, is_try: bool) -> str:
    """Return a value as another type.

    Raises:
        ValueError: the type or its length is not served.
    """
    target = spark_type(kind)
    given = inner.type
    if kind.name in ("TIMESTAMP", "TIMESTAMP_LTZ") and given.startswith(_NUMBERS):
        raise ValueError(
            f"a CAST of {given.upper()} to a {kind.name} is not served, because its unit is not clear. Use "
            "TO_TIMESTAMP_LTZ(x, 0) for seconds, TO_TIMESTAMP_LTZ(x, 3) for milliseconds."
        )
    if given.startswith("timestamp") and target.lower().startswith(_NUMBERS):
        raise ValueError(
            f"a CAST of a time to {kind.name} is not served, because its unit is not clear. Use "
            "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', x)."
        )
    text = _readable(inner.text, kind.name) if given == "string" else inner.text
    # A number that does not fit wraps around in Flink. Here it stops the query, and never becomes NULL.
    wraps = given != "string" and target.lower() in INTEGERS
    return with_length(f"{'try_cast' if is_try and not wraps else 'CAST'}({text} AS {target})", kind)


def _readable(text: str, name: str) -> str:
    """Return a text in a form that Spark reads as Flink reads the given one."""
    if name == "DATE":
        return date_guard(text)
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return clamped_timestamp(text)
    if name in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        whole = f"regexp_replace({text}, {literal(_FRACTION)}, '$1')"
        return f"regexp_replace({whole}, {literal(_ONLY_FRACTION)}, '0')"
    return guarded(text, _SHAPES[name]) if name in _SHAPES else text


def with_length(text: str, kind: FlinkType) -> str:
    """Return a value cut or padded to the length or precision of its type."""
    length = kind.args[0] if kind.args else None
    if kind.name in ("BINARY", "VARBINARY") and length not in (None, _ALL):
        raise ValueError(f"CAST AS {kind.name}({length}) is not served. Use BYTES.")
    if kind.name == "CHAR":
        return f"rpad({text}, {length or 1}, ' ')"
    if kind.name == "VARCHAR" and length not in (None, _ALL):
        return f"substring({text}, 1, {length})"
    return to_precision(text, kind)


def to_precision(text: str, kind: FlinkType) -> str:
    """Return a time without the digits of the second that its type does not have."""
    length = kind.args[0] if kind.args else _MICROSECONDS
    if kind.name not in ("TIMESTAMP", "TIMESTAMP_LTZ") or length >= _MICROSECONDS:
        return text
    return cut_time(text, length, has_zone=kind.name == "TIMESTAMP_LTZ")
