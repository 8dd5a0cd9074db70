"""Parse the text of an option or Kafka property.

Runs on the driver. Invariant: a parser returns a value or raises `ValueError`. The text of the error says
what is allowed and does not repeat the value, because only the caller knows whether the value is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from penstock.options.java_pattern import parse_pattern

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
TOPIC_NAME_LENGTH_MAX = 249

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_DURATION = re.compile(r"([0-9]{1,20})\s*([a-zµ]*)")
_SIZE = re.compile(r"([0-9]{1,20})\s*([a-z]*)")
_DURATION_UNITS_IN_MS = {
    Fraction(86_400_000): ("d", "day", "days"),
    Fraction(3_600_000): ("h", "hour", "hours"),
    Fraction(60_000): ("min", "m", "minute", "minutes"),
    Fraction(1_000): ("s", "sec", "secs", "second", "seconds"),
    Fraction(1): ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    Fraction(1, 1_000): ("µs", "micro", "micros", "microsecond", "microseconds"),
    Fraction(1, 1_000_000): ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
}
_MS_OF_UNIT = {name: ms for ms, names in _DURATION_UNITS_IN_MS.items() for name in names}


@dataclass(frozen=True)
class ValueType(Generic[T]):
    """A type of values.

    Attributes:
        name: for the reference page.
        allowed: the allowed values, for the reference page.
        parse: makes a value of a text.
        render: makes the text of a value, as a user would write it.
    """

    name: str
    allowed: str
    parse: Callable[[str], T]
    render: Callable[[T], str] = str

    @property
    def is_secret(self) -> bool:
        return self.name == "secret"


def parse_integer(text: str, minimum: int, maximum: int) -> int:
    """Parse a decimal integer within bounds."""
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"a whole number, {_bounds(minimum, maximum)}")
    value = int(text)
    if not minimum <= value <= maximum:
        raise ValueError(f"a whole number, {_bounds(minimum, maximum)}")
    return value


def _bounds(minimum: int, maximum: int) -> str:
    if maximum >= INT_MAX:
        return f"at least {minimum}"
    return f"from {minimum} to {maximum}"


def integer(minimum: int = 0, maximum: int = INT_MAX, *, name: str = "integer") -> ValueType[int]:
    return ValueType(name, _bounds(minimum, maximum), lambda text: parse_integer(text, minimum, maximum))


def decimal(minimum: float, maximum: float) -> ValueType[float]:
    """Return the type of decimal numbers from `minimum` to `maximum`."""
    allowed = f"a number from {minimum} to {maximum}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(allowed) from None
        if not minimum <= value <= maximum:
            raise ValueError(allowed)
        return value

    return ValueType("number", f"from {minimum} to {maximum}", parse)


def parse_boolean(text: str) -> bool:
    """Parse `true` or `false`. Nothing else is allowed, so that a typing error never turns a check off."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("true or false")
    return word == "true"


def as_word(text: str) -> str:
    """Return a word in lower case and with `-`, so that `EXACTLY_ONCE` is `exactly-once`."""
    return text.strip().lower().replace("_", "-")


def choice(*words: str) -> ValueType[str]:
    """Return the type of these words. Users may write them in any case, with `-` or `_`."""
    allowed = ", ".join(words)
    by_plain = {as_word(word): word for word in words}

    def parse(text: str) -> str:
        word = by_plain.get(as_word(text))
        if word is None:
            raise ValueError(f"one of {allowed}")
        return word

    return ValueType("word", allowed, parse)


def parse_duration_ms(text: str) -> int:
    """Parse a duration as Flink writes it, e.g. `5 min`, `10 s`, `0`; a bare number is milliseconds."""
    allowed = "a duration such as '5 min', '10 s', '500 ms' or '0' (no unit: milliseconds)"
    match = _DURATION.fullmatch(text.strip().lower().replace("\u03bc", "\u00b5"))
    if match is None or match[2] not in _MS_OF_UNIT:
        raise ValueError(allowed)
    duration_ms = int(match[1]) * _MS_OF_UNIT[match[2]]
    if duration_ms.denominator != 1:
        raise ValueError(f"{allowed}, in whole milliseconds")
    if duration_ms > LONG_MAX:
        raise ValueError(f"{allowed}, of at most {LONG_MAX} ms")
    return int(duration_ms)


