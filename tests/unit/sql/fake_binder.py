"""A session without Spark: it knows the types of a few columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment, Options
from penstock.sql.query.piece import Translated, UnknownTypeError, UserFunction
from penstock.sql.query.rows import Relation
from penstock.sql.query.steps import Step
from penstock.sql.query.translate import translate_query

NO_TABLES: Mapping[str, Relation] = MappingProxyType({})
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
    """Knows the tables t and u, with the columns of TYPES, and the functions py_upper and py_pure."""

    zone_is_utc = True
    foreign_zone: str | None = None
    state_ttl: str | None = None
    deterministic = ("py_pure",)
    has_watermarks = False
    waiting = ""
    is_of_outer_join = False

    def __init__(self, tables: Mapping[str, Relation] = NO_TABLES) -> None:
        self.options: list[Options] = []
        self.streams = dict(tables)
        self.steps: list[Step] = []
        self.parts: dict[str, str] = {}
        self.time = "watermark"
        self.accepts = False
        self.warnings: list[str] = []

    def table(
        self, parts: tuple[str, ...], options: Options, *, has_place: bool = False, is_raw: bool = False
    ) -> Relation | None:
        self.options.append(options)
        if parts[-1] in self.streams:
            return self.streams[parts[-1]]
        return Relation(f"`{parts[-1]}`") if parts[-1] in ("t", "u", "T T") else None

    def is_streaming(self, select: str) -> bool:
        return bool(self.streams)

    def window_parts(self, select: str) -> dict[str, str]:
        return self.parts

    def kind_of_time(self, select: str, column: str) -> str:
        return self.time

    def watermarks(self, select: str) -> dict[str, bool] | None:
        """Return the columns `ltz`, if a table has a watermark. Rows of `waiting` wait for it."""
        if not self.has_watermarks:
            return None
        if select.startswith("SELECT * "):
            return {"ltz": False}
        found = re.findall(r"(`\w+`)\.`ltz` AS `(\w+)`", select)
        return {name: table == self.waiting for table, name in found}

    def has_outer_join(self, select: str) -> bool:
        return self.is_of_outer_join

    def cut(self, step: Step, place: str = "") -> str:
        self.steps.append(step)
        return f"`cut{len(self.steps)}`"

    def tables(self) -> list[str]:
        return ["t", "u"]

    def column_types(self, select: str) -> list[tuple[str, str]]:
        star = re.match(r"SELECT `(\w+)`\.\* FROM", select)
        if star is not None:
            return _columns_of(star.group(1), select)
        if " AS x " not in select:
            own = _names(select.split(" FROM ", maxsplit=1)[0]) if select.startswith("SELECT ") else []
            return [(name, "int") for name in own or _names(select)]
        text = re.match(r"(?:WITH .*\) )?SELECT (.*) AS x ", select)
        assert text is not None
        return [("x", _type_of(text.group(1)))]

    def function(self, name: str) -> UserFunction | None:
        return UserFunction(name, name in self.deterministic) if name in ("py_upper", "py_pure") else None

    def accepts_varying(self, message: str) -> bool:
        self.warnings.append(message)
        return self.accepts


def _names(select: str) -> list[str]:
    return re.findall(r"AS `([^`]+)`(?=,| FROM|$)", select)


def _columns_of(alias: str, select: str) -> list[tuple[str, str]]:
    """Return the columns that a query in FROM names, or those of a table."""
    query = re.search(rf"\(SELECT (.*)\) AS `{alias}`", select)
    if query is None or "*" in query.group(1):
        return [(name, TYPES[name]) for name in ("i", "s", "l", "ltz")]
    shown = query.group(1).split(" FROM ")[0].split("(SELECT ")[-1]
    names = re.findall(r"AS `([^`]+)`", shown)
    return [(name, TYPES.get(name, "int" if name.startswith("__a") else "string")) for name in names]


def _type_of(text: str) -> str:
    known = {
        r"-?\d+": "int",
        r"array\(.*\)": "array<double>",
        r"\d+\.\d+": "decimal(2,1)",
        r"\(?`[gr]\d`\)?|\(?coalesce\(`[gr]\d`, 0\)\)?": "int",
        r"`\w+`\.`__correlated\d`|`py_upper`\(.*\)": "string",
    }
    for pattern, kind in known.items():
        if re.fullmatch(pattern, text):
            return kind
    cast = re.search(r" AS ([A-Z_]+)\)$", text)
    name = text.rsplit(".", maxsplit=1)[-1].strip("`()")
    if cast is None and name not in TYPES:
        raise UnknownTypeError(f"no such column {name}")
    return cast.group(1).lower() if cast else TYPES[name]


def translated(query: str, binder: FakeBinder | None = None, free: tuple[bool, ...] = ()) -> Translated:
    return translate_query(Fragment(query), Source(query), binder or FakeBinder(), free=free)


def in_spark(expression: str) -> str:
    """Return the translation of an expression over the table t."""
    sql = translated(f"SELECT {expression} AS x FROM t").sql
    assert sql.startswith("SELECT ")
    return sql.removeprefix("SELECT ").removesuffix(" AS `x` FROM `t` AS `t`")
