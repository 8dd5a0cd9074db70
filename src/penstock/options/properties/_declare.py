"""Declare what penstock does with one property of Kafka's Java clients.

Runs on the driver. Invariant: the check, the translation and the reference page read the same
declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.options.values import INT_MAX, LONG_MAX, TEXT, ValueType, integer


class Handling(Enum):
    """What penstock does with the value of a property."""

    TRANSLATED = "translated"  # given to kafka-python or OpenSSL, under another name, in another unit or form
    OURS = "honoured"  # read by penstock itself, with the same meaning
    NO_EFFECT = "no effect"  # accepted without a meaning; `doc` says why
    UNSUPPORTED = "error"  # refused because ignoring it would give a wrong result; `doc` says what to do


class ClientRole(Enum):
    """The client of Kafka that a property belongs to."""

    COMMON = "both"
    CONSUMER = "source"
    PRODUCER = "sink"
    ADMIN = "admin"


@dataclass(frozen=True)
class Property:
    """One property.

    Attributes:
        name: in Java.
        role: the clients that have it.
        handling: what penstock does with it.
        doc: the text of the reference page.
        type: of its values.
        default: penstock's, as a typed value; None without one.
        java_default: as text, set only if it differs from penstock's.
        unsupported_values: values in lower case that are refused, and what to do instead.
    """

    name: str
    role: ClientRole
    handling: Handling
    doc: str
    type: ValueType[Any] = TEXT
    default: Any = None
    java_default: str | None = None
    unsupported_values: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_secret(self) -> bool:
        return self.type.is_secret


MILLISECONDS = integer(0, LONG_MAX, name="ms")
MILLISECONDS_INT = integer(0, INT_MAX, name="ms")
BYTES = integer(0, INT_MAX, name="bytes")
BUFFER_BYTES = ValueType("bytes", "at least 1, or -1 for the system's", integer(-1, INT_MAX).parse)


@dataclass(frozen=True)
class Declare:
    """Declares properties of the clients with one role."""

    role: ClientRole

    def translated(self, name: str, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
        """Declare a property that is given to kafka-python or OpenSSL."""
        return Property(name, self.role, Handling.TRANSLATED, doc, type_, **more)

    def ours(self, name: str, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
        """Declare a property that penstock itself reads."""
        return Property(name, self.role, Handling.OURS, doc, type_, **more)

    def no_effect(self, name: str, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
        """Declare a property that is accepted without a meaning."""
        return Property(name, self.role, Handling.NO_EFFECT, doc, type_, **more)

    def unsupported(self, name: str, doc: str, type_: ValueType[Any] = TEXT, **more: Any) -> Property:
        """Declare a property that is refused; `doc` says what to do instead."""
        return Property(name, self.role, Handling.UNSUPPORTED, doc, type_, **more)
