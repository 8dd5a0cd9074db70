"""Find out which of Spark's Python processes this is.

Runs on driver and executor. Invariant: an unknown process counts as none of them.
"""

from __future__ import annotations

import sys

_SPARKS = "pyspark."
_DAEMON = "pyspark.daemon"
_STREAM_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
_REPEATING = ("pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.python_streaming_sink_runner")
"""The modules of the processes that plan a stream's batches and prepare its writes."""


def _main_module() -> str:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else str(spec.name)


def is_spark_process() -> bool:
    """Return whether PySpark started this process to run Python code for the JVM."""
    return _main_module().startswith(_SPARKS)


def is_spark_worker() -> bool:
    """Return whether PySpark's daemon, which collects garbage between tasks, forked this process."""
    return _main_module() == _DAEMON


def is_stream_planner() -> bool:
    """Return whether this process only plans the batches of one stream."""
    return _main_module() == _STREAM_PLANNER


def repeats_parsing() -> bool:
    """Return whether this process parses options of a stream that another process of the query parses too.

    A process that PySpark's daemon forks loads the module of its work. The process that plans a stream's
    batches loads some of these modules too, but is not forked. False if it is unknown.
    """
    return is_spark_worker() and any(name in sys.modules for name in _REPEATING)
