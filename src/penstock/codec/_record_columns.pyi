import pyarrow as pa

class RecordColumns:
    """The columns key, value, headers and timestamp of an Arrow RecordBatch, checked once for encoding.

    Each may be absent, which means null in every row. `key` and `value` are binary or string of any width,
    `headers` is a list of struct<key: string, value: binary>, `timestamp` is an Arrow timestamp.

    Raises:
        RowError: A column has another type.
    """

    def __init__(self, records: pa.RecordBatch) -> None: ...
    @property
    def row_count(self) -> int: ...
