"""Declare an option once, for parsing, messages and the reference page.

Runs on the driver. Invariant: nothing here depends on a particular option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NoReturn, TypeVar

from penstock.errors import OptionError
from penstock.options.values import TEXT, ValueType

T = TypeVar("T")


class Dialect(Enum):
    """The set of option names that a key belongs to."""

    FLINK = "Flink"
    SPARK = "Spark"
    SHARED = "shared"


class Side(Enum):
    """The side that reads an option. A table may serve both sides, so each ignores keys of the other."""

    SOURCE = "source"
    SINK = "sink"
    BOTH = "source and sink"


class Status(Enum):
    """What penstock does with an option that is set."""

    SUPPORTED = "supported"
    NO_EFFECT = "accepted, no effect"
    REFUSED = "refused"


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option of the source, of the sink, or of both.

    Attributes:
        key: the canonical spelling. A key that ends in `*` stands for every key with that beginning.
        dialect: of the key.
        side: the side that reads it.
        type: of its values.
        doc: the text of the reference page; for a refused option it says what to use instead.
        default: the value without the option; the page shows it as a user would write it.
        default_text: for the page, where the default is not one value.
        status: what penstock does with it.
    """

    key: str
    dialect: Dialect
    side: Side
    type: ValueType[T]
    doc: str
    default: T | None = None
    default_text: str = ""
    status: Status = Status.SUPPORTED


@dataclass(frozen=True)
class Declare:
    """Declares options of one dialect and side."""

    dialect: Dialect
    side: Side

    def __call__(
        self,
        key: str,
        kind: ValueType[T],
        doc: str,
        default: T | None = None,
        default_text: str = "",
        status: Status = Status.SUPPORTED,
    ) -> Option[T]:
        """Declare an option; see `Option` for the arguments."""
        return Option(key, self.dialect, self.side, kind, doc, default, default_text, status)

    def refused(self, key: str, doc: str) -> Option[Any]:
        """Declare an option that penstock will not support; `doc` says what to use instead."""
        return self(key, TEXT, doc, status=Status.REFUSED)


def declared_in(module: Mapping[str, object]) -> tuple[Option[Any], ...]:
    """Return the options that a module declares as constants, in the order of the source.

    Args:
        module: `globals()` of the module, after its last constant.
    """
    return tuple(value for value in module.values() if isinstance(value, Option))


def or_default(option: Option[T], value: T | None) -> T:
    """Return the value, or the declared default if the value is None. The option must have a default."""
    chosen = option.default if value is None else value
    if chosen is None:
        raise TypeError(f"option {option.key} has no default")
    return chosen


def parse_value(kind: ValueType[T], text: str, key: str) -> T:
    """Parse what the user wrote for an option or Kafka property.

    Args:
        kind: the type of its values.
        text: what the user wrote.
        key: the name as the user writes it, e.g. `kafka.acks`.

    Raises:
        OptionError: the value is not allowed. The message never shows a secret.
    """
    try:
        return kind.parse(text)
    except ValueError as error:
        if not kind.is_secret:
            raise_not_allowed(key, text, str(error))
        raise OptionError(
            f"The value of option '{key}' (a secret, not shown) is not allowed. Allowed: {error}.",
            option=key,
            allowed=str(error),
        ) from None


def raise_not_allowed(key: str, text: str, allowed: str) -> NoReturn:
    raise OptionError(
        f"Option '{key}' cannot be '{text}'. Allowed: {allowed}.", option=key, value=text, allowed=allowed
    ) from None
