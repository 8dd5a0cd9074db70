"""How continuous queries stop. Without Spark and Kafka."""

from __future__ import annotations

from typing import Any

from penstock.spark.continuous import ContinuousQuery, stop_together
from penstock.sql.run.job import Job, stop_jobs_after_batch


class Stopping:
    """A supervisor that notes what it is asked for."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.error = None
        self.is_alive = True
        self._name, self._calls = name, calls

    def stop(self) -> None:
        self._calls.append(f"stop {self._name}")

    def join(self, _timeout_s: float | None) -> bool:
        self._calls.append(f"join {self._name}")
        self.is_alive = False
        return True


def queries(calls: list[str]) -> list[ContinuousQuery]:
    made: list[Any] = [Stopping(name, calls) for name in "ab"]
    return [ContinuousQuery(each, "id", "run", None) for each in made]


WANTED = ["stop a", "stop b", "join a", "join b"]
"""All are told to stop before one is waited for."""


def test_queries_stop_at_the_same_time() -> None:
    calls: list[str] = []
    stop_together(queries(calls))
    assert calls == WANTED


def test_the_queries_of_a_job_stop_at_the_same_time() -> None:
    calls: list[str] = []
    Job("j", queries(calls)).stop()
    assert calls[:4] == WANTED


def test_the_queries_of_a_job_stop_where_they_have_committed_at_the_same_time() -> None:
    calls: list[str] = []
    assert stop_jobs_after_batch([Job("j", queries(calls))])
    assert calls[:4] == WANTED
