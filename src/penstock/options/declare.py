"""How an option is declared, once, for parsing, for messages and for the reference page.

Runs on the driver. Invariant: nothing here knows a particular option.
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
    """Whose spelling a key belongs to."""

    FLINK = "Flink"
    SPARK = "Spark"
    SHARED = "shared"


class Reader(Enum):
    """Which side reads an option. One table may serve both sides, so the other side's keys are let pass."""

    SOURCE = "source"
    SINK = "sink"
    BOTH = "source and sink"


class Status(Enum):
    """What becomes of an option that is set."""

    SUPPORTED = "supported"
    NO_EFFECT = "accepted, no effect"
    NOT_YET = "not supported yet"
    REFUSED = "refused"


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option of a reader or writer, under its canonical spelling.

    A key that ends in `*` stands for every key with that beginning. `doc` of a refused option says what
    to use instead. `default` is the value without the option; the page shows it as a user would write it.
    `default_text` says what happens where there is no one such value.
    """

    key: str
    dialect: Dialect
    reader: Reader
    type: ValueType[T]
    doc: str
    default: T | None = None
    default_text: str = ""
    status: Status = Status.SUPPORTED


def declared_in(module: Mapping[str, object]) -> tuple[Option[Any], ...]:
    """Return the options that a module declares as constants, in the order of the source.

    Args:
        module: `globals()` of the module, after its last constant.
    """
    return tuple(value for value in module.values() if isinstance(value, Option))


def shown_default(option: Option[Any]) -> str:
    """Return the default as the reference page shows it."""
    return option.default_text if option.default is None else option.type.render(option.default)


def or_default(option: Option[T], value: T | None) -> T:
    """Return the value, or the declared default where there is none; such an option has one."""
    chosen = option.default if value is None else value
    if chosen is None:
        raise TypeError(f"option {option.key} has no default")
    return chosen


def parse_value(kind: ValueType[T], text: str, key: str) -> T:
    """Parse what the user wrote for an option or Kafka property.

    Args:
        kind: the type of its values.
        text: what the user wrote.
        key: its name as the user has to write it, e.g. `kafka.acks`.

    Raises:
        OptionError: the value is not allowed. A secret is not shown.
    """
    try:
        return kind.parse(text)
    except ValueError as error:
        if not kind.is_secret:
            raise_not_allowed(key, text, str(error))
        raise OptionError(
            f"Option '{key}' cannot be (not shown). Allowed: {error}.", option=key, allowed=str(error)
        ) from None


def raise_not_allowed(key: str, text: str, allowed: str) -> NoReturn:
    """Raise the error for a value that an option cannot have."""
    raise OptionError(
        f"Option '{key}' cannot be '{text}'. Allowed: {allowed}.", option=key, value=text, allowed=allowed
    ) from None


def not_yet(key: str, dialect: Dialect, reader: Reader, doc: str) -> Option[Any]:
    """Declare an option that Flink or Spark has and a later version of penstock will have."""
    return Option(key, dialect, reader, TEXT, doc, status=Status.NOT_YET)


def refused(key: str, dialect: Dialect, reader: Reader, doc: str) -> Option[Any]:
    """Declare an option that will not come; `doc` says what to use instead."""
    return Option(key, dialect, reader, TEXT, doc, status=Status.REFUSED)
