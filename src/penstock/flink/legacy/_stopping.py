"""The end of an older consumer whose schema has its own `is_end_of_stream`.

Made in the user's program; the driver asks it once, when a query is first planned. Invariant: everything
between the start of the query and the stop was looked at, so no element after an end is ever read. The
checkpoint keeps the stops, so a restarted query ends at the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import OffsetOutOfRangeError
from penstock.flink.offsets_initializer import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.source.user_initializer import PartitionOffsetsRetriever
from penstock.types import OffsetRange, TopicPartition


@dataclass(frozen=True)
class EndsOfStreams(KafkaOffsetsInitializer):
    """Stops each topic partition before the end of its stream, or at the present end of its log.

    Attributes:
        user_object: the schema with the `is_end_of_stream`.
    """

    user_object: Any

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Read each topic partition from its start, up to the end of its stream."""
        from penstock.table.older_schemas import StreamEnd  # noqa: PLC0415 - it loads Arrow
        from penstock.table.python_rows import consumer_records  # noqa: PLC0415 - it loads Arrow

        starts, log_ends = retriever.starting_offsets(partitions), retriever.end_offsets(partitions)
        found, stops = StreamEnd(self.user_object), dict(log_ends)
        for tp, start in sorted(starts.items()):
            batches = _records(retriever, OffsetRange(tp, start, max(start, log_ends[tp])))
            end = found.offset(record for batch in batches for record in consumer_records(batch))
            stops[tp] = log_ends[tp] if end is None else end
        return stops

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return a strategy that is never used, because each topic partition has a number."""
        return KafkaOffsetResetStrategy.LATEST


def _records(retriever: PartitionOffsetsRetriever, offset_range: OffsetRange) -> Iterator[Any]:
    """Yield the records of a range. Deleted records are passed over; planning the range reports that loss."""
    if offset_range.starting_offset >= offset_range.stopping_offset:
        return
    try:
        yield from retriever.records(offset_range)
    except OffsetOutOfRangeError as error:
        log_start: int = error.facts["log_start_offset"]
        if log_start <= error.facts["offset"]:
            return
        rest = OffsetRange(offset_range.topic_partition, log_start, offset_range.stopping_offset)
        yield from _records(retriever, rest)
