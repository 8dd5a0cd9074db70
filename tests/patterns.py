"""Regular expressions whose parts penstock.sql.functions.patterns knows, and texts that they may match.

Invariant: what is repeated has no other repetition in it. Python tries each way in which the two may share a
text, and once took more than 16 minutes for 11 characters.
"""

from __future__ import annotations

import random

_ONE = ("a", "a", "b", "=", "\\.", "é", ".", "[ab]", "[^a=]", "\\w", "[a-b.-]")
_BETWEEN = ("^", "$", "\\b")
_AT_MOST_ONCE = ("", "", "", "?")
_TIMES = ("", "", "", "*", "+", "?", "*?", "{2}", "{0,2}", "{1,}")


def a_pattern(chance: random.Random, depth: int = 0, times: tuple[str, ...] = _TIMES) -> str:
    """Return a pattern with groups in groups. `times` are those of its parts."""
    return "|".join(_sequence(chance, depth, times) for _ in range(chance.choice((1, 1, 1, 1, 2, 3))))


def _sequence(chance: random.Random, depth: int, times: tuple[str, ...]) -> str:
    return "".join(_part(chance, depth, times) for _ in range(chance.randrange(1 if depth else 0, 5)))


def _part(chance: random.Random, depth: int, times: tuple[str, ...]) -> str:
    kind, own = chance.randrange(12), chance.choice(times)
    if not kind:
        return chance.choice(_BETWEEN)
    if kind < 5 and depth < 3:
        inner = a_pattern(chance, depth + 1, times if own in _AT_MOST_ONCE else _AT_MOST_ONCE)
        return f"{chance.choice(('(', '(', '(?:'))}{inner}){own}"
    return chance.choice(_ONE) + own


def a_text(chance: random.Random, signs: str = "aaabb=.é \n𝄞") -> str:
    """Return a text that such a pattern may match."""
    return "".join(chance.choices(signs, k=chance.randrange(9)))
