"""From the name of a format and its options to the format.

Runs on the driver. The formats are listed in penstock/options/formats.py. Invariant: a format's module is
imported only when its name is asked for, because some of them need packages that not everyone installs.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.formats.base import Format, FormatClass
from penstock.options.formats import FORMAT_PREFIXES, FORMATS, PLAIN_FORMAT_OF_CHANGELOG

_ENTRIES = {entry.name: entry for entry in FORMATS}


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(_ENTRIES)


def format_class(name: str) -> FormatClass:
    """Import the class of a format."""
    entry = _ENTRIES[name]
    found: FormatClass = getattr(importlib.import_module(entry.module), entry.class_name)
    return found


def format_for(name: str, options: Mapping[str, str], prefix: str = "") -> Format:
    """Make the format that a table names.

    Args:
        name: What `format`, `key.format` or `value.format` is set to.
        options: All options of the table; those of other formats are left alone.
        prefix: Where the format's own options stand: "" for `format`, "key." for `key.format`, "value." for
            `value.format`.

    Raises:
        OptionError: no such format, or one of its options is unknown or wrong.
        UnsupportedOptionError: a format of Flink that is not there yet.
    """
    if prefix not in FORMAT_PREFIXES:
        raise ValueError(f"prefix must be one of {FORMAT_PREFIXES}, not {prefix!r}")
    canonical = name.strip().lower()
    if canonical in PLAIN_FORMAT_OF_CHANGELOG:
        raise _not_yet(f"{prefix}format", canonical)
    if canonical not in _ENTRIES:
        near = difflib.get_close_matches(canonical, _ENTRIES, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        key = f"{prefix}format"
        raise OptionError(
            f"Option '{key}' names no format: '{name}'.{hint} Formats: {', '.join(_ENTRIES)}.", option=key
        )
    return format_class(canonical).from_options(options, prefix)


def _not_yet(key: str, name: str) -> UnsupportedOptionError:
    plain = PLAIN_FORMAT_OF_CHANGELOG[name]
    return UnsupportedOptionError(
        f"Option '{key}' = '{name}' is not supported by this version of penstock yet, which has no changelog "
        f"(CDC) formats. With '{plain}' such records are read as they are: a column for each field of the "
        "envelope (Debezium's are before, after, op ...).",
        option=key,
        value=name,
    )
