"""Streaming reads on Spark before 4.2, which asks for the end of a batch without saying where it begins.

Runs as `_stream_reader`. The start is remembered as Spark's own wrapper of a `SimpleDataSourceStreamReader`
does it: Spark calls `partitions(last, last)` on a restarted query before it asks for an end. `last` is the
end of the last planned batch, and Spark may be about to repeat that batch.

Invariant: the consumer group gets the end of a batch only if the order of calls proves that the batch is in
Spark's commit log. Spark has divided that batch and asks again, or asks for the second time since it named
`last`. An end that was only returned proves nothing: Spark's wrapper for `availableNow`
(`spark.sql.streaming.triggerAvailableNowWrapper.enabled`) asks twice before the batch begins. On a restarted
query this wrapper asks before Spark has named `last`. That is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from penstock._pyspark import version_and_folder
from penstock.errors import OptionError
from penstock.options.config import PROCESSING_TIME, SourceConfig
from penstock.source.checkpoint_offset import SourceOffset
from penstock.spark._stream_reader import PenstockStreamReader
from penstock.spark.process.short_errors import short_errors
from penstock.spark.versions import check_wrapper, missing

_log = logging.getLogger(__name__)


class OlderStreamReader(PenstockStreamReader):
    """Remembers where the next batch begins."""

    _begin: dict[str, Any] | None = None
    """Where the next batch begins; None before Spark has asked anything."""
    _last: dict[str, Any] | None = None
    """Where the last batch ends that Spark has divided, or named on a restart."""
    _is_last_done = False
    """Whether Spark's next question proves that this batch is in its commit log."""
    _has_warned = False

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # the signature of Spark before 4.2
        self._warn_once()
        begin = self.initialOffset() if self._begin is None else self._begin
        self._begin = super().latestOffset(begin, self.getDefaultReadLimit())
        self._is_last_done = True
        return self._begin

    @short_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the splits of a batch, or note where a restarted query stands."""
        self._warn_once()
        if start == end:
            if self._last is None:
                check_wrapper(self._begin, end)
            self._begin = self._last = end
            self._is_last_done = False
            return []
        splits = super().partitions(start, end)
        self._last, self._is_last_done = end, True
        return splits

    @short_errors
    def commit(self, end: dict[str, Any]) -> None:
        """Commit to the consumer group: Spark says that the batch that ends here is in its commit log."""
        offset = SourceOffset.from_json(end)
        self._check_group(offset.positions)  # a run with availableNow may have no other call that checks
        super()._commit_to_group(offset)

    def _check_before_planning(self, offset: SourceOffset) -> None:
        # Spark may repeat the batch that ends here. Then `partitions` says from where it reads.
        if self._is_begin_done:
            super()._check_before_planning(offset)

    def _commit_to_group(self, offset: SourceOffset) -> None:
        if self._is_begin_done:
            super()._commit_to_group(offset)

    @property
    def _is_begin_done(self) -> bool:
        """Whether the next batch begins at the end of one that is in Spark's commit log."""
        return self._is_last_done and self._begin == self._last

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("PySpark %s is older than 4.2. %s", version_and_folder(), " ".join(missing()))


def check_limits(config: SourceConfig) -> None:
    """Refuse limits on a batch, unless the user says that the trigger is processingTime.

    Spark before 4.2 hides the trigger. With availableNow it asks for an end once, so that a limited answer
    would end the run early, without a message.

    Raises:
        OptionError: naming the limit in the user's dialect.
    """
    if config.has_processing_time:
        return
    is_sparks = config.properties.prefix == "kafka."
    limits = {
        "maxOffsetsPerTrigger" if is_sparks else "scan.max-records-per-batch": config.max_records_per_batch,
        "scan.max-bytes-per-batch": config.max_bytes_per_batch,
        "minOffsetsPerTrigger": config.min_records_per_batch,
        "scan.watermark.alignment.max-drift": config.max_drift_ms,
    }
    for name, value in limits.items():
        if value is not None:
            raise OptionError(
                f"Option '{name}' limits a batch, and PySpark {version_and_folder()} does not tell a source "
                "the trigger of its query. With the trigger availableNow the query would end after one "
                "limited batch and leave the other records for the next run, without an error. Nothing was "
                "read. If the trigger is processingTime, which is Spark's default, set 'scan.trigger' = "
                f"'{PROCESSING_TIME}'. If it is availableNow, leave '{name}' out, or use Spark 4.2 or newer. "
                "See docs/spark-versions.md.",
                option=name,
            )
