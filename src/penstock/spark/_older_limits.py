"""Classes that PySpark before 4.2 lacks, under PySpark's names. Only `versions` imports them.

Runs on driver and executor. Invariant: the limits only carry numbers between methods of our own readers,
because this PySpark never asks a reader for a limit.
"""

from __future__ import annotations

from dataclasses import dataclass


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
