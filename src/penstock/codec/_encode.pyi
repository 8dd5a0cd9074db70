import pyarrow as pa

from penstock.codec._record_columns import RecordColumns

class RecordBatchBuilder:
    """Puts rows of one topic partition into record batches (magic 2), one batch after another.

    Not thread-safe. A batch holds at most `batch_size_bytes` before compression; one larger record gets a
    batch of its own, as long as that batch is not larger than `max_record_bytes`.

    Compression levels are Java's: gzip 1 to 9, lz4 1 to 17 (9 is the fast compressor), zstd as the library's.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        compression_type: str = "none",
        compression_level: int | None = None,
        batch_size_bytes: int = 0x7FFFFFFF,
        max_record_bytes: int = 0x7FFFFFFF,
        is_transactional: bool = False,
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def size_bytes(self) -> int:
        """Return the size of the open batch before compression; 0 when it holds no record."""
    @property
    def max_timestamp_ms(self) -> int:
        """Return the largest timestamp in the open batch; undefined when it holds no record."""

    def append(
        self, columns: RecordColumns, rows: pa.Int32Array, first: int = 0, *, default_timestamp_ms: int
    ) -> int:
        """Append `rows[first:]`; return the index of the first row that was left out (`len(rows)`: none).

        Raises:
            RecordTooLargeError: A record exceeds `max_record_bytes`; the rows before it are appended.
            RowError: A row holds a value that a Kafka record cannot; the rows before it are appended.
        """

    def build(self, *, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1) -> bytes:
        """Close the open batch and return its bytes; the builder is empty afterwards."""
    def hand_over(
        self, *, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1
    ) -> bytes | memoryview:
        """Do the same, but return a batch that is not compressed as a view of the builder's own memory.

        The builder takes new memory for the next batch, so the view does not change. The view keeps a
        block of at most twice its size. A batch that fills less of the builder's memory is copied.
        """
