"""What penstock does with one property of Kafka's Java clients.

Runs on the driver. Invariant: each property is declared once, and its declaration is all that the check,
the translation and the reference page know of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.options.values import INT_MAX, LONG_MAX, TEXT, ValueType, integer


class Handling(Enum):
    """What becomes of a property's value."""

    TRANSLATED = "translated"  # given to kafka-python or OpenSSL under another name, unit or shape
    OURS = "honoured"  # read by our own loops, same meaning
    NO_EFFECT = "no effect"  # known, and without meaning here; why is in `doc`
    UNSUPPORTED = "error"  # known, and a wrong answer if it were ignored; what to do is in `doc`


class Role(Enum):
    """Which of Kafka's clients a property belongs to."""

    COMMON = "both"
    CONSUMER = "source"
    PRODUCER = "sink"
    ADMIN = "admin"


@dataclass(frozen=True)
class Property:
    """One property under its Java name.

    `default` is ours, as a user would write it; `java_default` is set only where Java's differs.
    `unsupported_values` maps a value (lower case) to what to do instead.
    """

    name: str
    role: Role
    handling: Handling
    doc: str
    type: ValueType[Any] = TEXT
    default: Any = None
    java_default: str | None = None
    unsupported_values: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown."""
        return self.type.is_secret


MILLISECONDS = integer(0, LONG_MAX, name="ms")
MILLISECONDS_INT = integer(0, INT_MAX, name="ms")
BYTES = integer(0, INT_MAX, name="bytes")
BUFFER_BYTES = ValueType("bytes", "at least 1, or -1 for the system's", integer(-1, INT_MAX).parse)


def translated(name: str, role: Role, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
    """Declare a property that kafka-python or OpenSSL gets in its own terms."""
    return Property(name, role, Handling.TRANSLATED, doc, type_, **more)


def ours(name: str, role: Role, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
    """Declare a property that our own loops honour."""
    return Property(name, role, Handling.OURS, doc, type_, **more)


def no_effect(name: str, role: Role, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
    """Declare a property that is accepted and has no meaning here."""
    return Property(name, role, Handling.NO_EFFECT, doc, type_, **more)


def unsupported(name: str, role: Role, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
    """Declare a property that is refused; `doc` says what to do instead."""
    return Property(name, role, Handling.UNSUPPORTED, doc, type_, **more)
