"""write_batch: what a function of `foreachBatch` calls, so that its writes are exactly-once too.

Runs on the driver (with Spark Connect: in the server's process for the query). Spark's Python sinks have no
Update mode, and in `foreachBatch` any DataFrame can be written; but a batch write does not say which
micro-batch it carries out. Invariant: with `exactly-once` a write always bears the query's id, which changes
with the checkpoint, and the number of the batch, so that a batch that comes again is known, and two batches
are never taken for one.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.errors import PySparkException

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
        batch_id: as Spark gives it to the function.
        options: of `format("penstock")`.
        query_id: of the query, e.g. `query.id`; it must change with the checkpoint, and only then. Only
            Spark Connect needs it, and only with `exactly-once`; otherwise Spark says it itself.

    Raises:
        MissingOptionError: `query_id` is needed.
        ExactlyOnceError: this batch was written already under the same prefix in this run; or the function
            has set a job group, so that this cannot be known.
    """
    config = parse_write(options).sink
    if config.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        _save(rows, options)
        return
    running_id = driver_property(rows, QUERY_ID_PROPERTY)
    query_id = query_id or running_id
    if query_id is None:
        raise MissingOptionError(
            "Which query this micro-batch belongs to is unknown, so that the batch could not be recognised "
            "when it comes again. Nothing was written. Spark Connect does not tell it to functions of "
            "foreachBatch, and nobody tells it outside of them: give write_batch the query_id, or use "
            "KafkaSink.write_stream, which finds it in the checkpoint.",
            option="sink.query-id",
        )
    run_id = None if running_id is None else _run_id(rows)
    written = _Written(run_id, query_id, config.transactional_id_prefix or "")
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
        checkpoint_location: of the query; Spark Connect's way to the id of the query.
        records: makes the rows of a batch what `format("penstock")` writes; None where they are that.
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
        """Write one batch."""
        query_id = driver_property(rows, QUERY_ID_PROPERTY)
        if query_id is None and self._checkpoint_location is not None:
            query_id = query_id_of_checkpoint(rows.sparkSession, self._checkpoint_location)
        records = rows if self._records is None else self._records(rows)
        write_batch(records, batch_id, self._options, query_id=query_id)


def query_id_of_checkpoint(spark: Any, checkpoint_location: str) -> str:
    """The id that Spark has given the query of a checkpoint; it is there before the first batch.

    Raises:
        CheckpointError: it cannot be read.
    """
    file = f"{checkpoint_location.rstrip('/')}/metadata"
    try:
        lines = spark.read.text(file).collect()
        query_id: str = json.loads("".join(line.value for line in lines))["id"]
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"The id of the query cannot be read from {file} ({type(error).__name__}: {error}), so that this "
            "batch could not be recognised when it comes again. Nothing of it was written. Is it the "
            "checkpoint location that the query was started with? Otherwise give write_batch the query_id.",
            checkpoint_location=checkpoint_location,
        ) from error
    return query_id


def _run_id(rows: Any) -> str | None:
    """The id of the query's run, which Spark has as its job group.

    Raises:
        ExactlyOnceError: somebody has set another job group.
    """
    group = driver_property(rows, RUN_ID_PROPERTY)
    with suppress(ValueError):
        return None if group is None else str(uuid.UUID(group))
    raise ExactlyOnceError(
        f"The function of foreachBatch has set the job group {group}, in place of Spark's own, by which this "
        "run of the query is known. Without it a second write of a batch could not be told from its "
        "repetition. Nothing was written. Call write_batch before setJobGroup, or use setJobDescription.",
        job_group=group,
    )


class _Written:
    """The newest batch that one run of a query has written under a prefix.

    The log of decisions cannot tell a second write of a batch from the batch's repetition: it would be
    drained, and its rows lost.
    """

    _newest: dict[tuple[str | None, str, str], int] = {}  # noqa: RUF012 - of the process
    _lock = threading.Lock()

    def __init__(self, run_id: str | None, query_id: str, prefix: str) -> None:
        self._key = (run_id, query_id, prefix)

    def check_new(self, batch_id: int) -> None:
        """Raise ExactlyOnceError when the batch is written already."""
        with self._lock:
            newest = self._newest.get(self._key)
        if newest != batch_id:
            return
        _, query_id, prefix = self._key
        raise ExactlyOnceError(
            f"Batch {batch_id} of query {query_id} is written already under the transactional id prefix "
            f"{prefix}, in this very run of the query. The second write was not done, because it could not "
            "be told from the first one. If the function of foreachBatch writes several DataFrames, give "
            "each write a sink.transactional-id-prefix of its own; if it writes one, call write_batch once.",
            query_id=query_id,
            batch_id=batch_id,
            prefix=prefix,
        )

    def siblings(self, batch_id: int) -> list[str]:
        """Other prefixes under which this very batch is written.

        Not those of its earlier batches: where a write that failed is tried again under another prefix, the
        failed one may be decided.
        """
        run_id, query_id, prefix = self._key
        with self._lock:
            return sorted(
                each[2]
                for each, newest in self._newest.items()
                if each[:2] == (run_id, query_id) and each[2] != prefix and newest == batch_id
            )

    def note(self, batch_id: int) -> None:
        """The batch is written."""
        with self._lock:
            self._newest[self._key] = batch_id


def _save(rows: Any, options: Mapping[str, str]) -> None:
    rows.write.format("penstock").options(**options).mode("append").save()
