"""Texts of Spark's SQL: names, constants, and parts that stand once.

Runs on the driver. Invariant: what is in quotes means the same in Spark's SQL, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(given: str, wanted: str) -> bool:
    """Return whether two types of Spark are integers, and the second one has all values of the first one."""
    return given in INTEGERS and wanted in INTEGERS and INTEGERS.index(given) <= INTEGERS.index(wanted)


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Return the precision and the scale of a DECIMAL of Spark; None for another type."""
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]), int(found[2]))


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """Return a text as a literal of Spark's SQL, which reads backslashes as the beginning of an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_LITERAL = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def unquoted(text: str) -> str | None:
    """Return the text that a literal of Spark's SQL stands for; None if it is another text."""
    found = _LITERAL.fullmatch(text)
    return None if found is None else _ESCAPED.sub(r"\1", found[1])


_LENGTH_MAX = 200
_CHANGING = re.compile(r"\brand\(|\buuid\(|penstock_sql_\w+`?\(")


def let(texts: Sequence[str], body: Callable[[list[str]], str]) -> str:
    """Return a text of Spark's SQL that uses others.

    A part that is long, or gives another value each time, stands once in the text. So nested calls do not
    make it grow exponentially.

    Args:
        texts: the parts.
        body: gets a text for each part, which it may repeat.
    """
    bound = [index for index, text in enumerate(texts) if len(text) > _LENGTH_MAX or _CHANGING.search(text)]
    if not bound:
        return body(list(texts))
    whole = " ".join(texts)
    name = next(f"v{number}" for number in range(len(whole)) if not re.search(rf"\bv{number}\b", whole))
    fields = ", ".join(f"'f{index}', {texts[index]}" for index in bound)
    named = [f"{name}.f{index}" if index in bound else text for index, text in enumerate(texts)]
    return f"element_at(transform(array(named_struct({fields})), {name} -> {body(named)}), 1)"
