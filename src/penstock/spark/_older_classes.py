"""A class that PySpark 4.0 lacks. Only `versions` imports it. Runs on driver and executor."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter


class StreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[misc] # both have `commit`
    """Writes the Arrow batches of a stream: PySpark 4.0 gives them to each DataSourceArrowWriter."""
