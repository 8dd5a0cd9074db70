"""Commands that messages and reports tell people to run, complete with cluster, log and prefix.

Runs on driver, executor and in commands. Pure. Invariants: a command parses as it stands; a placeholder in
capitals stands only for what is unknown here; no command holds a secret.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ByHand:
    """The options that a command by hand needs for the same cluster and the same decision log.

    Attributes:
        servers: host:port,host:port; empty if unknown.
        has_login: the cluster needs TLS or a login, so the command needs a file of client properties.
        log_topic: the decision log; None if it has the default name.
    """

    servers: str = ""
    has_login: bool = False
    log_topic: str | None = None

    def of_prefix(self, action: str, prefix: str, *options: str) -> str:
        """Return a command of `penstock transactions` on a prefix."""
        log = () if self.log_topic is None else ("--log-topic", self.log_topic)
        return shlex.join(
            ("penstock", "transactions", action, "--prefix", prefix, *self._where, *log, *options)
        )

    def abort_foreign(self, transactional_id: str) -> str:
        """Return the command that aborts the open transaction of a transactional id of another program."""
        what = ("--transactional-id", transactional_id)
        return shlex.join(("penstock", "transactions", "abort", *what, *self._where, "--yes"))

    def abort_hanging(self, topic: str, partition: int, start_offset: int) -> str:
        """Return the command of Kafka that ends a transaction which no coordinator knows."""
        what = ("--topic", topic, "--partition", str(partition), "--start-offset", str(start_offset))
        return shlex.join(("kafka-transactions.sh", *self._where, "abort", *what))

    @property
    def _where(self) -> tuple[str, ...]:
        login = ("--command-config", "FILE") if self.has_login else ()
        return ("--bootstrap-server", self.servers or "HOST:PORT", *login)
