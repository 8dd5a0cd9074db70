"""Regular expressions whose parts penstock.sql.functions.patterns knows, and texts that they may match."""

from __future__ import annotations

import random

_ONE = ("a", "a", "b", "=", "\\.", "é", ".", "[ab]", "[^a=]", "\\w", "[a-b.-]")
_BETWEEN = ("^", "$", "\\b")
_TIMES = ("", "", "", "*", "+", "?", "*?", "{2}", "{0,2}", "{1,}")


def a_pattern(chance: random.Random, depth: int = 0) -> str:
    """Return a pattern with groups in groups."""
    return "|".join(_sequence(chance, depth) for _ in range(chance.choice((1, 1, 1, 1, 2, 3))))


def _sequence(chance: random.Random, depth: int) -> str:
    return "".join(_part(chance, depth) for _ in range(chance.randrange(1 if depth else 0, 5)))


def _part(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(12)
    if not kind:
        return chance.choice(_BETWEEN)
    if kind < 5 and depth < 3:
        return f"{chance.choice(('(', '(', '(?:'))}{a_pattern(chance, depth + 1)}){chance.choice(_TIMES)}"
    return chance.choice(_ONE) + chance.choice(_TIMES)


def a_text(chance: random.Random, signs: str = "aaabb=.é \n𝄞") -> str:
    """Return a text that such a pattern may match."""
    return "".join(chance.choices(signs, k=chance.randrange(12)))
