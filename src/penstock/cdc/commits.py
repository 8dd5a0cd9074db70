"""Give the tables of a batch their rows, several tables at a time.

Runs on the driver. Invariant: all tables of a batch were decided and written down before. A table that fails
does not keep the others from their rows; its error ends the batch, or leaves the table out by choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa

from penstock.errors import MaterializeError
from penstock.targets.batch import Batch


class Target(Protocol):
    """A table that applies a batch as a whole; see `penstock.targets`."""

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Raise an error if the table cannot hold these columns."""

    def apply(self, batch: Batch) -> bool:
        """Return False if the batch was applied before."""


def apply_all(
    batches: Mapping[str, Batch], target_of: Callable[[str], Target], threads: int
) -> dict[str, Exception]:
    """Apply a batch to each table. Return the errors by topic.

    Args:
        batches: by topic.
        target_of: returns the table of a topic.
        threads: how many tables are changed at a time.
    """

    def apply(topic: str) -> Exception | None:
        try:
            target_of(topic).apply(batches[topic])
        except Exception as error:  # noqa: BLE001 - each library of a target has its own
            return error
        return None

    if len(batches) <= 1:
        return {topic: error for topic in batches if (error := apply(topic)) is not None}
    with ThreadPoolExecutor(min(threads, len(batches)), "penstock-replicate") as pool:
        found = dict(zip(batches, pool.map(apply, batches), strict=True))
    return {topic: error for topic, error in found.items() if error is not None}


def failed(errors: Mapping[str, Exception], batch_id: int, table_count: int) -> Exception:
    """Return the error of a batch in which tables failed: that of the first one, if it is the only one."""
    (topic, first), *others = sorted(errors.items())
    if not others and table_count == 1:
        return first
    rest = "".join(f"; {one}: {_short(error)}" for one, error in others)
    return MaterializeError(
        f"{len(errors)} of {table_count} tables of batch {batch_id} were not changed: {topic}: "
        f"{_short(first)}{rest}. The other tables have the batch. Spark repeats it when the query starts "
        "again, and each table gets it once. Correct the cause and start the query again. "
        "on_table_error='leave-out' leaves out a table that fails, but not one that has other batches.",
        batch_id=batch_id,
    )


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().rstrip(".")
