"""write_batch: write in a `foreachBatch` function with exactly-once.

Runs on the driver (with Spark Connect: in the server's process for the query). Spark's Python sinks have no
Update mode, and `foreachBatch` can write any DataFrame; but a batch write does not know its micro-batch.
Invariant: with `exactly-once` a write always carries the query's id, which changes with the checkpoint, and
the number of the batch, so that a repeated batch is recognised and two batches are never taken for one.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.errors import PySparkException

from penstock._pyspark import check_pyspark
from penstock.errors import CheckpointError, ExactlyOnceError, MissingOptionError
from penstock.options.config import DeliveryGuarantee
from penstock.options.parse import parse_write
from penstock.spark._task_context import QUERY_ID_PROPERTY, RUN_ID_PROPERTY, driver_property


def write_batch(rows: Any, batch_id: int, options: Mapping[str, str], *, query_id: str | None = None) -> None:
    """Write a DataFrame as micro-batch `batch_id` of a streaming query; for use in `foreachBatch`.

    With `exactly-once` a batch that Spark repeats after a failure is recognised and not written twice. Each
    `write_batch` in one function needs a `sink.transactional-id-prefix` of its own.

    Args:
        rows: with the columns that `format("penstock")` writes: value, key, topic ...
        batch_id: the number that Spark passes to the function.
        options: of `format("penstock")`.
        query_id: of the query, e.g. `query.id`; it must change only with the checkpoint. Only Spark Connect
            needs it, and only with `exactly-once`; otherwise Spark tells it.

    Raises:
        MissingOptionError: `query_id` is needed.
        ExactlyOnceError: this batch was already written under the same prefix in this run; or the function
            has set a job group, so that this is unknown.
    """
    check_pyspark(needs_sources=False)
    config = parse_write(options).sink
    if config.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        _save(rows, options)
        return
    running_id = driver_property(rows, QUERY_ID_PROPERTY)
    query_id = query_id or running_id
    if query_id is None:
        raise MissingOptionError(
            "The query of this micro-batch is unknown, so write_batch could not recognise the batch if Spark "
            "repeats it. Nothing was written. Spark tells the query id only inside of foreachBatch "
            "functions, and not on Spark Connect. Pass query_id to write_batch, or use "
            "KafkaSink.write_stream, which finds the id in the checkpoint.",
            option="sink.query-id",
        )
    run_id = None if running_id is None else _run_id(rows)
    written = _NewestBatch(run_id, query_id, config.transactional_id_prefix or "")
    written.check_new(batch_id)
    of_batch = {"sink.query-id": query_id, "sink.batch-id": str(batch_id)}
    if siblings := written.siblings(batch_id):
        of_batch["sink.sibling-prefixes"] = ",".join(siblings)
    _save(rows, {**options, **of_batch})
    written.note(batch_id)


class MicroBatchWriter:
    """A function for `foreachBatch` that writes each batch with `write_batch`. Pickles.

    Args:
        options: of `format("penstock")`.
        checkpoint_location: of the query; on Spark Connect the query id is read from it.
        records: turns the rows of a batch into rows for `format("penstock")`; None: they are already.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        checkpoint_location: str | None = None,
        records: Callable[[Any], Any] | None = None,
    ) -> None:
        self._options = dict(options)
        self._checkpoint_location = checkpoint_location
        self._records = records

    def __call__(self, rows: Any, batch_id: int) -> None:
        query_id = driver_property(rows, QUERY_ID_PROPERTY)
        if query_id is None and self._checkpoint_location is not None:
            query_id = query_id_of_checkpoint(rows.sparkSession, self._checkpoint_location)
        records = rows if self._records is None else self._records(rows)
        write_batch(records, batch_id, self._options, query_id=query_id)


def query_id_of_checkpoint(spark: Any, checkpoint_location: str) -> str:
    """Return the id of the query of a checkpoint; Spark writes it before the first batch.

    Raises:
        CheckpointError: the id cannot be read.
    """
    file = f"{checkpoint_location.rstrip('/')}/metadata"
    try:
        lines = spark.read.text(file).collect()
        query_id: str = json.loads("".join(line.value for line in lines))["id"]
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"The id of the query could not be read from {file} ({type(error).__name__}: {error}), so this "
            "batch could not be recognised if Spark repeats it. Nothing was written. Is this the checkpoint "
            "location that the query was started with? Otherwise pass query_id to write_batch.",
            checkpoint_location=checkpoint_location,
        ) from error
    return query_id


def _run_id(rows: Any) -> str | None:
    """Return the id of the query's run, which Spark sets as its job group.

    Raises:
        ExactlyOnceError: the function of foreachBatch has set another job group.
    """
    group = driver_property(rows, RUN_ID_PROPERTY)
    with suppress(ValueError):
        return None if group is None else str(uuid.UUID(group))
    raise ExactlyOnceError(
        f"The function of foreachBatch has replaced Spark's job group by {group}. penstock needs Spark's "
        "job group to identify this run of the query. Without it, penstock cannot distinguish a second "
        "write of a batch from a repetition of the batch. Nothing was written. Call write_batch before "
        "setJobGroup, or use setJobDescription.",
        job_group=group,
    )


class _NewestBatch:
    """The newest batch that one run of a query has written under a prefix.

    The decision log cannot tell a second write of a batch from the batch's repetition: the second write would
    be drained and its rows lost.
    """

    _newest: dict[tuple[str | None, str, str], int] = {}  # noqa: RUF012 - of the process
    _lock = threading.Lock()

    def __init__(self, run_id: str | None, query_id: str, prefix: str) -> None:
        self._key = (run_id, query_id, prefix)

    def check_new(self, batch_id: int) -> None:
        """Raise ExactlyOnceError if the batch is written already."""
        with self._lock:
            newest = self._newest.get(self._key)
        if newest != batch_id:
            return
        _, query_id, prefix = self._key
        raise ExactlyOnceError(
            f"Batch {batch_id} of query {query_id} was already written under the transactional id prefix "
            f"{prefix} in this run of the query. The second write was not done, because penstock cannot "
            "distinguish it from a repetition of the first. If the function of foreachBatch writes several "
            "DataFrames, give each write its own sink.transactional-id-prefix; if it writes one, call "
            "write_batch once.",
            query_id=query_id,
            batch_id=batch_id,
            prefix=prefix,
        )

    def siblings(self, batch_id: int) -> list[str]:
        """Return the other prefixes under which this batch is written.

        Prefixes of earlier batches do not count, because a failed write that is repeated under another prefix
        may be decided.
        """
        run_id, query_id, prefix = self._key
        with self._lock:
            return sorted(
                each[2]
                for each, newest in self._newest.items()
                if each[:2] == (run_id, query_id) and each[2] != prefix and newest == batch_id
            )

    def note(self, batch_id: int) -> None:
        with self._lock:
            self._newest[self._key] = batch_id


def _save(rows: Any, options: Mapping[str, str]) -> None:
    from penstock.spark.versions import HAS_SOURCES  # noqa: PLC0415 - after PySpark is checked

    if not HAS_SOURCES:
        from penstock.spark._mapped_write import save  # noqa: PLC0415 - only on Spark 3.5

        save(rows, options)
        return
    rows.write.format("penstock").options(**options).mode("append").save()
