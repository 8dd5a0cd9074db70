"""The operations that a decision log needs of its topic: a protocol that separates logic from I/O.

Runs on the driver. `log_topic` implements it for Kafka, tests script it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.client.transactions.append import KeyValue, ProducerSession
from penstock.sink.exactly_once._log_records import LogRecord


class LogStore(Protocol):
    """One topic."""

    @property
    def topic(self) -> str:
        """Return its name."""

    def incarnation(self, *, is_expected: bool) -> str | None:
        """Return an id that changes when the topic is deleted and created again; None if there is no topic.

        With `is_expected` the answer None comes only after a second look.
        """

    def create(self) -> None:
        """Create the topic."""

    def check_settings(self) -> None:
        """Raise DecisionLogError if the topic may forget decisions."""

    def stable_end(self, *, waits: bool) -> int:
        """Return the offset up to which all transactions have ended; with `waits`, wait for the log's end."""

    def read(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        """Return the committed records of the range; DecisionLogError if the log begins later."""

    def fits(self, key: bytes, value: bytes) -> bool:
        """Return whether the topic takes a record of this size. A refused record would end the session."""

    def append(self, session: ProducerSession, *records: KeyValue) -> ProducerSession:
        """Write and commit records, all or none."""

    def append_plainly(self, key: bytes, value: bytes | None) -> None:
        """Write one record outside of any transaction."""

    def other(self, topic: str) -> LogStore:
        """Return another topic of the same cluster."""

    def mentions(self, text: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the keys that contain the text, in this and all other decision logs, with their topic.

        DecisionLogError if a log cannot be read now. Logs that this user may not read are left out.
        """
