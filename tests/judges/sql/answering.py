"""What penstock answers to a script: the table of its last statement, or why there is none.

Runs on the driver. Invariant: a stream runs until all records of its bounded topics are read, and its table
is what its changes leave.
"""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError, SqlError, SqlFailedError
from penstock.sql.run.session import Session
from penstock.testing.streams import run_to_end
from penstock.testing.tables import rows_left
from tests.judges.sql.corpus import Answer, Locations, Script
from tests.spark.queries import RowsOfBatches, stopped
from tests.spark.sql_answers import plain, zoned
from tests.waiting import wait_until

KIND = "row_kind"
_OWN = re.compile(r"(?:penstock\.errors\.)(\w+Error: [^\n]+)")
_CAUSE = re.compile(r"(\[(?!STREAM_FAILED|FOREACH_BATCH)[A-Z_.]+\] [^\n]+)")


def answer(spark: SparkSession, script: Script, mode: str, locations: Locations) -> Answer:
    """Return columns and rows; or `refused`, a message before anything ran; or `failed`, one while it ran."""
    session = Session(spark, lambda _: None)
    try:
        session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
        session.execute(f"SET 'execution.checkpointing.dir' = '{locations.folder}/checkpoints'")
        return _answer(session, script, locations)
    except SqlError as error:
        what = "failed" if isinstance(error, SqlFailedError) else "refused"
        return {what: str(error).split("\n")[0].partition(": ")[2]}
    except (PenstockError, PySparkException, Py4JJavaError) as error:
        return {"failed": _first_line(error)}
    finally:
        session.execute("RESET")
        session.stop()


def _answer(session: Session, script: Script, locations: Locations) -> Answer:
    *first, last = script.statements(locations)
    for each in first:
        for result in session.execute(f"{each};"):
            for query in result.job.queries if result.job is not None else ():
                run_to_end(query)
            if result.job is not None:
                result.job.stop()
    result = session.execute(f"{last};")[0]
    frame: DataFrame = result.frame
    given = zoned(frame)
    rows: list[tuple[Any, ...]]
    if not frame.isStreaming:
        rows = list(map(tuple, given.collect()))
    elif locations.restarts and locations.batches > 1:
        rows = rows_left(_rows_with_a_restart(given, f"{locations.folder}/of-select"))
    else:
        rows = rows_left(given)
    columns = [[name, kind] for name, kind in frame.dtypes if name != KIND]
    return {"columns": columns, "rows": [[plain(value) for value in row] for row in rows]}


def _rows_with_a_restart(frame: DataFrame, checkpoint: str) -> list[Row]:
    """Return the rows of a stream that is stopped behind its second micro-batch, and then continues.

    A micro-batch that the stop has cut off runs again. Then only the rows of its second run count.
    """
    batches = RowsOfBatches()

    def start() -> StreamingQuery:
        return frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(batches.take).start()

    with stopped(start()) as query:
        wait_until(
            lambda: batches.count > 1 or not query.isActive or _is_idle(query, bool(batches.count)),
            "the second micro-batch",
        )
        if not query.isActive:
            run_to_end(query)  # raises why
    with stopped(start()) as query:
        run_to_end(query)
    return batches.rows()


def _is_idle(query: StreamingQuery, has_begun: bool) -> bool:
    status = query.status
    return has_begun and not status["isDataAvailable"] and not status["isTriggerActive"]


def _first_line(error: Exception) -> str:
    """Return what a query raised, without Spark's stacks and what it wraps around the cause."""
    text = str(error)
    found = _OWN.search(text) or _CAUSE.search(text)
    return (found[1] if found else text.strip().split("\n")[0])[:300]
