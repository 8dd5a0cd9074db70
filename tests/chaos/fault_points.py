"""A data source that stops, dies or fails at one exact point of the exactly-once protocol.

Test jobs register it in place of the real one. It runs in all processes of the sink: planner and commit
processes of the driver, Python workers of the tasks. Production code only announces its steps
(`penstock.sink.exactly_once._probes`). The environment variable PENSTOCK_TEST_FAULT holds the fault as JSON
of `Fault`. It happens once, in the first process that reaches the step.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, cast

from pyspark import TaskContext
from pyspark.sql.types import StructType

from penstock.sink.exactly_once._probes import Step, observe
from penstock.spark._exactly_once import ExactlyOnceStreamWriter
from penstock.spark.datasource import PenstockDataSource

FORMAT = "penstock-faulty"
VARIABLE = "PENSTOCK_TEST_FAULT"
_HELD_AT_MOST_S = 600.0


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault and the step at which it happens.

    Attributes:
        step: name of the `Step`.
        action: hold (until `release()`, or a SIGKILL), kill (the process of the step), or raise.
        folder: where the processes leave files for each other about the fault.
        checkpoint: of the query. The fault waits until `after_batch_count` batches are in its commit log.
        after_batch_count: see `checkpoint`.
        spark_partition_id: the only task that gets the fault, for steps of tasks.
    """

    step: str
    action: str
    folder: str
    checkpoint: str
    after_batch_count: int = 1
    spark_partition_id: int | None = None

    def as_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}

    @property
    def has_struck(self) -> bool:
        return self._hit.exists()

    @property
    def _hit(self) -> Path:
        return Path(self.folder) / f"hit-{self.step}"

    @property
    def _release(self) -> Path:
        return Path(self.folder) / f"release-{self.step}"

    @property
    def process_id(self) -> int:
        """Wait for the fault. Return the id of its process."""
        return int(self._hit.read_text() or "0")

    def rearm(self) -> None:
        """Let the fault happen once more."""
        self._hit.unlink()

    def release(self) -> None:
        """Let the process that is held continue."""
        self._release.touch()

    def strike(self, step: Step) -> None:
        """The observer of steps."""
        if step.name != self.step or not self._is_meant() or not self._is_first():
            return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.action == "raise":
            raise RuntimeError(f"a fault at {self.step}")
        deadline_s = time.monotonic() + _HELD_AT_MOST_S
        while not self._release.exists() and time.monotonic() < deadline_s:
            threading.Event().wait(0.02)

    def _is_meant(self) -> bool:
        context = TaskContext.get()
        if self.spark_partition_id is not None and (
            context is None or context.partitionId() != self.spark_partition_id
        ):
            return False
        commits = Path(self.checkpoint) / "commits"
        logged = [file for file in commits.iterdir() if file.name.isdigit()] if commits.exists() else []
        return len(logged) >= self.after_batch_count

    def _is_first(self) -> bool:
        try:
            with self._hit.open("x") as hit:
                hit.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True


class FaultyStreamWriter(ExactlyOnceStreamWriter):
    """A process that unpickles this class imports this module, and so sets the observer."""


class FaultyDataSource(PenstockDataSource):
    """The real data source with another name and another class of writer."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyStreamWriter:  # Spark's name
        writer: Any = super().streamWriter(schema, overwrite)
        writer.__class__ = FaultyStreamWriter
        return cast("FaultyStreamWriter", writer)


if os.environ.get(VARIABLE):
    observe(Fault(**json.loads(os.environ[VARIABLE])).strike)
