"""Give rows to a function of penstock's that takes and returns Arrow batches.

Runs on the driver, and in the program of a Spark Connect client. Invariants: an error of the function ends
the query with penstock's message, and without the files above it; each task prepares its process first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from penstock._pyspark import explain_import_error
from penstock.spark.process.begin import begin_task
from penstock.spark.process.short_errors import short_errors_of_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    Function = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_rows(rows: DataFrame, function: Function, columns: StructType | str) -> DataFrame:
    """Return the rows that the function makes of these rows.

    Args:
        rows: of which each task gives its batches to the function.
        function: which runs on the executors.
        columns: of the result.

    Raises:
        ImportError: PySpark needs pandas for this, and it is missing or too old.
    """
    try:
        return rows.mapInArrow(short_errors_of_rows(_in_task(function)), columns)
    except ImportError as error:
        explain_import_error(error)
        raise


def _in_task(function: Function) -> Function:
    """Return the same function, which first prepares the process of its task."""

    @functools.wraps(function)
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        return function(batches)

    return run
