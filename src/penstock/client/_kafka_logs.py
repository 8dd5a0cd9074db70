"""kafka-python's log records from our IO threads, under our logger and at our level.

Runs wherever a `KafkaConnections` is open. Invariant: only records made on penstock's IO threads are
moved; a kafka-python client of the user's own logs as it always did.

kafka-python logs each refused connection as an error, several times. Whether that is an error is known
only to whoever waits for the response, and he gets an exception that says more.
"""

from __future__ import annotations

import logging

IO_THREAD_MARK = "penstock-io"
"""Part of the name of our IO threads."""

_LOGGER = logging.getLogger("penstock.client.kafka_python")
_MOVED = (
    "kafka.cluster",
    "kafka.net.connection",
    "kafka.net.inet",
    "kafka.net.manager",
    "kafka.net.sasl.scram",
    "kafka.net.selector",
    "kafka.net.transport",
    "kafka.protocol",
    "kafka.protocol.parser",
)


class _ToOurLogger(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the record here if it is ours, after saying it at DEBUG under our logger."""
        if IO_THREAD_MARK not in (record.threadName or ""):
            return True
        if _LOGGER.isEnabledFor(logging.DEBUG):
            _LOGGER.debug("%s: %s", record.name, record.getMessage(), exc_info=record.exc_info)
        return False


_FILTER = _ToOurLogger()


def move_kafka_python_logs() -> None:
    """Install the filter; again is harmless."""
    for name in _MOVED:
        logging.getLogger(name).addFilter(_FILTER)
