"""Classes that PySpark 3.5 lacks, because it has no data sources in Python. Only `versions` imports them.

Runs on driver and executor. `_mapped_write` calls the writers there, and Spark does not.
"""

from __future__ import annotations


class WriterCommitMessage:
    """The message of a task to the driver."""


class ArrowWriter:
    """Writes Arrow batches."""


class _StreamReader:
    """A reader of a stream, which this Spark does not have."""
