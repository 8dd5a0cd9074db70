"""Move kafka-python's log records from our IO threads to our logger and our level.

Runs wherever a `KafkaConnections` is open. Invariants: only records made on penstock's IO threads are
moved; the user's own kafka-python clients log as before. Bytes from the wire are never shown, only their
kind or size, because kafka-python logs whole requests at DEBUG, and these hold the password of SASL/PLAIN
and the user's records.

kafka-python logs each refused connection as an error, several times. Only the caller knows whether it
matters, and the caller gets an exception that says more.
"""

from __future__ import annotations

import logging
from typing import Any

from kafka.protocol.data_container import DataContainer

from penstock.switches import Switch, is_on

IO_THREAD_MARK = "penstock-io"
"""Part of the name of our IO threads."""

_log = logging.getLogger("penstock.client.kafka_python")
_MOVED = (
    "kafka.cluster",
    "kafka.net.connection",
    "kafka.net.inet",
    "kafka.net.manager",
    "kafka.net.sasl.oauth",
    "kafka.net.sasl.scram",
    "kafka.net.selector",
    "kafka.net.transport",
    "kafka.protocol",
    "kafka.protocol.parser",
)


class _ToOurLogger(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a record of our IO threads, after logging it at DEBUG under our logger."""
        if IO_THREAD_MARK not in (record.threadName or ""):
            return True
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: %s", record.name, _message(record), exc_info=record.exc_info)
        return False


def _message(record: logging.LogRecord) -> str:
    if not isinstance(record.args, tuple) or not record.args:
        return record.getMessage()
    return str(record.msg) % tuple(map(_without_content, record.args))


def _without_content(argument: Any) -> Any:
    if isinstance(argument, (bytes, bytearray, memoryview)):
        return f"{len(argument)} bytes"
    return type(argument).__name__ if isinstance(argument, DataContainer) else argument


_FILTER = _ToOurLogger()


def move_kafka_python_logs() -> None:
    """Install the filter, unless it is switched off. Calling it again does nothing."""
    if not is_on(Switch.KAFKA_LOGS):
        return
    for name in _MOVED:
        logging.getLogger(name).addFilter(_FILTER)
