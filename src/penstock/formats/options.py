"""How a format reads its options, spelled as in Flink: `<format>.<option>`, with `key.` or `value.` before.

Runs on the driver. Invariant: every option under a format's name is known to it, or is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.declare import Dialect, Option, Reader, Status, refused
from penstock.options.values import BOOLEAN, ValueType

T = TypeVar("T")


def format_option(key: str, kind: ValueType[T], doc: str, default: str = "") -> Option[T]:
    """Declare an option of a format; `key` begins with the format's name."""
    return Option(key, Dialect.FLINK, Reader.BOTH, kind, doc, default)


def flag_option(key: str, doc: str, *, default: bool = False) -> Option[bool]:
    """Declare a switch of a format."""
    return format_option(key, BOOLEAN, doc, str(default).lower())


def refused_option(key: str, doc: str) -> Option[Any]:
    """Declare an option that Flink's format has and ours has not; `doc` says what to do instead."""
    return refused(key, Dialect.FLINK, Reader.BOTH, doc)


def parse_verbatim(text: str) -> str:
    """Return the text as it is: spaces may be what is meant."""
    return text


VERBATIM = ValueType("text", "", parse_verbatim)


@dataclass(frozen=True)
class FormatOptions:
    """The options of one format in one place (`json.`, `key.json.` or `value.json.`)."""

    prefix: str
    texts: Mapping[str, str]

    def spelled(self, option: Option[Any]) -> str:
        """Return the key as the user writes it."""
        return self.prefix + option.key

    def value(self, option: Option[T]) -> T | None:
        """Return the parsed value, None when the option is not set.

        Raises:
            OptionError: the value is not allowed.
        """
        text = self.texts.get(option.key.lower())
        if text is None:
            return None
        try:
            return option.type.parse(text)
        except ValueError as error:
            raise self.not_allowed(option, text, str(error)) from None

    def flag(self, option: Option[bool]) -> bool:
        """Return a switch; its declared default when it is not set."""
        value = self.value(option)
        return option.default == "true" if value is None else value

    def required(self, option: Option[T]) -> T:
        """Return the value of an option that must be set.

        Raises:
            MissingOptionError: it is not set.
        """
        value = self.value(option)
        if value is None:
            key = self.spelled(option)
            raise MissingOptionError(f"Option '{key}' is required and not set. {option.doc}", option=key)
        return value

    def not_allowed(self, option: Option[Any], text: str, allowed: str) -> OptionError:
        """Make the error for a value that an option cannot have; a secret is not repeated."""
        key = self.spelled(option)
        shown = "what it is set to" if option.type.name == "secret" else f"'{text}'"
        return OptionError(
            f"Option '{key}' cannot be {shown}. Allowed: {allowed}.", option=key, allowed=allowed
        )


def options_of(
    name: str, known: Sequence[Option[Any]], options: Mapping[str, str], prefix: str
) -> FormatOptions:
    """Pick the options of format `name` under `prefix` out of all options of a table.

    Args:
        name: The format.
        known: What the format declares; a key that ends in `*` stands for every key with that beginning.
        options: All options of the table, keys in any case (Spark hands them over in lower case).
        prefix: "", "key." or "value.".

    Raises:
        OptionError: an option under the format's name that it does not have.
        UnsupportedOptionError: one that Flink's format has and ours has not.
    """
    start = f"{prefix}{name}."
    keys = {option.key.lower() for option in known}
    not_here = {option.key.lower(): option for option in known if option.status is Status.REFUSED}
    texts = {}
    for key, text in options.items():
        lower = key.lower()
        if not lower.startswith(start):
            continue
        bare = lower[len(prefix) :]
        if bare in not_here:
            doc = not_here[bare].doc.replace("`", "'")
            raise UnsupportedOptionError(f"Option '{key}' is not supported. {doc}", option=key)
        if bare in keys:
            texts[bare] = text
        elif wildcard := next((k for k in keys if k.endswith("*") and bare.startswith(k[:-1])), None):
            texts[wildcard[:-1] + key[len(prefix) + len(wildcard) - 1 :]] = text
        else:
            raise OptionError(_unknown(key, name, prefix, known), option=key)
    return FormatOptions(prefix, texts)


def _unknown(key: str, name: str, prefix: str, known: Sequence[Option[Any]]) -> str:
    spelled = [prefix + option.key for option in known if option.status is not Status.REFUSED]
    near = difflib.get_close_matches(key.lower(), spelled, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    allowed = ", ".join(spelled) or "none"
    return f"Format '{name}' has no option '{key}'.{hint} Its options: {allowed}."
