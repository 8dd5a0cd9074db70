"""Give the records of a continuous query to the user's function, and check what it returns.

Made on the driver; `open` and what it returns run on executors. Invariant: the function gets the columns of a
read, and what it returns has the columns of a write, or is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import RowError
from penstock.options.config import SinkConfig
from penstock.sink.rows import check_write_schema
from penstock.spark.schema import RowSchema, source_schema
from penstock.table.read import RecordsToRows

BatchFunction = Callable[[pa.RecordBatch], "pa.RecordBatch | list[pa.RecordBatch]"]


@dataclass(frozen=True)
class KafkaRows:
    """Makes records with a function of keys and values as bytes. Travels to the executors.

    Attributes:
        function: of the user.
        include_headers: whether its batches have the column `headers`.
        sink: of the write.
    """

    function: BatchFunction
    include_headers: bool
    sink: SinkConfig

    def open(self) -> FunctionRecords:
        """Return the maker of one task."""
        rows = RowSchema(source_schema(include_headers=self.include_headers))
        return FunctionRecords(rows, self.function, self.sink)


class FunctionRecords:
    """Makes the records of one task."""

    def __init__(self, rows: RecordsToRows, function: BatchFunction, sink: SinkConfig) -> None:
        self._rows = rows
        self._function = function
        self._sink = sink
        self._checked: pa.Schema | None = None

    @property
    def columns(self) -> Sequence[str]:
        """Return the columns of KafkaRecords that are read."""
        return self._rows.columns

    def records(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Return what the function makes of a batch.

        Raises:
            RowError: it cannot be written.
        """
        made = self._function(self._rows.rows(batch))
        return [self._checked_batch(each) for each in (made if isinstance(made, list) else [made])]

    def _checked_batch(self, made: Any) -> pa.RecordBatch:
        if not isinstance(made, pa.RecordBatch):
            raise RowError(
                "Expected a pyarrow.RecordBatch, or a list of them, from the function of the continuous "
                f"query, got {type(made).__name__}. Nothing of the transaction is committed. Return a batch "
                "without rows to write nothing."
            )
        if made.schema != self._checked:
            check_write_schema(made.schema, self._sink)
            self._checked = made.schema
        return made
