"""Types and constants of SQL as Arrow holds them, for continuous queries. Runs on the driver.

Invariant: what is not listed here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from penstock.sql.emit.arrow_values import Constant
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.expressions import Literal
from penstock.sql.plan.texts import INTEGERS, decimal_digits
from penstock.sql.plan.types import spark_text

TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_COMPARED = ("string", "boolean", "date", "timestamp_ntz", "timestamp")
_INTEGER_DIGITS, DIGITS_MAX = 20, 38
"""The digits that Spark gives to a BIGINT beside a DECIMAL, and the most that a DECIMAL has."""
_TIME = re.compile(r"TIMESTAMP_NTZ '(.*)'")


class NotServedError(ValueError):
    """A part of a query that a continuous query does not serve.

    Attributes:
        offset: where the script has it; -1 if unknown.
    """

    def __init__(self, what: str, offset: int = -1) -> None:
        super().__init__(
            f"{what}, which a continuous query does not serve. Nothing was started. Without "
            "'penstock.continuous' (RESET) the INSERT runs in micro-batches."
        )
        self.offset = offset


def arrow_type(kind: FlinkType) -> pa.DataType:
    """Return the type of Arrow that holds a type of SQL.

    Raises:
        ValueError: values of this type are not served.
    """
    text = spark_text(kind)
    if (digits := decimal_digits(text)) is not None:
        return pa.decimal128(*digits)
    if text not in TYPES:
        raise ValueError(f"the type {text.upper()}")
    return TYPES[text]


def row_type(kind: FlinkType) -> pa.DataType:
    """Return the type of Arrow that holds a ROW, of which single fields are taken.

    Raises:
        NotServedError: a type in it is not served.
    """
    if kind.name != "ROW":
        try:
            return arrow_type(kind)
        except ValueError as error:
            raise NotServedError(f"a field of a ROW has {error}") from None
    return pa.struct([(each.name, row_type(each.type)) for each in kind.fields])


def common_type(kinds: set[str]) -> pa.DataType | None:
    """Return a type in which values of these types compare as in Spark; None if there is none."""
    if len(kinds) == 1 and next(iter(kinds)) in _COMPARED:
        return TYPES[next(iter(kinds))]
    if kinds and kinds <= {*INTEGERS}:
        return pa.int64()
    if kinds in ({"float"}, {"double"}) or ("double" in kinds and kinds <= {"float", "double", *INTEGERS}):
        return pa.float64()
    others = kinds - {*INTEGERS}
    decimals = [digits for digits in map(decimal_digits, others) if digits is not None]
    if not decimals or len(decimals) < len(others):
        return None
    scale = max(scale for _, scale in decimals)
    whole = max(precision - scale for precision, scale in decimals)
    if len(decimals) < len(kinds):
        whole = max(whole, _INTEGER_DIGITS)
    return pa.decimal128(DIGITS_MAX, scale) if whole + scale <= DIGITS_MAX else None


def constant(literal: Literal) -> Constant:
    """Return a constant of SQL. Raises NotServedError if its type is not served."""
    kind, value = spark_text(literal.type), literal.value
    if kind == "void":
        raise NotServedError("a NULL has no type here: write CAST(NULL AS ...)")
    if literal.text == "NULL":
        return Constant(pa.scalar(None, arrow_type(literal.type)))
    if kind in ("string", "boolean", *INTEGERS) and value is not None:
        return Constant(pa.scalar(value, TYPES[kind]))
    if kind in ("float", "double"):
        return Constant(pa.scalar(float(literal.text.upper().rstrip("DF")), TYPES[kind]))
    if kind.startswith("decimal"):
        return Constant(pa.scalar(Decimal(literal.text), arrow_type(literal.type)))
    if kind == "date":
        return Constant(pa.scalar(date(*map(int, str(value).split("-"))), pa.date32()))
    if kind == "timestamp_ntz" and (found := _TIME.fullmatch(literal.text)) is not None:
        return Constant(pa.scalar(_time(found[1]), pa.timestamp("us")))
    raise NotServedError(f"the query has the constant {literal.text}")


def _time(text: str) -> datetime:
    clock, _, fraction = text.partition(".")
    numbers = map(int, re.split("[-: ]", clock))
    return datetime(*numbers, microsecond=int(fraction[:6].ljust(6, "0")))  # type: ignore[arg-type,misc]  # noqa: DTZ001 - it has no zone
