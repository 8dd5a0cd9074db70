"""Classes that PySpark 4.0 and 4.1 lack, under PySpark's names. Only `versions` imports them.

Runs on driver and executor. Invariant: the limits only carry numbers between methods of our own readers,
because this PySpark never asks a reader for a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter


class StreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[misc] # both have `commit`
    """Writes the Arrow batches of a stream: PySpark 4.0 gives them to each DataSourceArrowWriter."""


class ReadLimit:
    """How much a batch reads."""


@dataclass
class ReadAllAvailable(ReadLimit):
    """Everything."""


@dataclass
class ReadMinRows(ReadLimit):
    """At least so many rows."""

    min_rows: int


@dataclass
class ReadMaxRows(ReadLimit):
    """At most so many rows."""

    max_rows: int


@dataclass
class ReadMaxBytes(ReadLimit):
    """At most so many bytes."""

    max_bytes: int


class SupportsTriggerAvailableNow:
    """A reader that fixes the end of a run. This PySpark does not ask for it."""
