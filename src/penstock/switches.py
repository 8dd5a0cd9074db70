"""Environment variables that turn off what penstock changes in the processes of the user.

Runs on driver and executor. docs/ARCHITECTURE.md has the table of all changes. Set a variable for executors
with `spark.executorEnv.<name>`. Invariant: everything is on by default.
"""

from __future__ import annotations

import logging
import os
from enum import Enum

_log = logging.getLogger("penstock")
_ON = frozenset({"", "on", "true", "yes", "1"})
_OFF = frozenset({"off", "false", "no", "0"})


class Switch(Enum):
    """The environment variables. The text after each says what it turns off."""

    SHORT_ERRORS = "PENSTOCK_SHORT_ERRORS"
    """Errors of penstock reach the user without a traceback."""
    LOG_HANDLER = "PENSTOCK_LOG_HANDLER"
    """Spark's Python processes, which do not configure logging, show penstock's messages."""
    GC_FREEZE = "PENSTOCK_GC_FREEZE"
    """Workers do not search imported modules for garbage after each task."""
    JVM_SOCKET = "PENSTOCK_JVM_SOCKET"
    """A worker's connection to the JVM sends and acknowledges at once."""
    SIGTERM = "PENSTOCK_SIGTERM"
    """SIGTERM ends the process that plans a stream after its reader was stopped."""
    KAFKA_LOGS = "PENSTOCK_KAFKA_LOGS"
    """Log records of kafka-python about penstock's connections go to penstock's logger, without contents."""
    EXIT_HOOK = "PENSTOCK_EXIT_HOOK"
    """Shared connections are closed when the process ends."""
    ONE_THREAD = "PENSTOCK_ONE_THREAD"
    """An operator over a stream turns off adaptive execution of streams in its Spark session."""


def is_on(switch: Switch) -> bool:
    """Return whether a switch is on. An unknown text counts as on and is logged each time."""
    text = os.environ.get(switch.value, "").strip().lower()
    if text in _OFF:
        return False
    if text not in _ON:
        _log.warning(
            "The environment variable %s is '%s'; expected on or off. It counts as on.", switch.value, text
        )
    return True
