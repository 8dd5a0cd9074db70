"""Declares and reads the options of formats, spelled as in Flink: `json.<option>`, `key.json.<option>`.

Runs on the driver. Invariant: an unknown option under a format's name is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.declare import Declare, Dialect, Option, Side, Status, or_default, parse_value
from penstock.options.table_spec import FormatSpec
from penstock.options.values import BOOLEAN, ValueType

T = TypeVar("T")


format_option = Declare(Dialect.FLINK, Side.BOTH)
"""Declares an option of a format; its key begins with the format's name."""


def flag_option(key: str, doc: str, *, default: bool = False) -> Option[bool]:
    return format_option(key, BOOLEAN, doc, default)


def refused_option(key: str, doc: str) -> Option[Any]:
    """Declare an option that only Flink's format has; `doc` says what to do instead."""
    return format_option.refused(key, doc)


def parse_verbatim(text: str) -> str:
    """Return the text unchanged, because spaces may have a meaning."""
    return text


VERBATIM = ValueType("text", "", parse_verbatim)


@dataclass(frozen=True)
class FormatOptions:
    """The options of one format under one prefix (`json.`, `key.json.` or `value.json.`)."""

    prefix: str
    texts: Mapping[str, str]

    def spelled(self, option: Option[Any]) -> str:
        return self.prefix + option.key

    def value(self, option: Option[T]) -> T | None:
        """Return the parsed value, None when the option is not set.

        Raises:
            OptionError: the value is not allowed.
        """
        text = self.texts.get(option.key.lower())
        return None if text is None else parse_value(option.type, text, self.spelled(option))

    def flag(self, option: Option[bool]) -> bool:
        """Return true or false; the declared default when the option is not set."""
        return self.value_or_default(option)

    def value_or_default(self, option: Option[T]) -> T:
        return or_default(option, self.value(option))

    def required(self, option: Option[T]) -> T:
        """Return the value of an option that must be set.

        Raises:
            MissingOptionError: the option is not set.
        """
        value = self.value(option)
        if value is None:
            key = self.spelled(option)
            raise MissingOptionError(f"Option '{key}' is required and not set. {option.doc}", option=key)
        return value


def options_of(known: Sequence[Option[Any]], spec: FormatSpec) -> FormatOptions:
    """Check the options of a format against those that it declares.

    Raises:
        OptionError: an option under the format's name is unknown.
        UnsupportedOptionError: only Flink's format has the option.
    """
    for spelled, _, option in _declared(known, spec):
        if option.status is Status.REFUSED:
            doc = option.doc.replace("`", "'")
            raise UnsupportedOptionError(f"Option '{spelled}' is not supported. {doc}", option=spelled)
    return FormatOptions(spec.prefix, dict(spec.items))


def check_each(known: Sequence[Option[Any]], spec: FormatSpec) -> None:
    """Check name and value of each option of a format by itself, as `options_of` and the format do.

    An option that only Flink's format has is left to `options_of`.

    Raises:
        OptionError: an option under the format's name is unknown, or has a value that is not allowed.
    """
    for spelled, text, option in _declared(known, spec):
        if option.status is not Status.REFUSED:
            parse_value(option.type, text, spelled)


def _declared(known: Sequence[Option[Any]], spec: FormatSpec) -> Iterator[tuple[str, str, Option[Any]]]:
    """Yield the key as the user writes it, the text and the declaration of each option."""
    declared = {option.key.lower(): option for option in known}
    for key, text in spec.items:
        option = declared.get(key)
        spelled = spec.prefix + key
        if option is None:
            raise OptionError(_unknown(spelled, spec, known), option=spelled)
        yield spelled, text, option


def _unknown(key: str, spec: FormatSpec, known: Sequence[Option[Any]]) -> str:
    spelled = [spec.prefix + option.key for option in known if option.status is not Status.REFUSED]
    near = difflib.get_close_matches(key, spelled, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    allowed = ", ".join(spelled) or "none"
    return f"Format '{spec.name}' has no option '{key}'.{hint} Its options: {allowed}."
