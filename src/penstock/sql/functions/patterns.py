"""Regular expressions in quotes, as cheap for Spark as they can be.

Runs on the driver. Invariant: a cheap text has the value of the plain one for every row. A pattern with parts
that are not known here has the plain text, and so does one that is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penstock.sql.plan.texts import literal, unquoted

_SIGNS = r"!-/:-@\[-`{-~"
"""Signs of ASCII, in a class of characters. A backslash makes plain characters of them."""
_IN_CLASS = rf"\\[dDwWsStnr{_SIGNS}]|[A-Za-z0-9]-[A-Za-z0-9]|(?!&&)[^\\\[\]^-]"
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<choice>\|)|(?P<times>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})[+?]?)"
    rf"|(?P<between>\^|\$|\\b)|(?P<any>\.|\\[dDwWsStnr]|\[\^?(?:{_IN_CLASS})+-?\])"
    rf"|(?P<sign>[^\\^$.|?*+()\[\]{{}}]|\\[{_SIGNS}])",
    re.DOTALL,
)
_RANGE = re.compile(r"\\.|(?P<first>[A-Za-z0-9])-(?P<last>[A-Za-z0-9])|.", re.DOTALL)
_BOUNDS = re.compile(r"\{(?P<least>\d+)(?:,(?P<most>\d*))?\}")


@dataclass
class Group:
    """A part of a pattern in brackets, or the pattern itself.

    Attributes:
        start: the offset of its bracket.
        number: of the group; 0 for the pattern, and for brackets of (?:.
        before: the offset of the character that stands before it; -1 if something else does.
        end: the offset behind its bracket.
        is_always: whether it takes part in each match, once.
        least: how many characters it has at least.
    """

    start: int = -1
    number: int = 0
    before: int = -1
    end: int = -1
    is_always: bool = True
    least: int = 0
    _others: list[int] = field(default_factory=list)
    _last: int = 0

    def add(self, length: int) -> None:
        """Add a part that has at least so many characters."""
        self.least += length
        self._last = length

    def repeat(self, least: int) -> None:
        """Let the last part come so many times at least."""
        self.least += self._last * (least - 1)
        self._last = 0

    def choose(self) -> None:
        """Begin another branch."""
        self._others.append(self.least)
        self.least = self._last = 0

    def close(self, end: int) -> None:
        self.least, self.end = min([self.least, *self._others]), end


@dataclass(frozen=True)
class Pattern:
    """A pattern that Java reads as it is read here.

    Attributes:
        text: the pattern.
        groups: the pattern itself, and its groups.
        needed: a text that is in each text that it matches; "" if none is known.
    """

    text: str
    groups: tuple[Group, ...]
    needed: str

    def found(self, text: str) -> str:
        """Return whether Spark finds the pattern in a text of its SQL."""
        matches = f"{text} RLIKE {literal(self.text)}"
        if not self.needed:
            return matches
        contains = f"contains({text}, {literal(self.needed)})"
        return contains if self.needed == self.text else f"{contains} AND {matches}"

    def first(self, text: str, number: int) -> str:
        """Return a group of the first match in a text of Spark's SQL; NULL if there is no match.

        Spark's regexp_extract gives '' without a match. If the group cannot be empty, one search is enough.
        """
        group = self.groups[number]
        if not group.is_always or not (group.least or group.before >= 0):
            return f"CASE WHEN {self.found(text)} THEN {_extracted(text, self.text, number)} END"
        pattern = self.text if group.least else self.with_sign(group)
        found = f"get(array_remove(array({_extracted(text, pattern, number)}), ''), 0)"
        shown = found if group.least else f"substring({found}, 2)"
        if not self.needed:
            return shown
        return f"CASE WHEN contains({text}, {literal(self.needed)}) THEN {shown} END"

    def with_sign(self, group: Group) -> str:
        """Return the pattern with the character before a group in the group, which is then never empty."""
        sign, inner = self.text[group.before : group.start], self.text[group.start + 1 : group.end - 1]
        return f"{self.text[: group.before]}({sign}(?:{inner})){self.text[group.end :]}"


def known(piece: str) -> Pattern | None:
    """Return the pattern that a text of Spark's SQL stands for; None if a part of it is not known."""
    text = unquoted(piece)
    return None if text is None else _Reader(text).read()


def _extracted(text: str, pattern: str, number: int) -> str:
    return f"regexp_extract({text}, {literal(pattern)}, {number})"


class _Reader:
    """Reads a pattern. What Java may read in another way, such as flags, makes it unknown."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open = [Group()]
        self._groups = self._open[:]
        self._closed = self._open[0]
        self._plain = [""]  # texts outside of groups that each match has
        self._is_choice = False
        self._last = ""
        self._before = -1

    def read(self) -> Pattern | None:
        at = 0
        while at < len(self._text):
            token = _TOKEN.match(self._text, at)
            if token is None or not self._take(str(token.lastgroup), token[0], at):
                return None
            self._last, self._before, at = str(token.lastgroup), at, token.end()
        if len(self._open) > 1:
            return None
        self._open[0].close(at)
        if self._is_choice:
            for each in self._groups[1:]:
                each.is_always = False
        needed = "" if self._is_choice else max(self._plain, key=len)
        return Pattern(self._text, tuple(self._groups), needed)

    def _take(self, kind: str, part: str, at: int) -> bool:
        """Take a part; False if it is wrong here."""
        inner = self._open[-1]
        if kind == "times":
            return self._repeat(part)
        if kind == "open":
            self._begin(part, at)
        elif kind == "close":
            return self._close(at + 1)
        elif kind == "choice":
            inner.choose()
            self._is_choice |= len(self._open) == 1
        elif kind in ("any", "sign"):
            inner.add(1)
        if kind == "sign" and part.isascii() and len(self._open) == 1:
            self._plain[-1] += part[-1]
        else:
            self._plain.append("")
        return kind != "any" or _is_in_order(part)

    def _begin(self, part: str, at: int) -> None:
        is_group = part == "("
        before = self._before if self._last == "sign" else -1
        made = Group(at, len(self._groups) if is_group else 0, before, is_always=len(self._open) == 1)
        self._open.append(made)
        if is_group:
            self._groups.append(made)

    def _close(self, end: int) -> bool:
        if len(self._open) == 1:
            return False
        closed = self._open.pop()
        closed.close(end)
        self._open[-1].add(closed.least)
        self._closed = closed
        return True

    def _repeat(self, part: str) -> bool:
        if self._last not in ("close", "any", "sign"):
            return False
        if self._last == "close":
            self._closed.is_always = False
        bounds = _BOUNDS.match(part)
        least = int(bounds["least"]) if bounds else int(part[0] == "+")
        self._open[-1].repeat(least)
        self._plain[-1] = self._plain[-1][:-1]  # the character that is repeated
        self._plain.append("")
        return bounds is None or not bounds["most"] or least <= int(bounds["most"])


def _is_in_order(part: str) -> bool:
    """Return whether the ranges of a class of characters go up."""
    return all(each["first"] is None or each["first"] <= each["last"] for each in _RANGE.finditer(part))
