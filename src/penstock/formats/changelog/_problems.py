"""The messages of one batch that cannot be decoded, with the first reason of each.

Runs on executors. Invariant: Python objects are made for bad messages only.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc


class Problems:
    """Collects the reasons why messages are bad."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}
        self._lasting: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def add(self, mask: pa.Array, reason: str | Callable[[int], str], *, is_lasting: bool = False) -> None:
        """Note a reason for the messages where a mask is true. The first reason of a message counts.

        Args:
            mask: One boolean for each message; null means false.
            reason: The reason, or a function from the index of the message to its reason.
            is_lasting: Whether `ignore-parse-errors` must not drop these messages.
        """
        messages = pc.indices_nonzero(mask)
        self.add_at(messages, reason)
        if is_lasting:
            self._lasting.update(messages.to_pylist())

    def add_at(self, messages: pa.Array, reason: str | Callable[[int], str]) -> None:
        for message in messages.to_pylist():
            if message not in self._reasons:
                self._reasons[message] = reason if isinstance(reason, str) else reason(message)

    def messages(self) -> pa.Array:
        """Return the indices of the bad messages (int64), ascending."""
        return pa.array(sorted(self._reasons), pa.int64())

    def lasting(self) -> pa.Array:
        """Return the indices of the messages that no option drops (int64), ascending."""
        return pa.array(sorted(self._lasting), pa.int64())

    def reason(self, message: int) -> str:
        return self._reasons[message]
