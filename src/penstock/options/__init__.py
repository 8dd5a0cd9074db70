"""The options of readers and writers: declared once, in Flink's dialect and in Spark's own.

Runs on the driver. Both dialects become the same frozen configs (`penstock.options.config`); what is
wrong with an option is said here, before a job starts. See docs/options.md for the reference.
"""

from __future__ import annotations

from penstock.options.sink import parse_sink_options
from penstock.options.source import parse_source_options

__all__ = ["parse_sink_options", "parse_source_options"]
