"""Read the options of WITH of one connector.

Runs on the driver. Invariant: an unknown option and a wrong value are refused, and the message names the
option as the user wrote it. A message never shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from penstock.options.values import ValueType
from penstock.sql.language.source import nearest

T = TypeVar("T")


class WrongOptionError(ValueError):
    """An option is not known, or has a value that is not allowed."""

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option


def check_known(connector: str, given: Iterable[str], known: Iterable[str], advice: str = "") -> None:
    """Check the names of options. `advice` stands behind those that the connector has.

    Raises:
        WrongOptionError: the connector does not have one of them.
    """
    names = list(known)
    unknown = next((key for key in given if key not in names), None)
    if unknown is not None:
        raise WrongOptionError(
            f"the connector '{connector}' does not have the option '{unknown}'.{nearest(unknown, names)} "
            f"It has {', '.join(names)}. {advice}".strip(),
            unknown,
        )


def read_value(options: Mapping[str, str], key: str, kind: ValueType[T]) -> T | None:
    """Return the value of an option; None if it is not given.

    Raises:
        WrongOptionError: the value is not allowed.
    """
    text = options.get(key)
    if text is None:
        return None
    try:
        return kind.parse(text)
    except ValueError as error:
        raise WrongOptionError(f"the option '{key}' cannot be '{text}'. Allowed: {error}.", key) from None


def needed(connector: str, options: Mapping[str, str], key: str, values: str = "") -> str:
    """Return an option that has to be given; `values` says which values it can have.

    Raises:
        ValueError: it is missing or empty.
    """
    text = options.get(key, "").strip()
    if not text:
        raise ValueError(f"the connector '{connector}' needs the option '{key}'{values and f': {values}'}.")
    return text
