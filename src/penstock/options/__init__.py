"""The options of readers and writers: declared once, in Flink's dialect and in Spark's own.

Runs on the driver. Both dialects become the same frozen configs (`penstock.options.config`); what is
wrong with an option is said here, before a job starts. See docs/options.md for the reference.

Invariant: the parsers are loaded when they are first used, because executors take the configs only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.options.sink import parse_sink_options as parse_sink_options
    from penstock.options.source import parse_source_options as parse_source_options

_HOMES = {
    "parse_sink_options": "penstock.options.sink",
    "parse_source_options": "penstock.options.source",
}
__all__ = ["parse_sink_options", "parse_source_options"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.options' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
