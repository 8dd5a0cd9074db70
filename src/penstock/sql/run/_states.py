"""The folders of the states of a query's operators.

Runs on the driver. Invariant: each operator of a query has a folder of its own. The folder's name depends on
the operator's place in the query alone, so a query that runs again finds its states.
"""

from __future__ import annotations

import shutil
import tempfile

_BESIDE = "penstock-sql/state"


class States:
    """Gives the operators of one query their folders.

    Attributes:
        count: how many operators have one.
    """

    def __init__(self, base: str) -> None:
        self.count = 0
        self._base = base

    def next(self, operator: str) -> str:
        """Return the folder of the next operator."""
        self.count += 1
        return f"{self._base}/{self.count:03d}-{operator}"


def beside(checkpoint: str) -> States:
    """Return the folders of a query with a folder of checkpoints."""
    return States(f"{checkpoint}/{_BESIDE}")


class TemporaryFolders:
    """Folders for queries without a checkpoint. They are on this machine, and go with the session."""

    def __init__(self) -> None:
        self._made: list[str] = []

    def states(self) -> States:
        """Return the folders of one query."""
        self._made.append(tempfile.mkdtemp(prefix="penstock-sql-"))
        return States(self._made[-1])

    def remove(self) -> None:
        """Remove all of them."""
        for folder in self._made:
            shutil.rmtree(folder, ignore_errors=True)
        self._made.clear()
