"""Prepare a process of Spark at the start of each task: messages, garbage collection, SIGTERM.

Runs on the executor, and in the processes that plan and commit on the driver, which Spark uses again for
each micro-batch. Invariants: does nothing in any other process; logging that the user or Spark configured
stays unchanged.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from types import FrameType

from penstock.security.files import search_sent_files
from penstock.spark.process._jvm_socket import JvmConnection
from penstock.spark.process.kind import is_spark_process, is_spark_worker, is_stream_planner
from penstock.spark.process.sent_files import sparks_file_folders
from penstock.switches import Switch, is_on

LEVEL_VARIABLE = "PENSTOCK_LOG_LEVEL"
"""Names the lowest level that is shown: DEBUG, INFO, WARNING (the default) or ERROR."""

_LEVELS = {"DEBUG", "INFO", "WARNING", "ERROR"}
_SHORT_NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}  # as Spark's own lines have them


class _SparkLike(logging.Formatter):
    """Lines like those of Spark's JVM around them: `26/11/22 15:04:05 WARN penstock.source: text`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(short)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.short = _SHORT_NAMES.get(record.levelname, record.levelname)
        return super().format(record)


def show_messages() -> None:
    """Write penstock's messages to stderr, in Spark's Python processes only; a second call does nothing.

    These processes configure no logging. Python would print the text of warnings and errors only, without
    time and logger.
    """
    logger = logging.getLogger("penstock")
    if logger.handlers or not is_spark_process() or not is_on(Switch.LOG_HANDLER):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_SparkLike())
    # Asked each time: Spark, or the user's code in a worker, may configure logging later.
    handler.addFilter(lambda _: not logging.getLogger().handlers)
    logger.addHandler(handler)
    level = os.environ.get(LEVEL_VARIABLE, "").upper()
    if level in _LEVELS:
        logger.setLevel(level)


class WorkerObjects:
    """Decides when to freeze the objects of this process, so that garbage collection is fast.

    PySpark's daemon calls `gc.collect()` after every task of a process that it keeps. The collection visits
    each object of every imported module, which costs 30 to 50 ms of CPU (docs/performance.md). Frozen objects
    are not visited. They are never collected either, so not each task freezes: the second one does, and a
    later one only when more modules are imported than ever before. The daemon has collected just before.
    """

    def __init__(self) -> None:
        self._has_run = False
        self._most_modules = 0

    def begin_task(self, module_count: int) -> None:
        """Note that a task begins with that many imported modules; freeze if there are more than before."""
        if self._has_run and module_count > self._most_modules:
            gc.freeze()
            self._most_modules = module_count
        self._has_run = True


_OBJECTS = WorkerObjects()
_CONNECTION = JvmConnection()


def begin_planning() -> None:
    """Prepare a process that plans a read or a write; does nothing outside of PySpark's processes.

    The process that plans a stream imports much, and PySpark's objects are not visited meanwhile.
    """
    show_messages()
    if is_stream_planner() and is_on(Switch.GC_FREEZE):
        gc.freeze()


def begin_task() -> None:
    """Prepare this process at the start of a task; does nothing outside of PySpark's processes."""
    show_messages()
    if not is_spark_worker():
        return
    search_sent_files(sparks_file_folders())
    if is_on(Switch.JVM_SOCKET):
        _CONNECTION.hurry()
    if is_on(Switch.GC_FREEZE):
        _OBJECTS.begin_task(len(sys.modules))


def stop_in_order_on_sigterm() -> None:
    """Turn SIGTERM into SystemExit, in the process that plans a stream's batches.

    Spark ends that process with SIGTERM, often twice. A plain SIGTERM would not let Spark's runner reach its
    `finally: reader.stop()`, which commits the last offsets to the consumer group.
    """
    if is_stream_planner() and is_on(Switch.SIGTERM):
        signal.signal(signal.SIGTERM, _exit_once)


def _exit_once(signal_number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal_number)
