"""Read tokens one after another, and say what was expected where something else stands.

Runs on the driver. Invariant: every failure is a SqlError with the offset of the token that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

from penstock.sql.language.source import Source, nearest
from penstock.sql.language.statements import Fragment, Name
from penstock.sql.language.tokens import Kind, Token

T = TypeVar("T")

_OPENING, _CLOSING = {"(", "[", "{"}, {")", "]", "}"}


class Cursor:
    """A position in the tokens of a script."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self._tokens = tokens
        self._index = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    def at_end(self) -> bool:
        return self.token.kind is Kind.END

    def ahead(self, count: int) -> Token:
        """Return the token `count` tokens after the next one."""
        return self._tokens[min(self._index + count, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """Read one token."""
        token = self.token
        if token.kind is not Kind.END:
            self._index += 1
        return token

    def at(self, words: str) -> bool:
        """Return whether these keywords or symbols, divided by spaces, come next."""
        return all(self.ahead(index).is_(word) for index, word in enumerate(words.split()))

    def take(self, words: str) -> bool:
        """Read these keywords or symbols if they come next."""
        if not self.at(words):
            return False
        self._index += len(words.split())
        return True

    def expect(self, words: str) -> None:
        """Read these keywords or symbols.

        Raises:
            SqlError: something else comes next.
        """
        for word in words.split():
            if not self.take(word):
                self.fail([word])

    def fail(self, expected: Iterable[str], meant: str = "") -> NoReturn:
        """Raise the error for a token that does not fit.

        Args:
            expected: keywords and symbols in upper case, or descriptions that begin in lower case.
            meant: a sentence about what to do.
        """
        expected = list(expected)
        shown = [each if each[:1].islower() else f"'{each}'" for each in expected]
        words = [word for word in expected if word.isupper()]
        hint = nearest(self.token.value, words) if self.token.kind is Kind.WORD else ""
        one_of = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
        message = f"expected {one_of}, got {self.token.shown}.{hint}{' ' if meant else ''}{meant}"
        raise self.source.error(message, self.token.start)

    def refuse(self, message: str, at: Token | None = None) -> NoReturn:
        """Raise the error for a part of the language that is not served."""
        raise self.source.error(message, (at or self.token).start)

    def identifier(self, what: str) -> str:
        """Read one name.

        Raises:
            SqlError: something else comes next. `what` says which name was expected.
        """
        if self.token.kind not in (Kind.WORD, Kind.QUOTED_NAME):
            self.fail([what])
        if not self.token.value:
            raise self.source.error(f"expected {what}, got an empty name.", self.token.start)
        return self.advance().value

    def name(self, what: str) -> Name:
        """Read a name of up to three parts with points between them."""
        offset = self.token.start
        parts = [self.identifier(what)]
        while self.take("."):
            parts.append(self.identifier(what))
        if len(parts) > 3:
            raise self.source.error("expected at most three parts: catalog, database and name.", offset)
        return Name(tuple(parts), offset)

    def text(self, what: str) -> str:
        """Read a text in single quotes."""
        if self.token.kind is not Kind.TEXT:
            self.fail([what])
        return self.advance().value

    def number(self, what: str) -> int:
        """Read a whole number without a sign."""
        if self.token.kind is not Kind.NUMBER or not self.token.value.isdigit() or len(self.token.value) > 10:
            self.fail([what])
        return int(self.advance().value)

    def listed(self, item: Callable[[], T], *, or_empty: bool = False) -> tuple[T, ...]:
        """Read items in brackets, with commas between them."""
        self.expect("(")
        if or_empty and self.take(")"):
            return ()
        items = [item()]
        while not self.take(")"):
            if not self.take(","):
                self.fail([",", ")"])
            items.append(item())
        return tuple(items)

    def fragment(self, what: str, stops: Callable[[], bool] | None = None) -> Fragment:
        """Read the text of a query or expression up to `;`, the end, or where `stops` says so.

        Brackets are read as a whole. A closing bracket that was opened before ends the text.

        Raises:
            SqlError: there is no text, or a bracket does not fit.
        """
        first, depth = self.token, 0
        last: Token | None = None
        while self.token.kind is not Kind.END and not self.at(";"):
            if depth == 0 and stops is not None and stops():
                break
            value = self.token.value if self.token.kind is Kind.SYMBOL else ""
            depth += (value in _OPENING) - (value in _CLOSING)
            if depth < 0:
                break
            last = self.advance()
        if depth > 0:
            self.fail([")"])
        if last is None:
            self.fail([what])
        return Fragment(self.source.text[first.start : last.stop], first.start)
