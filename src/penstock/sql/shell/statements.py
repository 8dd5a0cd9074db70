"""Where a statement ends while it is typed.

Runs on the driver. Pure. Invariant: a text that is complete here is not changed by more lines: it is handed
to the parser, which reads it or says what is wrong.
"""

from __future__ import annotations

import itertools

from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.tokens import Kind, Token, tokenize

_LEAVE = ("quit", "exit")
_HELP = "help"


def is_complete(text: str) -> bool:
    """Return whether a text ends with a statement, so that Enter runs it and does not begin a line."""
    if not text.strip() or is_leave(text) or is_help(text):
        return True
    try:
        tokens = tokenize(Source(text))[:-1]
    except SqlError:
        return _is_beyond_repair(text)
    return bool(tokens) and tokens[-1].is_(";") and not _in_statement_set(tokens)


def is_leave(text: str) -> bool:
    return _word(text) in _LEAVE


def is_help(text: str) -> bool:
    return _word(text) == _HELP


def _word(text: str) -> str:
    return text.strip().removesuffix(";").strip().lower()


def _is_beyond_repair(text: str) -> bool:
    """Return whether more text cannot end what is open: the parser shall say what is wrong with it."""
    for end in ("'", "`", "*/"):
        try:
            tokenize(Source(text + end))
        except SqlError:
            continue
        return False
    return text.rstrip().endswith(";")


def _in_statement_set(tokens: list[Token]) -> bool:
    """Return whether the last `;` stands inside of a statement set, which only END closes."""
    is_open = False
    statement: list[str] = []
    for token in tokens:
        if not token.is_(";"):
            statement.append(token.value.upper() if token.kind is Kind.WORD else "")
            continue
        is_open = statement[:1] != ["END"] if is_open else _begins_set(statement)
        statement = []
    return is_open


def _begins_set(words: list[str]) -> bool:
    pairs = itertools.pairwise(words)
    return "BEGIN" in words and ("STATEMENT", "SET") in pairs
