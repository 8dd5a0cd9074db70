"""Apply batch 1 to a table of PostgreSQL, and die before or after the commit.

Run as `python -m tests.kafka.dying_materialize WHERE CONNECTION TABLE`, in a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Any

from penstock.targets import SqlTable
from tests.unit.targets.changes import Change, batch

BEFORE, AFTER = "before-commit", "after-commit"
CHANGES: list[Change] = [(1, "a", "-U"), (1, "z", "+U"), (2, "b", "-D"), (3, "c", "+I")]


class Dying:
    """A connection whose process dies at its commit. The rest is psycopg's."""

    def __init__(self, connection: Any, where: str) -> None:
        self._connection = connection
        self._where = where

    def commit(self) -> None:
        if self._where == AFTER:
            self._connection.commit()
        os.kill(os.getpid(), signal.SIGKILL)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def main(where: str, connection: str, table: str) -> None:
    psycopg = import_module("psycopg")  # the tests are skipped without it
    SqlTable(table, lambda: Dying(psycopg.connect(connection), where)).apply(batch(1, CHANGES))


if __name__ == "__main__":
    main(*sys.argv[1:])
