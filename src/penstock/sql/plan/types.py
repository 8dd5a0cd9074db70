"""The types of values in a plan: Flink's, with lengths and digits, and the types of Spark that hold them.

Runs on the driver. Invariant: `from_spark(spark_text(t))` holds the same values as `t`. What Spark's type
does not say, such as the digits of a second, is unknown then: `args` is ().
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.sql.language.flink_types import Field, FlinkType

_TO_SPARK = {
    "STRING": "string",
    "CHAR": "string",
    "VARCHAR": "string",
    "BOOLEAN": "boolean",
    "BYTES": "binary",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP_LTZ": "timestamp",
    "NULL": "void",
    "VARIANT": "variant",
}
_FROM_SPARK = {
    spark: flink
    for flink, spark in _TO_SPARK.items()
    if flink not in ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
}
_OF_SPARK = "RAW"
"""A type of Spark that SQL does not have. `unit` is its name."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DIGITS_MAX = 6
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")
TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
COMPARED_ALIKE = (*INTEGERS, *TIMES, "STRING", "VARCHAR", "CHAR", "BOOLEAN", "DATE", "DECIMAL")
"""Types whose values Arrow compares as Spark does."""

NULL, BOOLEAN, STRING, DOUBLE = (FlinkType(name) for name in ("NULL", "BOOLEAN", "STRING", "DOUBLE"))
INT, BIGINT, DATE = FlinkType("INT"), FlinkType("BIGINT"), FlinkType("DATE")


@functools.cache
def spark_text(kind: FlinkType) -> str:
    """Return the type of Spark as a simple string, with backticks around names of fields that need them.

    Raises:
        ValueError: Spark has no such type.
    """
    if kind.name == "DECIMAL":
        precision, scale = (*kind.args, 0)[:2] if kind.args else (10, 0)
        return f"decimal({precision},{scale})"
    if kind.name == "INTERVAL":
        return f"interval {kind.unit.lower()}"
    if kind.name == "ROW":
        return f"struct<{','.join(f'{_shown(each.name)}:{spark_text(each.type)}' for each in kind.fields)}>"
    if kind.name in ("ARRAY", "MAP"):
        return f"{kind.name.lower()}<{','.join(map(spark_text, kind.elements))}>"
    if kind.name == _OF_SPARK:
        raise ValueError(
            f"SQL has no type for Spark's {kind.unit!r}. Leave the column out, or CAST it in a view of Spark."
        )
    if kind.name not in _TO_SPARK:
        raise ValueError(f"Spark has no type for {kind.name}.")
    return _TO_SPARK[kind.name]


@functools.cache
def from_spark(text: str) -> FlinkType:
    """Return the type that a simple string of Spark is.

    Raises:
        ValueError: SQL has no such type.
    """
    kind, rest = _read(text)
    if rest:
        raise ValueError(f"cannot read Spark's type {text!r} from {rest!r} on.")
    return kind


def type_of_column(text: str) -> FlinkType:
    """Return the type that a column of Spark has, which only a query that uses the column has to know.

    `spark_text` refuses one that SQL does not have.
    """
    try:
        return from_spark(text)
    except ValueError:
        return FlinkType(_OF_SPARK, unit=text)


def text_of_spark(kind: Any) -> str:
    """Return a type of a DataFrame as `from_spark` reads it: with backticks where names need them."""
    name = kind.typeName()
    if name == "array":
        return f"array<{text_of_spark(kind.elementType)}>"
    if name == "map":
        return f"map<{text_of_spark(kind.keyType)},{text_of_spark(kind.valueType)}>"
    if name == "struct":
        fields = (f"{_shown(each.name)}:{text_of_spark(each.dataType)}" for each in kind.fields)
        return f"struct<{','.join(fields)}>"
    return str(kind.simpleString())


def declared(kind: FlinkType) -> FlinkType:
    """Return a type as it was declared, with the digits that Flink takes where none are written."""
    if kind.name in TIMES and not kind.args:
        return replace(kind, args=(_DIGITS_MAX,))
    return kind


def type_of_cast(text: str) -> FlinkType | None:
    """Return the type of an expression of numbers that is a CAST as a whole; None for another one."""
    found = re.fullmatch(r"CAST\((.+) AS ([A-Z]+(?:\(\d+,\d+\))?)\)", text)
    if found is None or ")" in _without_brackets(found[1]):
        return None
    return from_spark(found[2].lower())


def _without_brackets(text: str) -> str:
    inner = re.sub(r"\([^()]*\)", "", text)
    return text if inner == text else _without_brackets(inner)


def widest(kinds: Sequence[FlinkType]) -> FlinkType | None:
    """Return the type that values of one kind have together; None if only Spark can tell.

    NULL has the type of the others. Texts have no common length, and times the most digits.
    """
    found = [each for each in kinds if each.name != "NULL"]
    if not found:
        return NULL
    if len({spark_text(each) for each in found}) == 1:
        return found[0] if len(set(found)) == 1 else from_spark(spark_text(found[0]))
    if all(each.name in INTEGERS for each in found):
        return max(found, key=lambda each: INTEGERS.index(each.name))
    return None


def _shown(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _read(text: str) -> tuple[FlinkType, str]:
    """Return the type that a text begins with, and the rest."""
    word = re.match(r"[a-z_]+", text)
    if word is None:
        raise ValueError(f"cannot read Spark's type {text!r}.")
    name, rest = word[0], text[word.end() :]
    if name == "decimal":
        found = re.match(r"\((\d+),(\d+)\)", rest)
        if found is None:
            raise ValueError(f"cannot read Spark's type {text!r}.")
        return FlinkType("DECIMAL", (int(found[1]), int(found[2]))), rest[found.end() :]
    if name == "interval":
        unit = re.match(r" (year|month|day|hour|minute|second)( to (month|hour|minute|second))?", rest)
        if unit is None:
            raise ValueError(f"SQL has no type for Spark's {text!r}.")
        return FlinkType("INTERVAL", unit=unit[0].strip().upper()), rest[unit.end() :]
    if name in ("array", "map"):
        return _read_elements(name, rest)
    if name == "struct":
        return _read_fields(rest)
    if name not in _FROM_SPARK:
        raise ValueError(f"SQL has no type for Spark's {name!r}.")
    return FlinkType(_FROM_SPARK[name]), rest


def _read_elements(name: str, rest: str) -> tuple[FlinkType, str]:
    elements = []
    while rest[:1] in ("<", ","):
        kind, rest = _read(rest[1:])
        elements.append(kind)
    return FlinkType(name.upper(), elements=tuple(elements)), rest.removeprefix(">")


def _read_fields(rest: str) -> tuple[FlinkType, str]:
    fields = []
    while rest[:1] in ("<", ",") and not rest.startswith("<>"):
        name = re.match(r"`((?:[^`]|``)*)`|([^:`]+)", rest[1:])
        if name is None:
            raise ValueError(f"cannot read a field in {rest!r}.")
        kind, rest = _read(rest[1 + name.end() + 1 :])
        fields.append(Field(name[2] if name[1] is None else name[1].replace("``", "`"), kind))
    return FlinkType("ROW", fields=tuple(fields)), rest.removeprefix("<").removeprefix(">")
