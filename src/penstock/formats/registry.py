"""From the name of a format and its options to the format.

Runs on the driver. The formats are listed in penstock/options/formats.py. Invariant: a format's module is
imported only when its name is asked for, because some of them need packages that not everyone installs.
"""

from __future__ import annotations

import importlib

from penstock.formats.base import Format, FormatClass
from penstock.options.formats import FORMATS
from penstock.options.table_spec import FormatSpec

_ENTRIES = {entry.name: entry for entry in FORMATS}


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(_ENTRIES)


def format_class(name: str) -> FormatClass:
    """Import the class of a format."""
    entry = _ENTRIES[name]
    found: FormatClass = getattr(importlib.import_module(entry.module), entry.class_name)
    return found


def format_of(spec: FormatSpec) -> Format:
    """Make the format that a table names.

    Raises:
        OptionError: one of its options is unknown or wrong.
        UnsupportedOptionError: one of them is an option of Flink's that penstock does not have.
    """
    return format_class(spec.name).from_spec(spec)