def render_duration_ms(duration_ms: int) -> str:
    """Return a duration as a user would write it, in the largest unit that divides it."""
    for unit_ms, unit in ((60_000, "min"), (1_000, "s")):
        if duration_ms and duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms} {unit}"
    return f"{duration_ms} ms" if duration_ms else "0"


_BYTES_OF_UNIT = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def parse_bytes(text: str) -> int:
    """Parse a size as in Flink, e.g. `64 mb`, `500 kb`. A number without a unit is in bytes."""
    allowed = "a size of at least 1 byte such as '64 mb', '500 kb', '1 gb' (no unit: bytes)"
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match[2] not in _BYTES_OF_UNIT:
        raise ValueError(allowed)
    size_bytes = int(match[1]) * _BYTES_OF_UNIT[match[2]]
    if not 1 <= size_bytes <= LONG_MAX:
        raise ValueError(allowed)
    return size_bytes


def split_list(text: str, separator: str) -> tuple[str, ...]:
    """Split a list and drop the spaces around its items. An empty list or item is an error."""
    items = tuple(item.strip() for item in text.split(separator))
    # A separator at the end is common and harmless. An empty item in the middle means that a name is missing.
    if len(items) > 1 and not items[-1]:
        items = items[:-1]
    if not all(items):
        raise ValueError(f"names separated by '{separator}', without empty names")
    return items


def check_topic_name(name: str, *, form: str = "topic names") -> str:
    """Return `name` if Kafka allows it for a topic. The text of an error begins with `form`."""
    if name in (".", "..") or len(name) > TOPIC_NAME_LENGTH_MAX or not _LEGAL_TOPIC_NAME.fullmatch(name):
        raise ValueError(
            f"{form} of letters, digits, '.', '_' and '-', at most "
            f"{TOPIC_NAME_LENGTH_MAX} characters long, not '.' or '..'"
        )
    return name


def topic_list(separator: str) -> ValueType[tuple[str, ...]]:
    """Return the type of topic names separated by `separator`. A repeated name counts once."""

    def parse(text: str) -> tuple[str, ...]:
        form = f"topic names separated by '{separator}', each"
        return unique(check_topic_name(name, form=form) for name in split_list(text, separator))

    return ValueType("list", f"topic names separated by `{separator}`", parse)


def unique(items: Iterable[T]) -> tuple[T, ...]:
    """Return the items in order, without duplicates."""
    return tuple(dict.fromkeys(items))


def parse_text(text: str) -> str:
    return text.strip()


def parse_words(text: str) -> tuple[str, ...]:
    """Split a comma-separated list as Kafka's configs do; an empty text is an empty list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


BOOLEAN = ValueType("boolean", "true, false", parse_boolean, lambda value: str(value).lower())
DURATION = ValueType(
    "duration", "e.g. `5 min`, `10 s`, `500 ms`, `0`; no unit: ms", parse_duration_ms, render_duration_ms
)
NEVER_MS = LONG_MAX
"""A time-out that does not pass."""
DURATION_OR_NEVER = ValueType(
    "duration",
    f"{DURATION.allowed}; or `never`",
    lambda text: NEVER_MS if as_word(text) == "never" else parse_duration_ms(text),
    lambda time_ms: "never" if time_ms == NEVER_MS else render_duration_ms(time_ms),
)
SIZE = ValueType("size", "e.g. `64 mb`, `500 kb`, `1 gb`; no unit: bytes", parse_bytes)
PATTERN = ValueType("regex", "a regular expression that matches the whole topic name", parse_pattern)
TOPIC = ValueType("topic", "one topic name", lambda text: check_topic_name(text.strip()))
TEXT = ValueType("text", "", parse_text)
SECRET = ValueType("secret", "", lambda text: text)
WORDS = ValueType("list", "items separated by `,`", parse_words)
POSITIVE_INT = integer(1)
POSITIVE_LONG = integer(1, LONG_MAX, name="long")
TIMESTAMP_MS = integer(0, LONG_MAX, name="ms since 1970")
