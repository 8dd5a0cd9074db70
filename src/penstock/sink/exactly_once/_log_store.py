"""The topic of a decision log, as the log needs it: the seam between the protocol's logic and its I/O.

Runs on the driver. `decision_log_topic` has the real one, the tests a scripted one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.client.transactions.append import ProducerSession
from penstock.sink.exactly_once._log_records import LogRecord


class LogStore(Protocol):
    """One topic."""

    @property
    def topic(self) -> str:
        """Its name."""

    def incarnation(self, *, is_expected: bool) -> str | None:
        """What changes when the topic is deleted and created again; None when there is no topic.

        With `is_expected` None is said only after looking twice.
        """

    def create(self) -> None:
        """Make the topic."""

    def check_settings(self) -> None:
        """Raise DecisionLogError when the topic may forget decisions."""

    def stable_end(self, *, waits: bool) -> int:
        """The offset up to which all transactions have ended; with `waits`, once that is the log's end."""

    def read(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        """The committed records of the range; DecisionLogError when the log does not go back so far."""

    def fits(self, key: bytes, value: bytes) -> bool:
        """Whether the topic takes a record of this size; a refused one would cost its session."""

    def append(self, session: ProducerSession, key: bytes, value: bytes | None) -> ProducerSession:
        """Write and commit one record."""

    def append_plainly(self, key: bytes, value: bytes | None) -> None:
        """Write one record outside of any transaction."""

    def other(self, topic: str) -> LogStore:
        """Another topic of the same cluster."""

    def mentions(self, text: bytes) -> Iterator[tuple[str, bytes]]:
        """The keys that contain the text, in this and all other decision logs, with their topic."""
