"""Ask Spark's workers for their Python and its packages.

Runs on the driver; the function that the tasks call runs on the executors. Invariant: the tasks need nothing
of penstock, because it may be missing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.doctor.facts import PythonFacts
from penstock.doctor.gather import PACKAGES

_TASKS = 64


def worker_facts(spark: Any, task_count: int = _TASKS) -> tuple[PythonFacts, ...]:
    """Return one entry for each host and kind of Python that answered a small job.

    Args:
        spark: a session, classic or Connect.
        task_count: of the job; with more than there are cores, each executor is likely to run one.
    """
    import pyarrow as pa  # noqa: PLC0415 - lazy

    names = list(PACKAGES)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.metadata  # noqa: PLC0415 - on the executor
        import platform  # noqa: PLC0415
        import socket  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        for _ in batches:
            pass
        found = {}
        for name in names:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:  # noqa: PERF203 - each may be missing
                found[name] = ""
        row = {
            "host": [socket.gethostname()],
            "python": [platform.python_version()],
            "packages": [repr(found)],
        }
        yield pyarrow.RecordBatch.from_pydict(row)

    schema = "host STRING, python STRING, packages STRING"
    rows = spark.range(0, task_count, 1, task_count).mapInArrow(look, schema).distinct().collect()
    return tuple(_facts(row) for row in sorted(rows, key=str))


def _facts(row: Any) -> PythonFacts:
    import ast  # noqa: PLC0415 - lazy

    found: dict[str, str] = ast.literal_eval(row.packages)
    return PythonFacts(row.host, row.python, {name: text or None for name, text in found.items()})
