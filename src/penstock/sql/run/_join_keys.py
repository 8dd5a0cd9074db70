"""A look at Spark's plan of an interval join, before it starts: what does Spark forget rows by?

Runs on the driver. A condition of an outer query may become a part of a join below it. If it says that a
watermark column is equal to another time, Spark forgets the rows of both sides by that one, and too early.
Invariant: where Spark forgets rows by a key, both sides have the watermark on it.
"""

from __future__ import annotations

import re

_JOIN, _KEY = "StreamingSymmetricHashJoin ", re.compile(r"key predicate: \(input\[(\d+)")
_MARKED = re.compile(r"[^#]+#\d+-T\d+ms")
"""A column alone. Its name is printed as it is. A sum with another column has a second #."""


def forgets_by_one_side(plan: str) -> bool:
    """Return whether a join of a physical plan forgets rows by a key that has no watermark on one side."""
    return any(_is_wrong(line.partition(_JOIN)[2]) for line in plan.splitlines() if _JOIN in line)


def _is_wrong(join: str) -> bool:
    found = _KEY.search(join)
    if found is None:
        return False
    left, rest = _listed(join)
    right, _ = _listed(rest.removeprefix(", "))
    index = int(found[1])
    return not all(index < len(keys) and _MARKED.fullmatch(keys[index]) for keys in (left, right))


def _listed(text: str) -> tuple[list[str], str]:
    """Return the parts of the list in brackets that a text begins with, and the rest of the text."""
    parts, depth = [""], 0
    for index, each in enumerate(text):
        depth += (each in "([") - (each in ")]")
        if depth == 0:
            return [part.strip() for part in parts], text[index + 1 :]
        if each == "," and depth == 1:
            parts.append("")
        elif index:
            parts[-1] += each
    return [], ""
