"""Makes a format from its name and options.

Runs on the driver. penstock/options/formats.py lists the formats. Invariant: a format's module is imported
only when a table uses it, because some formats need optional packages.
"""

from __future__ import annotations

import importlib

from penstock.formats.base import Format, FormatClass
from penstock.formats.format_options import check_each
from penstock.options.formats import FORMATS
from penstock.options.table_spec import FormatSpec

_ENTRIES = {entry.name: entry for entry in FORMATS}


def format_names() -> tuple[str, ...]:
    return tuple(_ENTRIES)


def format_class(name: str) -> FormatClass:
    entry = _ENTRIES[name]
    found: FormatClass = getattr(importlib.import_module(entry.module), entry.class_name)
    return found


def format_of(spec: FormatSpec) -> Format:
    """Make the format that a table names.

    Raises:
        OptionError: an option is unknown or has a value that is not allowed.
        UnsupportedOptionError: an option exists in Flink only.
    """
    return format_class(spec.name).from_spec(spec)


def check_declared(spec: FormatSpec) -> None:
    """Check the options of a format that is only declared: each name and each value. Nothing is looked up.

    `format_of` checks what is missing, and what contradicts.

    Raises:
        OptionError: an option is unknown or has a value that is not allowed.
    """
    check_each(format_class(spec.name).options, spec)
