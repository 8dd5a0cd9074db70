"""Java's properties files: `key=value` lines, with comments, escapes and lines that go on.

Pure. The grammar is that of `java.util.Properties.load`. Invariant: an error never shows any part of a value,
because such files hold passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_END_OF_LINE = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u(?:[0-9a-fA-F]{4})?|.)", re.DOTALL)
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Return the properties of a file; of a key that stands there twice, the last value.

    Raises:
        ValueError: a `\u` without four hexadecimal digits.
    """
    return {_unescaped(key): _unescaped(value) for key, value in map(_divided, _logical_lines(text))}


def _logical_lines(text: str) -> Iterator[str]:
    """Return lines without comments and blank ones; one that ends in a backslash is joined with the next."""
    begun: list[str] = []
    for line in _END_OF_LINE.split(text):
        rest = line.lstrip(_BLANKS)
        if not begun and rest.startswith(("#", "!")):
            continue
        goes_on = (len(rest) - len(rest.rstrip("\\"))) % 2 == 1
        begun.append(rest[:-1] if goes_on else rest)
        if not goes_on:
            if joined := "".join(begun):
                yield joined
            begun = []
    if joined := "".join(begun):
        yield joined


def _divided(line: str) -> tuple[str, str]:
    """Return key and value, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in f"=:{_BLANKS}":
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescaped(text: str) -> str:
    # Java's texts are UTF-16: two escapes may be the halves of one character.
    plain = _ESCAPE.sub(_character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped == "u":
        raise ValueError("holds a \\u without four hexadecimal digits")
    if escaped[0] == "u":
        return chr(int(escaped[1:], 16))
    return _NAMED_ESCAPES.get(escaped, escaped)
