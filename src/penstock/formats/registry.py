"""Which formats there are: a name and options to a format.

Runs on the driver. Invariant: a format's module is imported only when its name is asked for, because some of
them need packages that not everyone installs.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.formats.base import Format
from penstock.formats.options import PREFIXES
from penstock.options.declare import Option
from penstock.options.table import CHANGELOG_FORMATS

_FORMATS: dict[str, tuple[str, str]] = {
    "raw": ("penstock.formats.raw", "RawFormat"),
    "json": ("penstock.formats.json", "JsonFormat"),
    "csv": ("penstock.formats.csv", "CsvFormat"),
    "avro": ("penstock.formats.avro", "AvroFormat"),
    "protobuf": ("penstock.formats.protobuf", "ProtobufFormat"),
    "avro-confluent": ("penstock.formats.avro_confluent", "AvroConfluentFormat"),
    "json-confluent": ("penstock.formats.json_confluent", "JsonConfluentFormat"),
    "protobuf-confluent": ("penstock.formats.protobuf_confluent", "ProtobufConfluentFormat"),
}


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(_FORMATS)


def format_options(name: str) -> tuple[Option[Any], ...]:
    """Return what a format declares, under `<NAME>_OPTIONS` in its module; for the reference page."""
    module, _ = _FORMATS[name]
    declared: tuple[Option[Any], ...] = getattr(
        importlib.import_module(module), name.upper().replace("-", "_") + "_OPTIONS"
    )
    return declared


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
    if prefix not in PREFIXES:
        raise ValueError(f"prefix must be one of {PREFIXES}, not {prefix!r}")
    canonical = name.strip().lower()
    if canonical in CHANGELOG_FORMATS:
        raise _not_yet(f"{prefix}format", canonical)
    if canonical not in _FORMATS:
        near = difflib.get_close_matches(canonical, _FORMATS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        key = f"{prefix}format"
        raise OptionError(
            f"Option '{key}' names no format: '{name}'.{hint} Formats: {', '.join(_FORMATS)}.", option=key
        )
    module, class_name = _FORMATS[canonical]
    made: Format = getattr(importlib.import_module(module), class_name).from_options(options, prefix)
    return made


def _not_yet(key: str, name: str) -> UnsupportedOptionError:
    plain = "avro-confluent" if "avro" in name else "json"
    return UnsupportedOptionError(
        f"Option '{key}' = '{name}' is not supported by this version of penstock yet, which has no changelog "
        f"(CDC) formats. With '{plain}' such records are read as they are: a column for each field of the "
        "envelope (Debezium's are before, after, op ...).",
        option=key,
        value=name,
    )
