"""What the doctor sends to Spark's workers runs there without penstock."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark.cloudpickle import dumps

from penstock.doctor.facts import SparkFacts
from penstock.doctor.gather import python_facts, spark_facts, worker_facts
from tests.waiting import PATIENCE_S

_WORKER = """
import pickle, sys
sys.modules["penstock"] = None  # an import of it fails
look = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([row for batch in look(iter([])) for row in batch.to_pylist()]))
"""


class OneWorker:
    """A session whose tasks run in one process that has no penstock."""

    def range(self, *_: int) -> OneWorker:
        return self

    def mapInArrow(self, look: Callable[..., Any], schema: str) -> OneWorker:
        assert schema == "host STRING, python STRING, packages STRING"
        run = [sys.executable, "-c", _WORKER]
        sent = dumps(look)  # type: ignore[no-untyped-call]  # PySpark ships no types for it
        done = subprocess.run(run, input=sent, capture_output=True, check=True, timeout=PATIENCE_S)
        self.rows = [SimpleNamespace(**row) for row in pickle.loads(done.stdout)]  # noqa: S301 - our own child
        return self

    def distinct(self) -> OneWorker:
        return self

    def collect(self) -> list[SimpleNamespace]:
        return self.rows


def test_a_worker_without_penstock_can_be_asked() -> None:
    (worker,) = worker_facts(OneWorker())
    assert worker == python_facts(worker.where)


def test_this_pyspark_has_all_that_penstock_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    found = spark_facts()
    assert found == SparkFacts(f"{pyspark.__version__} in {Path(pyspark.__file__).parent}")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert f"{sys.executable} has none" in spark_facts().error
