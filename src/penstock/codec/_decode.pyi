from collections.abc import Iterator, Sequence

import pyarrow as pa

class RecordBatchDecoder:
    """Turns the bytes of Fetch responses into KafkaRecords, for one read of one range.

    Not thread-safe. Every yielded batch has the fields of KAFKA_RECORDS named in `columns`, in schema order,
    and at most `max_rows` rows and `max_bytes` of keys, values and headers (one larger record comes alone).
    No record outside of `[starting_offset, stopping_offset)` is ever yielded. Invalid UTF-8 in header names
    is replaced as by Java's client; with `raw_headers` the names stay as they are (RAW_HEADERS_TYPE). If
    `expected_rows` are likely to come, there is room for them from the start, and nothing is moved.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        starting_offset: int,
        stopping_offset: int,
        columns: Sequence[str] = ...,
        read_committed: bool = False,
        check_crcs: bool = True,
        raw_headers: bool = False,
        max_rows: int = 32_768,
        max_bytes: int = 8_388_608,
        max_decompressed_bytes: int = 1_073_741_824,
        expected_rows: int = 0,
    ) -> None: ...
    @property
    def next_offset(self) -> int:
        """Return the position: the start of the next Fetch. Never past `stopping_offset`.

        It passes control batches, aborted data and compaction gaps, because it follows the last offset in
        the batch headers. If a `decode()` did not move it, the data held no whole batch.
        """

    @property
    def is_finished(self) -> bool:
        """Return whether the position has reached `stopping_offset`."""

    def decode(
        self, data: bytes | bytearray | memoryview, aborted: Sequence[tuple[int, int]] | None = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the full batches in `data`, and keep the rest for the next call or `flush()`.

        Args:
            data: The records of one topic partition of one Fetch response. A partial last batch is ignored.
            aborted: That response's aborted transactions, (producer_id, first_offset) each; used when
                reading committed. Each response brings the whole list for its own range.

        Raises:
            CorruptBatchError: A checksum or a length does not hold.
        """

    def flush(self) -> pa.RecordBatch | None:
        """Return the records that are left, or None."""

def crc32c(data: bytes | bytearray | memoryview, *, tables: bool = False) -> int:
    """Return the CRC-32C of bytes; from tables on request, for the tests."""
