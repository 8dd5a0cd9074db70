"""kafka-python's event loop, but with a quicker look-up of sockets and fewer wake-ups.

Runs wherever a `KafkaConnections` is open. Invariant: every task that is given to `call_soon_threadsafe`
runs, because a thread that does not wake the loop has seen a wake-up after which the loop looks for tasks.
"""

from __future__ import annotations

import selectors
from typing import Any

from kafka.net.selector import NetworkSelector


class QuickSelector(selectors.DefaultSelector):
    """The system's selector. Python's own asks for the addresses of each socket that is not there."""

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """Return the key of a registered socket.

        Raises:
            KeyError: it is not registered.
            ValueError: it is closed, and not registered.
        """
        descriptor = fileobj.fileno()
        if descriptor < 0:
            return super().get_key(fileobj)
        found: selectors.SelectorKey | None = self._fd_to_key.get(descriptor)  # type: ignore[attr-defined]  # Python's own
        if found is None:
            raise KeyError(descriptor)
        return found


class EventLoop(NetworkSelector):  # type: ignore[misc]  # kafka-python is untyped
    """kafka-python's event loop. While it has not noticed that it was woken, it is not woken again."""

    DEFAULT_CONFIG = {**NetworkSelector.DEFAULT_CONFIG, "selector": QuickSelector}  # noqa: RUF012  # as there
    _is_woken = False

    def wakeup(self) -> None:
        """Let the loop look for new tasks."""
        if not self._is_woken:
            self._is_woken = True
            super().wakeup()

    def _process_events(self, event_list: Any) -> None:
        super()._process_events(event_list)
        # Before the loop looks for tasks: a task that it does not find there wakes it again. And after it has
        # read the wake-ups: one that it reads after this line would not count as noticed.
        self._is_woken = False
