"""Names and texts in statements of SQL that Spark runs.

Pure; runs on the driver. Invariant: a name goes into a statement only in backquotes. So `prod-lake` and
`2024_x` are names and not expressions, and a name cannot become another statement.
"""

from __future__ import annotations

import re

from penstock.errors import OptionError

_PART = r"(?:[\w-]+|`(?:[^`]|``)+`)"
_IDENTIFIER = re.compile(rf"{_PART}(?:\.{_PART})+")


def check_identifier(identifier: str) -> None:
    """Raise OptionError if a text does not name a table in a schema or catalog."""
    if not _IDENTIFIER.fullmatch(identifier):
        raise _not_a_table(identifier, "")
    if any("/" in part for part in _parts(identifier)):
        raise _not_a_table(identifier, " It names a path, and penstock has to find the table in a catalog.")


def _not_a_table(identifier: str, why: str) -> OptionError:
    return OptionError(
        f"Expected `schema.table` or `catalog.schema.table` for `identifier`, got {identifier!r}.{why} Write "
        "a part with other characters than letters, digits, `_` and `-` in backquotes.",
        option="identifier",
        value=identifier,
    )


def _parts(identifier: str) -> list[str]:
    found = re.findall(_PART, identifier)
    return [one[1:-1].replace("``", "`") if one.startswith("`") else one for one in found]


def quoted_identifier(identifier: str) -> str:
    """Return the name of a table with each part in backquotes."""
    return ".".join(quoted(part) for part in _parts(identifier))


def quoted(name: str) -> str:
    """Return a name for a statement of SQL."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def text_of(value: str) -> str:
    """Return a text for a statement of SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
