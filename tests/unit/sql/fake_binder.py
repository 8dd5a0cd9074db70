"""A session without Spark: it knows the types of a few columns."""

from __future__ import annotations

import re

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment, Options
from penstock.sql.query.piece import Translated, UnknownTypeError
from penstock.sql.query.translate import translate_query

TYPES = {
    "i": "int",
    "l": "bigint",
    "d": "double",
    "p": "decimal(10,2)",
    "s": "string",
    "b": "boolean",
    "ts": "timestamp_ntz",
    "ltz": "timestamp",
    "day": "date",
    "a": "array<int>",
    "r": "array<struct<x:int,y:string>>",
    "m": "map<string,int>",
}


class FakeBinder:
    """Knows the tables t and u, with the columns of TYPES, and the function py_upper."""

    zone_is_utc = True

    def __init__(self) -> None:
        self.options: list[Options] = []

    def table(self, parts: tuple[str, ...], options: Options) -> str | None:
        self.options.append(options)
        return f"`{parts[-1]}`" if parts[-1] in ("t", "u", "T T") else None

    def tables(self) -> list[str]:
        return ["t", "u"]

    def column_types(self, select: str) -> list[tuple[str, str]]:
        text = re.match(r"(?:WITH .*\) )?SELECT (.*) AS x ", select)
        assert text is not None
        word = text.group(1)
        if re.fullmatch(r"-?\d+", word):
            return [("x", "int")]
        if re.fullmatch(r"\d+\.\d+", word):
            return [("x", "decimal(2,1)")]
        cast = re.search(r" AS ([A-Z_]+)\)$", word)
        name = word.split(".")[-1].strip("`()")
        if cast is None and name not in TYPES:
            raise UnknownTypeError(f"no such column {name}")
        return [("x", cast.group(1).lower() if cast else TYPES[name])]

    def has_function(self, name: str) -> bool:
        return name == "py_upper"


def translated(query: str, binder: FakeBinder | None = None) -> Translated:
    return translate_query(Fragment(query), Source(query), binder or FakeBinder())


def in_spark(expression: str) -> str:
    """Return the translation of an expression over the table t."""
    sql = translated(f"SELECT {expression} AS x FROM t").sql
    assert sql.startswith("SELECT ")
    return sql.removeprefix("SELECT ").removesuffix(" AS `x` FROM `t` AS `t`")
