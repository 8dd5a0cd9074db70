"""Divide a script into tokens.

Runs on the driver. Invariant: each token knows its first and last character, so that errors show line and
column, and texts of queries are kept as they were written. Every text is divided, or refused with line and
column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from penstock.sql.language.source import Source

MAX_DEPTH = 40
"""The largest number of open brackets. The parser of queries calls itself for each of them."""


class Kind(Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED_NAME = "name in backticks"
    TEXT = "text in quotes"
    NUMBER = "number"
    SYMBOL = "symbol"
    HINT = "hint"
    END = "end of the script"


@dataclass(frozen=True)
class Token:
    """One token.

    Attributes:
        kind: what it is.
        value: the word as written, the name or text without its quotes, or the symbol.
        start: offset of the first character.
        stop: offset after the last character.
    """

    kind: Kind
    value: str
    start: int
    stop: int

    def is_(self, word: str) -> bool:
        """Return whether this is the keyword (in any case) or symbol."""
        return self.kind in (Kind.WORD, Kind.SYMBOL) and self.value.upper() == word

    def moved(self, offset: int) -> Token:
        """Return the token in a text that has more before it."""
        return replace(self, start=self.start + offset, stop=self.stop + offset)

    @property
    def shown(self) -> str:
        """Return the token for a message."""
        if self.kind is Kind.END:
            return "the end"
        if self.kind in (Kind.TEXT, Kind.HINT):  # it may hold a secret
            return f"a {self.kind.value}"
        quote = "`" if self.kind is Kind.QUOTED_NAME else "'"
        return f"{quote}{self.value[:40]}{quote}"


_PATTERN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<hint>/\*\+.*?\*/)
    | (?P<comment>/\*.*?\*/)
    | (?P<prefixed>(?:[xX]|[uU]&|_UTF16|_utf16)'(?:[^']|'')*')
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<symbol>=>|<=|>=|<>|!=|\|\||->|[-+*/%(),;.=<>\[\]{}?:|&^])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENING, _CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
_UNCLOSED = {
    "'": "a text in single quotes does not end. Write a quote inside of it twice",
    "`": "a name in backticks does not end",
    "/*": "a comment does not end; expected '*/'",
    '"': "expected a text in single quotes or a name in backticks, got a double quote. Flink's SQL has no "
    "double quotes",
}


def tokenize(source: Source) -> list[Token]:
    """Return the tokens of a text, with one of kind END as the last one.

    Raises:
        SqlError: a text or comment does not end, a character is unknown, or brackets are too deep.
    """
    tokens = list(_tokens(source))
    _check_depth(source, tokens)
    tokens.append(Token(Kind.END, "", len(source.text), len(source.text)))
    return tokens


def _tokens(source: Source) -> Iterator[Token]:
    text, position = source.text, 0
    while position < len(text):
        found = _PATTERN.match(text, position)
        beginning = next((each for each in _UNCLOSED if text.startswith(each, position)), None)
        if found is None or (beginning == "/*" and found.lastgroup == "symbol"):
            raise source.error(_no_token(text, position, beginning), position)
        kind, written = found.lastgroup, found.group()
        if kind not in ("space", "comment"):
            yield _token(kind or "", written, position)
        position = found.end()


def _token(group: str, written: str, start: int) -> Token:
    stop = start + len(written)
    if group == "text":
        return Token(Kind.TEXT, written[1:-1].replace("''", "'"), start, stop)
    if group == "quoted":
        return Token(Kind.QUOTED_NAME, written[1:-1].replace("``", "`"), start, stop)
    kinds = {"number": Kind.NUMBER, "word": Kind.WORD, "symbol": Kind.SYMBOL, "hint": Kind.HINT}
    return Token(kinds.get(group, Kind.NUMBER), written, start, stop)


def _no_token(text: str, position: int, beginning: str | None) -> str:
    if beginning is not None:
        return f"{_UNCLOSED[beginning]}."
    return f"the character {text[position]!r} has no meaning here."


def _check_depth(source: Source, tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        if token.kind is Kind.SYMBOL:
            depth += (token.value in _OPENING) - (token.value in _CLOSING)
            if depth > MAX_DEPTH:
                raise source.error(
                    f"more than {MAX_DEPTH} brackets are open. Divide the statement, e.g. with views.",
                    token.start,
                )
