"""What may come next at the cursor: statements, names of tables, options and their values.

Runs on the driver. Pure. Invariant: every text gives an answer, also one that is not SQL.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import SqlError
from penstock.formats.registry import format_class, format_names
from penstock.options.declare import Option, Status
from penstock.options.flink import FLINK_OPTIONS
from penstock.sql.connectors.datagen.plan import FIELD_OPTIONS, TABLE_OPTIONS
from penstock.sql.connectors.jdbc.settings import OPTIONS as JDBC_OPTIONS
from penstock.sql.language.source import Source
from penstock.sql.language.tokens import Kind, Token, tokenize

STARTS = (
    "SELECT",
    "INSERT INTO",
    "CREATE TABLE",
    "CREATE TEMPORARY TABLE",
    "CREATE VIEW",
    "CREATE TEMPORARY FUNCTION",
    "CREATE DATABASE",
    "DESCRIBE",
    "EXPLAIN",
    "EXECUTE STATEMENT SET BEGIN",
    "SHOW TABLES",
    "SHOW VIEWS",
    "SHOW JOBS",
    "STOP JOB",
    "SHOW FUNCTIONS",
    "SHOW DATABASES",
    "SHOW CREATE TABLE",
    "SET",
    "RESET",
    "DROP TABLE",
    "DROP VIEW",
    "ALTER TABLE",
    "USE",
    "WITH",
    "QUIT",
    "HELP",
)
_WORDS = (
    *("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "CROSS JOIN", "ON"),
    *("AS", "AND", "OR", "NOT", "IN", "BETWEEN", "IS NULL", "IS NOT NULL", "DISTINCT", "UNION ALL", "VALUES"),
    *(
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
        "INTERVAL",
        "SELECT",
        "TABLE",
        "TUMBLE",
        "HOP",
        "SESSION",
    ),
    *(
        "DESCRIPTOR",
        "WATERMARK FOR",
        "METADATA FROM",
        "VIRTUAL",
        "PRIMARY KEY",
        "NOT ENFORCED",
        "WITH",
        "LIKE",
    ),
    *("STRING", "BIGINT", "INT", "DOUBLE", "BOOLEAN", "DECIMAL", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "DATE"),
)
_BEFORE_TABLES = ("FROM", "JOIN", "INTO", "TABLE", "VIEW", "DESCRIBE", "DESC", "LIKE", "OVERWRITE")
_CONNECTORS = ("kafka", "upsert-kafka", "filesystem", "jdbc", "datagen", "print", "blackhole")
_FILES = ("connector", "path", "format", "source.monitor-interval")
_FILE_FORMATS = ("json", "csv", "parquet", "orc", "avro")
_SET = (Status.SUPPORTED, Status.NO_EFFECT)
_ENDS = ("'", "`", "*/")
_WORD = re.compile(r"[\w$]*\Z")


@dataclass(frozen=True)
class Known:
    """The names of a session.

    Attributes:
        tables: tables and views.
        settings: the keys of SET and the values that each of them can have.
    """

    tables: Sequence[str] = ()
    settings: dict[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Suggestions:
    """Texts that may replace the last `length` characters before the cursor."""

    length: int
    texts: tuple[str, ...]


def suggest(before: str, known: Known) -> Suggestions:
    """Return what may come next."""
    tokens, open_text = _tokens(before)
    statement = _last_statement(tokens)
    if open_text is not None:
        return _matching(open_text, (f"{text}'" for text in _in_quotes(statement, known)))
    found = _WORD.search(before)
    word = found.group() if found is not None else ""
    if word and statement and statement[-1].kind is Kind.WORD:
        statement = statement[:-1]
    if not statement:
        return _matching(word, STARTS)
    is_table = statement[-1].value.upper() in _BEFORE_TABLES
    return _matching(word, known.tables if is_table else (*_WORDS, *known.tables))


def _matching(partial: str, texts: Iterable[str]) -> Suggestions:
    begin = partial.lower()
    found = sorted({text for text in texts if text.lower().startswith(begin)}, key=str.lower)
    return Suggestions(len(partial), tuple(found))


def _tokens(before: str) -> tuple[list[Token], str | None]:
    """Return the tokens before the cursor, and the beginning of the text in quotes that the cursor is in."""
    try:
        return tokenize(Source(before))[:-1], None
    except SqlError:
        pass
    for end in _ENDS:
        try:
            tokens = tokenize(Source(before + end))[:-1]
        except SqlError:
            continue
        if end == "'" and tokens and tokens[-1].kind is Kind.TEXT:
            return tokens[:-1], tokens[-1].value
        return [], "" if end == "'" else None
    return [], None


def _last_statement(tokens: list[Token]) -> list[Token]:
    starts = [at + 1 for at, token in enumerate(tokens) if token.is_(";")]
    return tokens[starts[-1] :] if starts else tokens


def _in_quotes(statement: list[Token], known: Known) -> Iterable[str]:
    """Return the options or values that fit into the quotes at the cursor."""
    if not statement:
        return ()
    settings = known.settings or {}
    is_set = statement[0].is_("SET") or statement[0].is_("RESET")
    if statement[-1].is_("="):
        key = statement[-2].value if len(statement) > 1 else ""
        return settings.get(key, ()) if is_set else _values(key, _given(statement))
    if is_set:
        return settings
    words = {token.value.upper() for token in statement if token.kind is Kind.WORD}
    if statement[-1].value not in ("(", ",") or not words & {"WITH", "SET"}:
        return ()
    given = _given(statement)
    return (key for key in _options(given.get("connector"), statement) if key not in given)


def _given(statement: list[Token]) -> dict[str, str]:
    """Return the options that the statement has so far."""
    triples = zip(statement, statement[1:], statement[2:], strict=False)
    return {
        key.value: value.value
        for key, equals, value in triples
        if key.kind is Kind.TEXT and equals.is_("=") and value.kind is Kind.TEXT
    }


def _options(connector: str | None, statement: list[Token]) -> Iterable[str]:
    if connector == "datagen":
        columns = _columns(statement)
        return (*TABLE_OPTIONS, *(f"fields.{name}.{each}" for name in columns for each in FIELD_OPTIONS))
    if connector == "jdbc":
        return JDBC_OPTIONS
    if connector == "filesystem":
        return _FILES
    if connector in ("print", "blackhole"):
        return ("connector",)
    given = _given(statement)
    formats = (*_KAFKA, *_format_options(given.get("format")), *_format_options(given.get("value.format")))
    return ("connector", *formats, *(() if connector else (*_FILES, *TABLE_OPTIONS, *JDBC_OPTIONS)))


def _format_options(name: str | None) -> Iterable[str]:
    if name is None or name not in format_names():
        return ()
    try:
        options = format_class(name).options
    except ImportError:  # protobuf is an extra
        return ()
    return (option.key for option in options if option.status in _SET)


def _columns(statement: list[Token]) -> list[str]:
    """Return the names that stand where a column begins: behind the first bracket, or behind a comma."""
    pairs = itertools.pairwise(statement)
    names = (Kind.WORD, Kind.QUOTED_NAME)
    return [name.value for before, name in pairs if before.value in ("(", ",") and name.kind in names]


def _values(key: str, given: dict[str, str]) -> Iterable[str]:
    if key == "connector":
        return _CONNECTORS
    if key == "format" and given.get("connector") == "filesystem":
        return _FILE_FORMATS
    if key in ("format", "key.format", "value.format"):
        return format_names()
    if key.startswith("fields.") and key.endswith(".kind"):
        return ("random", "sequence")
    option = _KAFKA.get(key)
    has_words = option is not None and option.type.name in ("boolean", "word")
    return option.type.allowed.split(", ") if option is not None and has_words else ()


_KAFKA: dict[str, Option[object]] = {
    option.key: option for option in FLINK_OPTIONS if option.status in _SET and not option.key.endswith("*")
}
