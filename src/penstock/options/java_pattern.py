"""Compile patterns of Flink's options, which are Java's regular expressions, with Python's engine.

They match topics, and the databases and tables of Canal. Runs on the driver, where options are checked and
topics are looked up, and on executors, which filter messages. Invariant: one function serves all of them, so
a pattern that passes the check can be used. A pattern that Python cannot express is refused, and is never
read with another meaning.

Topic names have only ASCII letters, digits, `.`, `_` and `-`. For them the two engines differ in few cases.
The class of word characters has ASCII letters and digits only, as in Java.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(
    r"""
    \\k<(?P<reference>[A-Za-z][A-Za-z0-9]*)>
  | (?P<java_escape> \\[pP]\{? | \\b\{ | \\[QEGZzhHRX] )
  | \\.
  | (?P<class> \[\^?\]? (?: [^\]\\\[] | \\. | (?P<java_class> \[ ) )* \] )
  | \(\?<(?P<group>[A-Za-z][A-Za-z0-9]*)>
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
_SHARE = "Write it with what Java and Python share: classes, groups, alternatives, repetition"


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern for a regular expression of Java.

    Raises:
        ValueError: Python cannot express it. The text says what is allowed.
    """
    translated = "".join(_translated(match) for match in _TOKEN.finditer(pattern))
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"a regular expression ({error}). {_SHARE}") from None


def parse_pattern(text: str) -> str:
    """Return the pattern after a check. Raises ValueError if the pattern cannot be used."""
    compile_pattern(text)
    return text


def _translated(match: re.Match[str]) -> str:
    if match["reference"]:
        return f"(?P={match['reference']})"
    if match["group"]:
        return f"(?P<{match['group']}>"
    text = match[0]
    inside = match["class"]
    if text == "[":
        raise ValueError(f"a regular expression whose '[' is closed by ']', without a class in it. {_SHARE}")
    if match["java_escape"] or match["java_class"] or (inside and _is_javas_class(inside)):
        raise ValueError(
            f"a regular expression without '{text}': it has another meaning in Python than in Java. {_SHARE}"
        )
    return text


def _is_javas_class(text: str) -> bool:
    """Return whether a class has an intersection or an escape that Python reads in another way."""
    return (
        any(sign in text for sign in ("&&", "||", "--", "~~"))
        or re.search(r"(?<!\\)(?:\\\\)*\\[pPQEhHRX]", text) is not None
    )
