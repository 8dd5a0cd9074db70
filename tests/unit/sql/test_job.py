"""A job is watched and stopped as a whole; a session gives Spark's options back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import StringType, StructField

from penstock.errors import OptionError, SqlError
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.sql.run.job import Job
from penstock.sql.run.session import Session
from penstock.sql.run.settings import NEEDED
from penstock.types import TopicPartition
from tests.waiting import Patience


class Query:
    """A streaming query that runs until it is stopped or fails."""

    def __init__(self, *, stop_error: Exception | None = None) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self.lastProgress = None
        self._stop_error = stop_error

    def exception(self) -> Exception | None:
        return self.error

    def fail(self) -> None:
        self.error, self.isActive = RuntimeError("failed"), False

    def stop(self) -> None:
        self.isActive = False
        if self._stop_error is not None:
            raise self._stop_error


class BoundedQuery(Query):
    """A query whose batches are from these offsets to those; None before its first one."""

    def __init__(self, batches: list[tuple[Any, Any] | None]) -> None:
        self.batches, self.waits = batches, list[float]()
        super().__init__()

    @property
    def lastProgress(self) -> Any:
        batch = self.batches.pop(0)
        return batch and {"sources": [{"startOffset": batch[0], "endOffset": batch[1]}]}

    @lastProgress.setter
    def lastProgress(self, _: None) -> None: ...

    def awaitTermination(self, timeout: float | None = None) -> None:
        if timeout is not None:
            self.waits.append(timeout)


def wait_for(condition: Any) -> None:
    patience = Patience("the job is as wanted", 10)
    while not condition():
        patience.check()


def test_a_failure_stops_the_other_queries_though_nobody_waits() -> None:
    queries = [Query(), Query(), Query()]
    job = Job("j", queries)
    job.watch()
    queries[1].fail()
    wait_for(lambda: not job.is_active)
    job.stop()
    assert "penstock-sql-job" not in [thread.name for thread in threading.enumerate()]


def test_a_query_that_ends_well_leaves_the_others() -> None:
    queries = [Query(), Query()]
    job = Job("j", queries)
    job.watch()
    queries[0].isActive = False
    assert not job._is_over.wait(0.5)  # more than two looks of the watcher
    assert queries[1].isActive
    job.stop()


def test_a_bounded_job_is_looked_at_more_often_near_its_end() -> None:
    """The batch after the last records is empty and short, and ends the job."""
    stops = Markers(stops={TopicPartition("t", 0): 5})
    start, end = (SourceOffset({TopicPartition("t", 0): at}, stops).to_json() for at in (0, 5))
    query = BoundedQuery([None, (start, start), (start, end), (end, end)])
    Job("j", [query]).wait()
    assert query.waits == [0.2, 0.2, 0.02]


def test_stop_goes_on_after_an_error() -> None:
    queries = [Query(stop_error=RuntimeError("first")), Query(stop_error=RuntimeError("second")), Query()]
    with pytest.raises(RuntimeError, match="first"):
        Job("j", queries).stop()
    assert not any(query.isActive for query in queries)


CONF = {
    **{key: value for key, (value, _) in NEEDED.items()},
    "spark.sql.session.timeZone": "Asia/Tokyo",
}


def test_a_stop_is_tried_again_after_an_interrupted_call() -> None:
    query = MagicMock()
    query.stop.side_effect = [RuntimeError("Answer from Java side is empty"), None]
    Job("j", [query]).stop()
    assert query.stop.call_count == 2


@pytest.fixture
def session() -> Session:
    spark = MagicMock()
    conf = dict(CONF)
    spark.conf.get.side_effect = conf.get
    spark.conf.set.side_effect = conf.__setitem__
    spark.conf.unset.side_effect = conf.pop
    spark.values = conf
    return Session(spark)


@pytest.mark.parametrize("reset", ["RESET", "RESET 'table.local-time-zone'; RESET 'spark.x'"])
def test_reset_gives_spark_its_options_back(session: Session, reset: str) -> None:
    session.execute(
        "SET 'table.local-time-zone' = 'UTC'; SET 'table.local-time-zone' = 'Europe/Berlin'; SET 'spark.x' = '1'"
    )
    assert session.spark.values["spark.sql.session.timeZone"] == "Europe/Berlin"
    session.execute(reset)
    assert session.spark.values == CONF


def test_the_end_of_a_session_gives_spark_its_options_back(session: Session) -> None:
    session.execute("SET 'table.local-time-zone' = 'Europe/Berlin'; SET 'spark.x' = '1'")
    session.stop()
    assert session.spark.values == CONF


def test_a_session_ends_after_spark_has_ended(session: Session) -> None:
    session.execute("SET 'spark.x' = '1'")
    folder = Path(session._queries._temporary.new())
    session._views.named(MagicMock())
    spark = session.spark
    spark.sparkContext._jsc = None
    spark.conf.unset.side_effect = spark.catalog.dropTempView.side_effect = RuntimeError("stopped")
    session.stop()
    assert not folder.exists()


def test_an_option_that_the_program_changes_later_is_noticed(session: Session) -> None:
    session.execute("SHOW TABLES")
    session.spark.values["spark.sql.ansi.enabled"] = "false"
    for run in (session.execute, session.sql):
        with pytest.raises(OptionError, match=r"spark\.sql\.ansi\.enabled is false"):
            run("SELECT 1")


def test_changes_in_a_view_of_spark_are_not_taken_for_inserts(session: Session) -> None:
    session.spark.table.return_value = MagicMock(isStreaming=True, columns=["id", "row_kind"])
    with pytest.raises(
        SqlError, match=r"column 15: the view x of Spark is a stream with the column 'row_kind'"
    ):
        session.sql("SELECT * FROM x")


def test_set_shows_no_secret(session: Session) -> None:
    session.execute("SET 'spark.fs.account.key.x' = 'hunter2'; SET 'spark.url' = 'http://u:hunter2@h'")
    (shown,) = session.execute("SET")
    assert shown.rows == (("spark.fs.account.key.x", "******"), ("spark.url", "http://u:*******@h"))


def test_reset_of_an_unknown_option_is_refused(session: Session) -> None:
    with pytest.raises(SqlError, match=r"Did you mean 'pipeline\.name'"):
        session.execute("RESET 'pipeline.nam'")


def test_a_function_of_the_user_replaces_none(session: Session) -> None:
    session.execute("CREATE FUNCTION Shout AS 'tests.spark.sql_functions.shout' LANGUAGE PYTHON")
    name = session.spark.udf.register.call_args.args[0]
    assert name.endswith("_shout")
    assert name != "shout"
    session.spark.sql.return_value.schema.fields = [StructField("x", StringType())]
    session.sql("SELECT SHOUT(1)")
    assert session.spark.sql.call_args.args[0] == f"SELECT `{name}`(1) AS `EXPR$0`"
    for taken in ("upper", "Count", "CAST", "json_object"):
        with pytest.raises(SqlError, match="is a function of Flink"):
            session.execute(f"CREATE FUNCTION {taken} AS 'tests.spark.sql_functions.shout' LANGUAGE PYTHON")
    session.execute("DROP FUNCTION shout")
    with pytest.raises(SqlError, match="the function shout is not one of those that are served"):
        session.sql("SELECT shout(1)")


def test_a_session_stops_each_job_and_removes_its_views() -> None:
    spark = MagicMock()
    spark.conf.get.side_effect = CONF.get
    session = Session(spark)
    session._queries = MagicMock()
    good, bad = MagicMock(), MagicMock()
    bad.stop.side_effect = RuntimeError("no")
    session.jobs = [good, bad, good]
    with pytest.raises(RuntimeError, match="no"):
        session.stop()
    assert good.stop.call_count == 2
    session._queries.close.assert_called_once_with()


def test_an_error_of_clearing_up_does_not_hide_why_the_job_failed() -> None:
    query = Query(stop_error=ConnectionRefusedError("Java has ended"))
    query.awaitTermination = MagicMock(side_effect=ValueError("first"))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="first"):
        Job("job", [query]).wait()
    assert not query.isActive
