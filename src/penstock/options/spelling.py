"""Find the known name that a user probably meant.

Runs on the driver. Invariant: the answer does not depend on the order of the names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MISSPELT_LETTERS_MAX = 2
"""A name that differs from a known name in this many letters counts as misspelt."""
_SHORT_NAME_LENGTH_MAX = 5
_SEPARATORS = re.compile(r"[-_.]")


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` misspells; None if no known name is near enough.

    A name is near if one letter (in longer names two) is changed, left out, added, or swapped with the next
    one. A name that differs only in case or in `.`, `-` and `_` is near too.
    """
    lower = name.lower()
    found = [(letters, one) for one in known if (letters := _letters_between(lower, one)) is not None]
    return min(found)[1] if found else None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`; None if no name is similar."""
    names = {one.lower(): one for one in sorted(known)}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return names[near[0]] if near else None


def did_you_mean(names: Iterable[str], known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` with the known names that `names` misspell; "" if they misspell none."""
    known = sorted(known)
    meant = [one for name in names if (one := misspelt(name, known)) is not None]
    return f" Did you mean {', '.join(map(repr, meant))}?" if meant else ""


def _letters_between(lower: str, known: str) -> int | None:
    other = known.lower()
    if _SEPARATORS.sub("", lower) == _SEPARATORS.sub("", other):
        return 0
    allowed = 1 if min(len(lower), len(other)) <= _SHORT_NAME_LENGTH_MAX else MISSPELT_LETTERS_MAX
    if abs(len(lower) - len(other)) > allowed:
        return None
    letters = edit_distance(lower, other)
    return letters if letters <= allowed else None


def edit_distance(one: str, other: str) -> int:
    """Count the changes (replace, remove, add or swap a letter) that turn one text into the other."""
    before_last: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        current = [row]
        for column, wanted in enumerate(other, start=1):
            changed = last[column - 1] + (letter != wanted)
            cost = min(changed, last[column] + 1, current[-1] + 1)
            is_swap = row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted
            current.append(min(cost, before_last[column - 2] + 1) if is_swap else cost)
        before_last, last = last, current
    return last[-1]
