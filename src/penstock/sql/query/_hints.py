"""Hints of queries: their texts, and the query without them.

Runs on the driver. Invariant: the rest of a query keeps its offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.language.source import Source
from penstock.sql.language.tokens import Kind, tokenize


@dataclass(frozen=True)
class Hint:
    """A hint: its text, its offset, and the offset where the token before it ends."""

    text: str
    start: int
    before: int


def without_hints(text: str) -> tuple[str, list[Hint]]:
    """Return the text with spaces for its hints, and the hints."""
    hints: list[Hint] = []
    before = 0
    for token in tokenize(Source(text)):
        if token.kind is Kind.HINT:
            hints.append(Hint(token.value, token.start, before))
            spaces = "".join(c if c == "\n" else " " for c in token.value)
            text = text[: token.start] + spaces + text[token.stop :]
        else:
            before = token.stop
    return text, hints
