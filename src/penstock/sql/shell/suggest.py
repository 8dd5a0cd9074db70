"""What may come next at the cursor: statements, names of tables, options and their values.

Runs on the driver. Pure. Invariant: every text gives an answer, also one that is not SQL.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import SqlError
from penstock.sql.connectors.suggested import options_for, values_for
from penstock.sql.language.source import Source
from penstock.sql.language.tokens import Kind, Token, tokenize

STARTS = (
    *("SELECT", "INSERT INTO", "CREATE TABLE", "CREATE TEMPORARY TABLE", "CREATE VIEW"),
    *("CREATE TEMPORARY FUNCTION", "CREATE DATABASE", "DESCRIBE", "EXPLAIN", "EXECUTE STATEMENT SET BEGIN"),
    *("SHOW TABLES", "SHOW VIEWS", "SHOW JOBS", "STOP JOB", "SHOW FUNCTIONS", "SHOW DATABASES"),
    *("SHOW CREATE TABLE", "SET", "RESET", "DROP TABLE", "DROP VIEW", "ALTER TABLE", "USE", "WITH", "QUIT"),
    *("HELP",),
)
_WORDS = (
    *("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "CROSS JOIN", "ON"),
    *("AS", "AND", "OR", "NOT", "IN", "BETWEEN", "IS NULL", "IS NOT NULL", "DISTINCT", "UNION ALL", "VALUES"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "INTERVAL", "SELECT", "TABLE", "TUMBLE", "HOP"),
    *("SESSION", "DESCRIPTOR", "WATERMARK FOR", "METADATA FROM", "VIRTUAL", "PRIMARY KEY", "NOT ENFORCED"),
    *("WITH", "LIKE", "STRING", "BIGINT", "INT", "DOUBLE", "BOOLEAN", "DECIMAL", "TIMESTAMP(3)"),
    *("TIMESTAMP_LTZ(3)", "DATE"),
)
_BEFORE_TABLES = ("FROM", "JOIN", "INTO", "TABLE", "VIEW", "DESCRIBE", "DESC", "LIKE", "OVERWRITE")
_ENDS = ("'", "`", "*/")
_WORD = re.compile(r"[\w$]*\Z")


@dataclass(frozen=True)
class SessionNames:
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


def suggest(before: str, known: SessionNames) -> Suggestions:
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


def _in_quotes(statement: list[Token], known: SessionNames) -> Iterable[str]:
    """Return the options or values that fit into the quotes at the cursor."""
    if not statement:
        return ()
    settings = known.settings or {}
    is_set = statement[0].is_("SET") or statement[0].is_("RESET")
    if statement[-1].is_("="):
        key = statement[-2].value if len(statement) > 1 else ""
        return settings.get(key, ()) if is_set else values_for(key, _options_so_far(statement))
    if is_set:
        return settings
    words = {token.value.upper() for token in statement if token.kind is Kind.WORD}
    if statement[-1].value not in ("(", ",") or not words & {"WITH", "SET"}:
        return ()
    given = _options_so_far(statement)
    return (key for key in options_for(given, _columns(statement)) if key not in given)


def _options_so_far(statement: list[Token]) -> dict[str, str]:
    """Return the options that the statement has so far."""
    triples = zip(statement, statement[1:], statement[2:], strict=False)
    return {
        key.value: value.value
        for key, equals, value in triples
        if key.kind is Kind.TEXT and equals.is_("=") and value.kind is Kind.TEXT
    }


def _columns(statement: list[Token]) -> list[str]:
    """Return the names that stand where a column begins: behind the first bracket, or behind a comma."""
    pairs = itertools.pairwise(statement)
    names = (Kind.WORD, Kind.QUOTED_NAME)
    return [name.value for before, name in pairs if before.value in ("(", ",") and name.kind in names]
