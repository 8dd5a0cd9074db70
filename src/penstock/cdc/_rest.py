"""The fields of a row that no column declares, as the text of one JSON object.

Runs on executors; pure. Invariants: a number keeps its digits, and a field that is not in the text is in a
column. A value that Debezium does not know never becomes a text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from penstock.cdc._unavailable import forms_of, not_in_message


class _Number(str):
    """A number as its message writes it."""

    __slots__ = ()


class _UnavailableError(Exception):
    """A value is Debezium's placeholder."""


class Rest:
    """Makes the text of the fields of rows that are not declared.

    Args:
        declared: the names of the columns.
        placeholder: what Debezium writes for a value that it does not know.
    """

    def __init__(self, declared: Collection[str], placeholder: bytes) -> None:
        self._declared = frozenset(declared)
        self._placeholder = placeholder
        self._forms = frozenset(forms_of(placeholder))

    def text(self, message: bytes) -> str | None:
        """Return the text of the new row of a message, with sorted names; None if each field has a column.

        Raises:
            ValueError: the fields cannot be kept as they are.
        """
        try:
            return self._of_row(json.loads(message, parse_float=_Number, parse_int=_Number)["after"])
        except RecursionError:
            raise ValueError("fields that are not declared nest too deep") from None

    def _of_row(self, row: Mapping[str, Any]) -> str | None:
        others = {name: row[name] for name in sorted(row.keys() - self._declared)}
        if not others:
            return None
        for name, value in others.items():
            try:
                self._text(value)
            except _UnavailableError:
                raise ValueError(not_in_message(f"field '{name}'", self._placeholder)) from None
        text = self._text(others)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                "a field that is not declared has half a surrogate pair, which is not a character"
            ) from None
        return text

    def _text(self, value: Any) -> str:
        if isinstance(value, _Number):
            return str(value)
        if isinstance(value, str):
            if value in self._forms:
                raise _UnavailableError
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, Mapping):
            pairs = (f"{self._text(name)}:{self._text(each)}" for name, each in value.items())
            return f"{{{','.join(pairs)}}}"
        if isinstance(value, list):
            text = f"[{','.join(map(self._text, value))}]"
            if text in self._forms:
                raise _UnavailableError
            return text
        return json.dumps(value)


@lru_cache(maxsize=64)
def rest_of(declared: frozenset[str], placeholder: bytes) -> Rest:
    """Return what makes the texts for these columns."""
    return Rest(declared, placeholder)
