"""Read CREATE TABLE and ALTER TABLE.

Runs on the driver. Invariant: a table has each column, the watermark and the primary key at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.sql.language._types import parse_type
from penstock.sql.language.cursor import Cursor
from penstock.sql.language.statements import (
    AlterTable,
    Column,
    ComputedColumn,
    CreateTable,
    Like,
    MetadataColumn,
    Options,
    PhysicalColumn,
    Watermark,
)
from penstock.sql.language.tokens import Kind

_LIKE_WORDS = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_LIKE_PARTS = (
    "ALL",
    "CONSTRAINTS",
    "DISTRIBUTION",
    "GENERATED",
    "METADATA",
    "OPTIONS",
    "PARTITIONS",
    "WATERMARKS",
)


@dataclass
class _Parts:
    columns: list[Column] = field(default_factory=list)
    watermark: Watermark | None = None
    primary_key: tuple[str, ...] = ()


def create_table(cursor: Cursor, temporary: bool, if_not_exists: bool) -> CreateTable:
    """Read CREATE TABLE after the words in front of the name.

    Raises:
        SqlError: a part is missing, stands twice or is not served.
    """
    name = cursor.name("the name of the table")
    parts = _Parts()
    if cursor.at("("):
        cursor.listed(lambda: _element(cursor, parts), or_empty=True)
    _check_names(cursor, parts)
    comment = cursor.text("a comment in quotes") if cursor.take("COMMENT") else None
    if cursor.at("DISTRIBUTED"):
        cursor.refuse(
            "DISTRIBUTED is not served, because a topic has its partitions since it was created. Leave it "
            "out; 'sink.partitioner' chooses the partition of a row."
        )
    partitioned = (
        cursor.listed(lambda: cursor.identifier("a column")) if cursor.take("PARTITIONED BY") else ()
    )
    options = options_list(cursor) if cursor.take("WITH") else ()
    like = _like(cursor) if cursor.take("LIKE") else None
    query = cursor.fragment("a query") if cursor.take("AS") else None
    if not (parts.columns or like or query or options):
        cursor.fail(["(", "WITH", "LIKE", "AS"])
    return CreateTable(
        name,
        tuple(parts.columns),
        parts.watermark,
        parts.primary_key,
        comment,
        partitioned,
        options,
        like,
        query,
        temporary,
        if_not_exists,
    )


def options_list(cursor: Cursor) -> Options:
    """Read `('key' = 'value', ...)`.

    Raises:
        SqlError: a quote, `=` or bracket is missing, or a key stands twice.
    """
    seen: set[str] = set()

    def option() -> tuple[str, str]:
        token = cursor.token
        if token.is_("."):
            cursor.refuse("replace the '...' by options, e.g. 'topic' = 'orders'.")
        key = cursor.text("an option in quotes, such as 'topic'")
        if key in seen:
            cursor.refuse(f"the option '{key}' is given twice.", token)
        seen.add(key)
        cursor.expect("=")
        return key, cursor.text(f"the value of '{key}' in quotes")

    return cursor.listed(option, or_empty=True)


def alter_table(cursor: Cursor) -> AlterTable:
    """Read ALTER TABLE after these two words.

    Raises:
        SqlError: the change is not one of those that are served.
    """
    if_exists = cursor.take("IF EXISTS")
    name = cursor.name("the name of the table")
    if cursor.take("SET"):
        return AlterTable(name, if_exists, set_options=options_list(cursor))
    if cursor.take("RESET"):
        keys = cursor.listed(lambda: cursor.text("an option in quotes"))
        return AlterTable(name, if_exists, reset_options=keys)
    if cursor.take("RENAME TO"):
        return AlterTable(name, if_exists, rename_to=cursor.name("the new name"))
    if cursor.take("RENAME"):
        old = cursor.identifier("the name of a column")
        cursor.expect("TO")
        return AlterTable(name, if_exists, rename_column=(old, cursor.identifier("the new name")))
    if cursor.take("ADD"):
        parts = _Parts()
        if cursor.at("("):
            cursor.listed(lambda: _element(cursor, parts))
        else:
            _element(cursor, parts)
        _check_names(cursor, parts)
        return AlterTable(
            name,
            if_exists,
            add=tuple(parts.columns),
            add_watermark=parts.watermark,
            add_primary_key=parts.primary_key,
        )
    if any(cursor.at(word) for word in ("MODIFY", "DROP")):
        word = cursor.token.value.upper()
        cursor.refuse(f"ALTER TABLE ... {word} is not served. Drop the table and create it as it should be.")
    return cursor.fail(["SET", "RESET", "RENAME TO", "RENAME", "ADD"])


def _element(cursor: Cursor, parts: _Parts) -> None:
    token = cursor.token
    if cursor.at("WATERMARK FOR"):
        if parts.watermark is not None:
            cursor.refuse("a table has one WATERMARK, and this is the second one.", token)
        parts.watermark = _watermark(cursor)
    elif cursor.at("PRIMARY KEY") or (cursor.at("CONSTRAINT") and cursor.ahead(2).is_("PRIMARY")):
        _one_key(cursor, parts)
        if cursor.take("CONSTRAINT"):
            cursor.identifier("the name of the constraint")
        cursor.expect("PRIMARY KEY")
        parts.primary_key = cursor.listed(lambda: cursor.identifier("a column"))
        _not_enforced(cursor)
    elif cursor.at("UNIQUE ("):
        cursor.refuse("UNIQUE is not served. Flink has PRIMARY KEY (...) NOT ENFORCED only.")
    else:
        parts.columns.append(_column(cursor, parts))


def _watermark(cursor: Cursor) -> Watermark:
    cursor.expect("WATERMARK FOR")
    parts = [cursor.identifier("the column of the event time")]
    while cursor.take("."):
        parts.append(cursor.identifier("a field"))
    cursor.expect("AS")
    return Watermark(".".join(parts), cursor.fragment("an expression", lambda: cursor.at(",")))


def _one_key(cursor: Cursor, parts: _Parts) -> None:
    if parts.primary_key:
        cursor.refuse("a table has one PRIMARY KEY, and this is the second one.")


def _not_enforced(cursor: Cursor) -> None:
    if not cursor.take("NOT ENFORCED"):
        cursor.fail(
            ["NOT ENFORCED"],
            "Kafka does not check keys, so Flink wants the words NOT ENFORCED after the key.",
        )


def _column(cursor: Cursor, parts: _Parts) -> Column:
    name = cursor.identifier("a column, WATERMARK or PRIMARY KEY")
    if cursor.take("AS"):
        expression = cursor.fragment("an expression", lambda: cursor.at(",") or _at_comment(cursor))
        return ComputedColumn(name, expression, _comment(cursor))
    kind = parse_type(cursor)
    if cursor.take("METADATA"):
        key = cursor.text("the key of the metadata in quotes") if cursor.take("FROM") else None
        virtual = cursor.take("VIRTUAL")
        return MetadataColumn(name, kind, key, virtual, _comment(cursor))
    if cursor.at("CONSTRAINT") or cursor.at("PRIMARY KEY"):
        _one_key(cursor, parts)
        if cursor.take("CONSTRAINT"):
            cursor.identifier("the name of the constraint")
        cursor.expect("PRIMARY KEY")
        _not_enforced(cursor)
        parts.primary_key = (name,)
    return PhysicalColumn(name, kind, _comment(cursor))


def _at_comment(cursor: Cursor) -> bool:
    return cursor.at("COMMENT") and cursor.ahead(1).kind is Kind.TEXT


def _comment(cursor: Cursor) -> str | None:
    comment = cursor.text("a comment in quotes") if cursor.take("COMMENT") else None
    if not (cursor.at(",") or cursor.at(")") or cursor.at(";") or cursor.token.kind is Kind.END):
        cursor.fail([",", ")", "METADATA", "NOT NULL", "COMMENT"])
    return comment


def _like(cursor: Cursor) -> Like:
    table = cursor.name("the name of a table")
    if not cursor.at("("):
        return Like(table)
    cursor.expect("(")
    options: list[tuple[str, str]] = []
    while not cursor.take(")"):
        word = next((each for each in _LIKE_WORDS if cursor.take(each)), None)
        if word is None:
            cursor.fail([*_LIKE_WORDS, ")"])
        part = next((each for each in _LIKE_PARTS if cursor.take(each)), None)
        if part is None:
            cursor.fail(_LIKE_PARTS)
        options.append((word, part))
    return Like(table, tuple(options))


def _check_names(cursor: Cursor, parts: _Parts) -> None:
    seen: set[str] = set()
    for column in parts.columns:
        if column.name.lower() in seen:
            cursor.refuse(
                f"the column '{column.name}' is declared twice. Spark compares names without their case."
            )
        seen.add(column.name.lower())
