"""SHOW JOBS, DESCRIBE JOB and STOP JOB, and what the shell does at the end. Over fake queries."""

from __future__ import annotations

import contextlib
import threading
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]  # it has no types

from penstock.errors import PenstockError, SqlError, UnknownTopicOrPartitionError
from penstock.source._subscriber import Discovery
from penstock.sql.language.statements import Options
from penstock.sql.plan.nodes import Source as ReadSource
from penstock.sql.run import _jobs as jobs
from penstock.sql.run import job as module
from penstock.sql.run._topics import TablesOfTopics
from penstock.sql.run.job import Job, Part, Result
from penstock.sql.shell.run import Shell, StoppedError, failures, progress
from penstock.sql.shell.select import Output
from tests.unit.sql.planning import catalog_of

WAIT_S = 10


class Failure(Exception):
    """An error as PySpark raises it."""


Failure.__module__ = "pyspark.errors.exceptions.captured"


def query(*, active: bool = True, error: Exception | None = None, batch: int = 3) -> MagicMock:
    last = {
        "sources": [],
        "batchId": batch,
        "numInputRows": 1 if batch == 3 else 2000,
        "processedRowsPerSecond": 8.0,
        "durationMs": {"triggerExecution": 1234},
    }
    found = MagicMock(isActive=active, lastProgress=last)
    found.exception.return_value = error
    return found


