import pyarrow as pa

from penstock.codec._record_columns import RecordColumns

def digest_records(
    columns: RecordColumns, topics: bytes | pa.Array | None, partitions: pa.Int32Array | None
) -> tuple[int, int]:
    """Return both sums of the digest of rows, as `penstock.sink.exactly_once.digest` defines it.

    Args:
        columns: of the rows.
        topics: one topic of all rows as UTF-8, or a topic for each row; None: all null.
        partitions: of the rows; None: no row names one.
    """
