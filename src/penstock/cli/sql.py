"""`penstock sql`: run scripts of Flink's SQL.

Runs on the driver's machine. Invariant: the scripts are read as a whole before Spark starts. The exit status
is 0 if all jobs have ended well, 1 after an error, and 130 after Ctrl-C, which stops the jobs.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.sql.run.job import Job
    from penstock.sql.run.session import Result, Session

_PROGRESS_S = 10.0
_SHOWN_ROWS = 1_000
_INTERRUPTED = 130


def sql(
    files: Annotated[list[Path], typer.Argument(help="Scripts, which run one after another.", exists=True)],
    explain: Annotated[
        bool, typer.Option("--explain", help="Show Spark's SQL of each query, and start none of them.")
    ] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", help="An option of Spark as key=value, e.g. spark.master=local[4]."),
    ] = None,
) -> None:
    """Run scripts of Flink's SQL on Spark, and wait for their jobs. Needs `penstock[sql]`."""
    from penstock.sql.language.parse import parse_script  # noqa: PLC0415 - lazy

    texts = [path.read_text(encoding="utf-8") for path in files]
    for text in texts:
        parse_script(text)
    # PySpark logs the message that the user sees a second time, as JSON with its traceback.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    spark, is_ours = _spark(conf or [])
    try:
        _run(spark, texts, explain=explain)
    finally:
        if is_ours:
            spark.stop()


def _spark(conf: list[str]) -> tuple[Any, bool]:
    """Return the session of Spark, and whether it was started here."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    is_ours = SparkSession.getActiveSession() is None
    builder: Any = SparkSession.builder
    for each in conf:
        key, separator, value = each.partition("=")
        if not separator:
            raise typer.BadParameter(f"expected key=value, got {each!r}", param_hint="--conf")
        builder = builder.config(key, value)
    if is_ours:
        builder = builder.appName("penstock sql").config("spark.ui.showConsoleProgress", "false")
    spark = builder.getOrCreate()
    if is_ours:
        spark.sparkContext.setLogLevel("ERROR")
    return spark, is_ours


def _run(spark: Any, texts: list[str], *, explain: bool) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy

    from penstock.sql import Session  # noqa: PLC0415 - lazy

    session = Session(spark, typer.echo)
    try:
        for text in texts:
            _run_script(session, text, explain=explain)
        _wait(session.jobs)
    except KeyboardInterrupt:
        typer.echo("Stopped. The jobs continue from their checkpoints when the script runs again.", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    except PySparkException as error:
        raise PenstockError(f"A job failed: {str(error).strip().splitlines()[0]}") from None
    finally:
        session.stop()


def _run_script(session: Session, text: str, *, explain: bool) -> None:
    from penstock.sql.language.parse import parse_script  # noqa: PLC0415 - lazy
    from penstock.sql.language.source import Source  # noqa: PLC0415 - lazy

    source = Source(text)
    for parsed in parse_script(text):
        _show(session.explained(parsed, source) if explain else session.run(parsed, source))


def _show(result: Result) -> None:
    if result.message:
        typer.echo(result.message)
    if result.frame is not None:
        _show_query(result.frame)
    elif result.columns:
        _table(result.columns, list(result.rows))


def _show_query(frame: Any) -> None:
    """Show the rows of a query; those of a stream as lines, until it ends."""
    from penstock.sql.run.job import Job  # noqa: PLC0415 - lazy

    if frame.isStreaming:

        def show(batch: Any, _: int) -> None:
            for row in batch.collect():
                typer.echo(f"+I[{', '.join(map(_cell, row))}]")

        Job("SELECT", [frame.writeStream.foreachBatch(show).start()]).wait()
        return
    rows = [tuple(map(_cell, row)) for row in frame.limit(_SHOWN_ROWS + 1).collect()]
    _table(tuple(frame.columns), rows[:_SHOWN_ROWS])
    if len(rows) > _SHOWN_ROWS:
        typer.echo(f"There are more rows. These are the first {_SHOWN_ROWS:,}.")


def _cell(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())


def _wait(jobs: list[Job]) -> None:
    """Wait for all jobs. If one fails, the others are stopped."""
    from penstock.sql.run.job import Job  # noqa: PLC0415 - lazy

    together = Job("all", [query for job in jobs for query in job.queries])
    shown_at = time.monotonic()
    while not together.wait(1.0):
        if time.monotonic() - shown_at >= _PROGRESS_S:
            shown_at = time.monotonic()
            for job in jobs:
                _progress(job)


def _progress(job: Job) -> None:
    for query in job.queries:
        last = query.lastProgress
        if last is not None:
            rate = float(last["processedRowsPerSecond"] or 0)
            took_ms = last["durationMs"].get("triggerExecution", 0)
            typer.echo(f"{job.name}: batch {last['batchId']}, {rate:,.0f} rows/s, {took_ms:,} ms", err=True)