def failed() -> MagicMock:
    text = "[STREAM_FAILED] ...\npenstock.errors.OptionError: 'a' is not known. Nothing was read.\n\n\tat org.x.Y(Z)"
    return query(active=False, error=Failure(text))


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Queries that were stopped after their batch."""
    found: list[Any] = []

    def stop(queries: list[Any], timeout_ms: int | None) -> bool:
        for each in queries:
            each.isActive = False
        found.extend(queries)
        return timeout_ms != 0

    monkeypatch.setattr(module, "stop_all_after_batch", stop)
    return found


def test_all_jobs_are_shown_with_state_start_and_error() -> None:
    listed = [Job("a", [query()]), Job("b", [failed(), query(active=False)]), Job("c", [query(active=False)])]
    found = jobs.shown(listed)
    assert found.columns == ("job id", "job name", "status", "start time", "error")
    assert [(row[1], row[2], row[4]) for row in found.rows] == [
        ("a", "RUNNING", ""),
        ("b", "FAILED", "'a' is not known. Nothing was read."),
        ("c", "FINISHED", ""),
    ]
    assert len({row[0] for row in found.rows}) == 3
    assert all(len(row[0]) == 32 and row[3].endswith("Z") for row in found.rows)


def test_a_stopped_job_is_canceled_and_says_where_its_checkpoints_are(stopped: list[Any]) -> None:
    parts = [Part("t", "insert-into_t", "/c/insert-into_t"), Part("p", "insert-into_p")]
    job = Job("j", [query(), query()], parts)
    found = jobs.stopped(jobs.found([job], job.id), with_savepoint=True)
    assert found.message.startswith("The job 'j' has stopped between two batches.")
    assert found.rows == (("/c/insert-into_t",), ("",))
    assert stopped == job.queries
    assert job.status == "CANCELED"
    with pytest.raises(ValueError, match="does not run: it is CANCELED"):
        jobs.stopped(job, with_savepoint=False)


def test_a_job_that_fails_before_it_can_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("j", [query()])

    def fail(*_: Any) -> None:
        job.queries[:] = [failed()]
        raise Failure

    monkeypatch.setattr(module, "stop_all_after_batch", fail)
    with pytest.raises(PenstockError, match="'j' failed before it could stop: 'a' is not known"):
        jobs.stopped(job, with_savepoint=False)


@pytest.mark.parametrize("outcome", [False, KeyboardInterrupt, "connect"])
def test_a_job_that_has_not_stopped_is_still_watched(monkeypatch: pytest.MonkeyPatch, outcome: Any) -> None:
    queries = [query(), query()]
    queries[1].stop.side_effect = lambda: setattr(queries[1], "isActive", False)
    told = threading.Event()
    job = Job("j", queries)
    job.watch(lambda _: told.set())
    if outcome == "connect":
        job.queries.append(of_connect())
        with pytest.raises(PenstockError, match="The query still runs"):
            job.stop_after_batch()
        assert not job.is_stopping
        job.queries.pop()
    else:
        monkeypatch.setattr(module, "stop_all_after_batch", MagicMock(side_effect=[outcome]))
        with contextlib.suppress(KeyboardInterrupt):
            assert not job.stop_after_batch(1)
        assert job.is_stopping
    queries[0].exception.return_value, queries[0].isActive = Failure("lost"), False
    assert told.wait(WAIT_S), "the failure is noticed"
    queries[1].stop.assert_called_once_with()
    job.stop()
    assert job.status == "FAILED"


def of_connect() -> Any:
    return type("Query", (), {"__module__": "pyspark.sql.connect.x", "isActive": True})()


def test_a_job_of_spark_connect_is_left_as_it_is() -> None:
    with pytest.raises(ValueError, match="It still runs"):
        jobs.stopped(Job("j", [of_connect()]), with_savepoint=False)
    notes: list[str] = []
    shell = Shell(MagicMock(jobs=[Job("j", [of_connect()])]), Output(print), notes.append)
    assert not shell.stop_after_batch(1)
    assert notes == ["Stopping j at once, because Spark Connect cannot stop after a batch."]


def test_jobs_are_found_by_id_or_name() -> None:
    old, new = Job("a", [query(active=False)]), Job("a", [query()])
    assert jobs.found([new, old], "a") is new
    assert jobs.found([new, old], old.id) is old
    with pytest.raises(ValueError, match="there is no job 'b' in this session"):
        jobs.found([old], "b")
    with pytest.raises(ValueError, match="2 jobs named 'a' run"):
        jobs.found([Job("a", [query()]), new], "a")


def test_each_insert_is_described_and_reports_under_its_own_name() -> None:
    parts = [Part("t", "insert-into_t", "s3://key:secret@b/t"), Part("u", "insert-into_u")]
    job = Job("insert-into_t_u", [query(), failed()], parts)
    assert jobs.described(job).rows == (
        ("t", "3", "s3://b/t", ""),
        ("u", "", "", "'a' is not known. Nothing was read."),
    )
    job.queries[1] = query(batch=7)
    assert list(progress(job)) == [
        "insert-into_t: batch 3, 1 row, 8 rows/s, 1,234 ms",
        "insert-into_u: batch 7, 2,000 rows, 8 rows/s, 1,234 ms",
    ]


def test_the_shell_stops_all_jobs_at_the_same_time(stopped: list[Any]) -> None:
    listed, notes = [Job("a", [query()]), Job("b", [query(active=False)]), Job("c", [query()])], list[str]()
    shell = Shell(MagicMock(jobs=listed), Output(print), notes.append)
    assert not shell.stop_after_batch(0)
    assert stopped == [listed[0].queries[0], listed[2].queries[0]]
    assert notes == [
        "Stopping a, c after the batch; another Ctrl-C stops at once.",
        "The batch did not end within 0 s, so it is cut off.",
    ]
    assert shell.stop_after_batch(5), "nothing runs any more"


def missing(*topics: str) -> str:
    """Return the message of a read that does not find its topics."""
    with pytest.raises(UnknownTopicOrPartitionError) as found:
        Discovery(frozenset(), tuple(f"topic {each!r}" for each in topics)).raise_if_missing(MagicMock())
    return found.value.message


def test_a_topic_that_is_missing_is_told_with_the_tables_that_read_it() -> None:
    of = "(id INT) WITH ('connector' = 'kafka', 'format' = 'raw', 'properties.bootstrap.servers' = 'b:1', 'topic' = '{}')"
    made = [
        f"CREATE TABLE {name} {of.format(topic)}" for name, topic in (("a", "x"), ("b", "y;z"), ("c", "y"))
    ]
    catalog = catalog_of(";\n".join([*made, "CREATE VIEW v AS SELECT id FROM a"]))
    topics, source = TablesOfTopics(), ReadSource(None, "", is_stream=True)
    names: tuple[tuple[tuple[str, ...], Options], ...] = (
        (("a",), (("topic", "w"),)), (("b",), ()), (("default_database", "c"), ()), (("v",), ()), (("gone",), ()),
    )  # fmt: skip
    topics.add(dict.fromkeys(names, source), catalog)
    told = {topic: topics.named(missing(topic)).removeprefix(missing(topic)) for topic in "xyzw"}
    b, c = "the table 'b' (CREATE TABLE in line 2)", "the table 'default_database.c' (CREATE TABLE in line 3)"
    assert told == {
        "x": "",
        "y": f" Topic 'y' is read by {b} and {c}.",
        "z": f" Topic 'z' is read by {b}.",
        "w": " Topic 'w' is read by the table 'a' (CREATE TABLE in line 1).",
    }
    assert topics.named("Offset 7 of topic 'y' is not JSON.") == "Offset 7 of topic 'y' is not JSON."


def test_a_failure_of_a_job_is_told_with_what_the_session_knows() -> None:
    def explain(text: str) -> str:
        return f"{text} It is table t."

    error = Failure(f"penstock.errors.UnknownTopicOrPartitionError: {missing('x')}")
    job = Job("j", [query(active=False, error=error)], explain=explain)
    assert job.error == f"{missing('x')} It is table t."
    shell = Shell(MagicMock(topics=MagicMock(named=explain)), Output(print), print)
    shell.session.run.side_effect = error  # type: ignore[attr-defined]  # a mock
    with pytest.raises(StoppedError, match=r"A job failed: Not on .* It is table t\.") as found, failures():
        shell.run("SHOW JOBS")
    assert found.value.status == 1
    one = query()
    one.awaitTermination.side_effect = error
    with pytest.raises(StoppedError, match=r"It is table t\.") as found, failures():
        shell.wait([Job("a", [one])])
    assert found.value.status == 1


def test_only_an_insert_with_a_checkpoint_continues() -> None:
    session = MagicMock(checkpoints=[])
    shell = Shell(session, Output(print), print)
    assert shell.stopped(is_cut_off=True) == shell.stopped(is_cut_off=False) == "Stopped."
    session.checkpoints.append("/checkpoint")
    continues = "Stopped. Each INSERT continues from its checkpoint when the script runs again."
    assert shell.stopped(is_cut_off=False) == continues
    assert shell.stopped(is_cut_off=True).startswith(f"{continues} A batch may be cut off")
    session.checkpoints.clear()
    session.jobs = [Job("t", [query()], [Part("t", "t", is_continuous=True)])]
    assert shell.stopped(is_cut_off=True) == (
        "Stopped. An INSERT without micro-batches continues where it had committed."
    )


@pytest.mark.parametrize("error", [SqlError("wrong"), KeyboardInterrupt()])
def test_statements_behind_one_that_fails_are_counted(error: BaseException) -> None:
    notes: list[str] = []
    shell = Shell(MagicMock(), Output(print), notes.append)
    shell.session.run.side_effect = [Result("done"), error]  # type: ignore[attr-defined]  # a mock
    with pytest.raises(type(error)):
        shell.run("SHOW JOBS; SHOW JOBS; SHOW JOBS; SHOW JOBS;")
    assert notes == ["done", "Statement 2 of 4 did not end well: 2 statements behind it were not run."]
    shell.session.run.side_effect = [error, Result("done"), error]  # type: ignore[attr-defined]  # a mock
    with pytest.raises(type(error)):
        shell.run("SHOW JOBS; SHOW JOBS;")
    assert notes[2:] == ["Statement 1 of 2 did not end well: 1 statement behind it was not run."]
    with pytest.raises(type(error)):
        shell.run("SHOW JOBS; SHOW JOBS;")
    assert notes[3:] == ["done"]


def test_ctrl_c_leaves_the_jobs_to_the_caller_of_wait() -> None:
    one = query()
    one.awaitTermination.side_effect = KeyboardInterrupt
    shell = Shell(MagicMock(), Output(print), print)
    with pytest.raises(KeyboardInterrupt):
        shell.wait([Job("a", [one])])
    one.stop.assert_not_called()
    with pytest.raises(KeyboardInterrupt):
        Job("a", [one]).wait()
    one.stop.assert_called_once_with()


@pytest.mark.parametrize("failed", [1, 3, 9])
def test_ctrl_c_stays_ctrl_c_when_java_does_not_answer_the_stop(failed: int) -> None:
    """Seen in one of some hundred runs: Java closed two connections after the signal, not one."""
    one = query()
    one.awaitTermination.side_effect = KeyboardInterrupt
    one.stop.side_effect = [*[Py4JNetworkError("Answer from Java side is empty")] * failed, None]
    with pytest.raises(KeyboardInterrupt):
        Job("a", [one]).wait()
    assert one.stop.call_count == min(failed + 1, 6)


def test_a_job_is_stopped_also_if_java_does_not_say_whether_it_runs() -> None:
    class Asked(MagicMock):
        @property
        def isActive(self) -> bool:
            raise Py4JNetworkError("Answer from Java side is empty")

    one = Asked()
    Job("a", [one]).stop()
    one.stop.assert_called_once_with()


def test_a_failure_of_one_query_is_told() -> None:
    told: list[Job] = []
    job = Job("j", [failed()])
    job.watch(told.append)
    assert job._watcher is not None
    job._watcher.join()
    assert told == [job]
