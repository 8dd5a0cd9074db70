"""Show penstock's log messages in Spark's Python processes, which configure no logging.

Runs on driver and executor, at the start of each task and of each call by Spark. Without this Python prints
only the text of messages of WARNING and above, without time and logger. Invariant: logging that the user or
Spark configured stays unchanged.
"""

from __future__ import annotations

import logging
import os

from penstock.spark.process.kind import is_spark_process
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
    """Write penstock's messages to stderr, in Spark's Python processes only; a second call does nothing."""
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
