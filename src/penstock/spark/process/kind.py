"""Which of Spark's Python processes this is.

Runs on driver and executor. Invariant: where nothing is known, the answer is no.
"""

from __future__ import annotations

import sys

_SPARKS = "pyspark."
_DAEMON = "pyspark.daemon"
_STREAM_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
_REPEATING = ("pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.python_streaming_sink_runner")
"""What runs beside the process of a stream that plans its batches, and the one that prepares its writes."""


def _main_module() -> str:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else str(spec.name)


def is_spark_process() -> bool:
    """Whether PySpark started this process to run Python code for the JVM."""
    return _main_module().startswith(_SPARKS)


def is_spark_worker() -> bool:
    """Whether this process was forked by PySpark's daemon, which collects between tasks."""
    return _main_module() == _DAEMON


def is_stream_planner() -> bool:
    """Whether this process plans the batches of one stream, and does nothing else."""
    return _main_module() == _STREAM_PLANNER


def repeats_parsing() -> bool:
    """Whether this process parses options of a stream that another process of the query parses too.

    A process that PySpark's daemon forks loads the module of what it is to do. The one that plans a stream's
    batches loads some of them too, and is not forked. Where nothing is known: no.
    """
    return is_spark_worker() and any(name in sys.modules for name in _REPEATING)
