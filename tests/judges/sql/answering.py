"""What penstock answers to a script: the table of its last statement, or why there is none.

Runs on the driver. Invariant: a stream runs until all records of its bounded topics are read, and its table
is what its changes leave.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError, SqlError, SqlFailedError
from penstock.sql.run.session import Session
from tests.judges.sql.corpus import Answer, Places, Script
from tests.spark.sql_answers import plain, zoned

KIND = "row_kind"
_LIMIT_S = 240.0
_ADDED = ("+I", "+U")
_OWN = re.compile(r"(?:penstock\.errors\.)(\w+Error: [^\n]+)")
_CAUSE = re.compile(r"(\[(?!STREAM_FAILED|FOREACH_BATCH)[A-Z_.]+\] [^\n]+)")


def answer(spark: SparkSession, script: Script, mode: str, places: Places) -> Answer:
    """Return columns and rows; or `refused`, a message before anything ran; or `failed`, one while it ran."""
    session = Session(spark, lambda _: None)
    try:
        session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
        session.execute(f"SET 'execution.checkpointing.dir' = '{places.folder}/checkpoints'")
        return _answer(session, script, places)
    except SqlError as error:
        what = "failed" if isinstance(error, SqlFailedError) else "refused"
        return {what: str(error).split("\n")[0].partition(": ")[2]}
    except (PenstockError, PySparkException, Py4JJavaError) as error:
        return {"failed": _first_line(error)}
    finally:
        session.execute("RESET")
        session.stop()


def _answer(session: Session, script: Script, places: Places) -> Answer:
    *first, last = script.statements(places)
    for each in first:
        for result in session.execute(f"{each};"):
            for query in result.job.queries if result.job is not None else ():
                _run_to_end(query)
            if result.job is not None:
                result.job.stop()
    result = session.execute(f"{last};")[0]
    frame: DataFrame = result.frame
    rows = _of_a_stream(frame) if frame.isStreaming else [_row(each) for each in zoned(frame).collect()]
    columns = [[name, kind] for name, kind in frame.dtypes if name != KIND]
    return {"columns": columns, "rows": rows}


def _of_a_stream(frame: DataFrame) -> list[list[Any]]:
    """Return the rows that the changes of a stream leave.

    Raises:
        AssertionError: a row goes that was not there.
    """
    left: Counter[str] = Counter()

    def apply(batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            values = row.asDict()
            is_added = values.get(KIND, "+I") in _ADDED
            kept = [plain(value) for name, value in zip(batch.columns, row, strict=True) if name != KIND]
            left[json.dumps(kept)] += 1 if is_added else -1

    query = zoned(frame).writeStream.foreachBatch(apply).start()
    try:
        _run_to_end(query)
    finally:
        query.stop()
    gone = [row for row, count in left.items() if count < 0]
    if gone:
        raise AssertionError(f"rows go that were not there: {gone[:3]}")
    return [json.loads(row) for row in left.elements()]


def _run_to_end(query: StreamingQuery) -> None:
    """Wait until a query has read all records.

    Raises:
        TimeoutError: it did not end in time.
    """
    late = threading.Event()

    def stop() -> None:
        late.set()
        query.stop()

    timer = threading.Timer(_LIMIT_S, stop)
    timer.start()
    try:
        query.processAllAvailable()
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(f"the query did not end in {_LIMIT_S:.0f} s")


def _row(row: Any) -> list[Any]:
    return [plain(value) for value in row]


def _first_line(error: Exception) -> str:
    """Return what a query raised, without Spark's stacks and what it wraps around the cause."""
    text = str(error)
    found = _OWN.search(text) or _CAUSE.search(text)
    return (found[1] if found else text.strip().split("\n")[0])[:300]
