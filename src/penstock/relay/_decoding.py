"""Decode what a broker has sent. Runs on the executor. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from penstock.client.fetch.requests import FetchedPartition
from penstock.client.net import error_codes as codes
from penstock.client.settings import FetchSettings
from penstock.codec import RecordBatchDecoder, scan_batches
from penstock.errors import FetchError
from penstock.relay.messages import Fetched
from penstock.types import TopicPartition


def scanned(
    topic_partition: TopicPartition,
    at: int,
    fetched: FetchedPartition,
    settings: FetchSettings,
    *,
    columns: Sequence[str],
    read_committed: bool,
    raw_headers: bool,
) -> Fetched:
    """Return what a broker has sent from offset `at` on. Its `rows` are a function that decodes the records.

    So where to read on is known, and asked for, before the work of decoding. Call the function once.

    Raises:
        CorruptBatchError: a length does not hold, or the end is not in the log and a checksum does not hold.
    """
    end = scan_batches(fetched.records, *topic_partition).next_offset
    if end is None or end <= at:
        return Fetched(topic_partition, codes.NO_ERROR, at)
    decoder = RecordBatchDecoder(
        *topic_partition,
        starting_offset=at,
        stopping_offset=end,
        columns=columns,
        read_committed=read_committed,
        check_crcs=settings.check_crcs,
        raw_headers=raw_headers,
        expected_rows=end - at,
    )
    rows = partial(_decoded, decoder, topic_partition, at, fetched, end)
    if 0 <= fetched.high_watermark < end:
        # A header is damaged. The next Fetch from there would be refused as if records had been deleted.
        found = list(rows())
        return Fetched(topic_partition, codes.NO_ERROR, end, lambda: found, len(fetched.records))
    return Fetched(topic_partition, codes.NO_ERROR, end, rows, len(fetched.records))


def _decoded(
    decoder: RecordBatchDecoder, topic_partition: TopicPartition, at: int, fetched: FetchedPartition, end: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records as Arrow batches. The next one is decoded when the one before has done its work.

    Each response has all aborted transactions of its own range, so no decoder is kept between responses.

    Raises:
        CorruptBatchError: a checksum or a length does not hold.
        FetchError: the decoder disagrees with the batch headers.
    """
    yield from decoder.decode(fetched.records, fetched.aborted_transactions)
    if (rest := decoder.flush()) is not None:
        yield rest
    if decoder.next_offset != end:
        raise FetchError(
            f"Decoding {topic_partition} from offset {at} ended at offset {decoder.next_offset}, but the "
            f"batch headers end at {end}. The transaction is aborted, so none of these "
            "records was written. This is a defect of penstock; please report it.",
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            offset=at,
        )
