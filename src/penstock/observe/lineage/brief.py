"""Say in a line why a query has failed, without the text of its error.

Runs in the user's program. Pure. Invariant: nothing of the error is kept but its class and the first line of
an error of penstock, because other texts (rows of a failed cast, a user's own exception) may hold records.
"""

from __future__ import annotations

import re

_CLASS = re.compile(r"\s*([A-Za-z_$][\w.$]*(?:Error|Exception|Throwable))(?=[:\s]|$)")
_PENSTOCKS = re.compile(r"^\s*(?:[\w.$]+: )?(penstock(?:\.\w+)*\.\w+: .+)$", re.MULTILINE)
_UNKNOWN = "The query has failed; its error is in Spark's log"


def brief_error(text: str, error_class: str | None) -> str:
    """Return the class of an error, and the first line of the last error of penstock in its text.

    Args:
        text: of the error, with its stack traces.
        error_class: Spark's error class (e.g. `DIVIDE_BY_ZERO`); None without one.
    """
    by_text = _CLASS.match(text)
    name = error_class or (by_text.group(1) if by_text is not None else None)
    ours = _PENSTOCKS.findall(text)
    if not ours:
        return name or _UNKNOWN
    line = str(ours[-1])
    return line if name is None or line.startswith(f"{name}:") else f"{name}: {line}"
