"""Prepare a process of Spark at the start of each task.

Runs on the executor, and in the processes that plan and commit on the driver, which Spark uses again for
each micro-batch. Invariant: does nothing in any other process.
"""

from __future__ import annotations

import sys

from penstock.security.sent_files import search_sent_files
from penstock.spark.process._garbage import WorkerObjects
from penstock.spark.process._jvm_socket import JvmConnection
from penstock.spark.process._logs import show_messages
from penstock.spark.process.kind import is_spark_worker
from penstock.spark.process.sent_files import sparks_file_folders
from penstock.switches import Switch, is_on

_OBJECTS = WorkerObjects()
_CONNECTION = JvmConnection()


def begin_planning() -> None:
    """Prepare a process that plans a read or a write; does nothing outside of PySpark's processes."""
    show_messages()


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
