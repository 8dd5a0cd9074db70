"""What the commits of a table say of its last batch, for tables that Spark changes by MERGE.

Pure; runs on the driver. A MERGE cannot be bound to the version of the table that penstock has judged, so
another writer may commit between both. Each commit of penstock therefore names the version that was judged.
Invariant: a batch follows the marker only if each commit after the last batch, and each one between the last
batch and the version that it was judged on, leaves the rows as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import MaterializeError
from penstock.targets.marker import Marker

QUERY, BATCH, DIGEST, CHECKED = "penstock.query", "penstock.batch", "penstock.digest", "penstock.checked"
"""What a commit of penstock says: its marker, and the version that was judged before."""
NO_VERSION = -1
"""The version that was judged, if the table had none."""


@dataclass(frozen=True)
class Commit:
    """A version of a table.

    Attributes:
        version: its number: a version of Delta's log, or the id of a snapshot of Iceberg.
        before: the number of the one that it follows; `NO_VERSION` for the first.
        operation: what was done.
        keeps_rows: whether that changes no row.
        said: what penstock wrote into it; empty in a commit of another writer.
    """

    version: int
    before: int
    operation: str
    keeps_rows: bool
    said: Mapping[str, str]

    @property
    def is_ours(self) -> bool:
        """Whether penstock has made it."""
        return BATCH in self.said

    @property
    def marker(self) -> Marker:
        """The marker of a commit of penstock."""
        return Marker(self.said[QUERY], int(self.said[BATCH]), self.said[DIGEST])


def said_by(marker: Marker, checked: int) -> dict[str, str]:
    """Return what the commit of a batch says.

    Args:
        marker: of the batch.
        checked: the version that was judged.
    """
    return {
        QUERY: marker.query_id,
        BATCH: str(marker.batch_id),
        DIGEST: marker.digest,
        CHECKED: str(checked),
    }


def said_in(metadata: str | None) -> dict[str, str]:
    """Return what penstock wrote into the metadata of a commit, which may be a text of another writer."""
    try:
        found = json.loads(metadata or "{}")
    except ValueError:
        return {}
    names = (QUERY, BATCH, DIGEST, CHECKED)
    is_ours = isinstance(found, dict) and all(isinstance(found.get(name), str) for name in names)
    return {name: found[name] for name in names} if is_ours else {}


class Log:
    """The commits of one version of a table. No more of them are read than are needed.

    Args:
        target: names the table in messages.
        newest_first: the commits that the log still has.
    """

    def __init__(self, target: str, newest_first: Iterable[Commit]) -> None:
        self._target = target
        self._unread = iter(newest_first)
        self._read: list[Commit] = []

    def _commits(self) -> Iterator[Commit]:
        yield from list(self._read)
        for each in self._unread:
            self._read.append(each)
            yield each

    @property
    def version(self) -> int:
        """The newest version."""
        return next((one.version for one in self._commits()), NO_VERSION)

    def last(self) -> Marker | None:
        """Return the marker of the last commit of penstock that the log has, whatever came after it."""
        return next((one.marker for one in self._commits() if one.is_ours), None)

    def check(self) -> None:
        """Raise MaterializeError if another writer may have changed rows since the last batch.

        The commits after the last batch, and those under it that came after it was judged.
        """
        commits, later = self._commits(), list[Commit]()
        ours = None
        for each in commits:
            if each.is_ours:
                ours = each
                break
            later.append(each)
        if ours is None:
            raise _no_commit(self._target)
        for each in reversed(later):
            if not each.keeps_rows:
                raise _changed(each, ours, self._target, "after it")
        self._check_under(ours, commits)

    def _check_under(self, ours: Commit, older: Iterator[Commit]) -> None:
        # A library repeats a commit of ours that has lost to another one, and does not ask penstock. It also
        # reads the newest version only when MERGE begins. Both leave commits between `checked` and ours.
        checked, expected = int(ours.said[CHECKED]), ours.before
        while expected != checked:
            found: Any = next(older, None)
            if found is None or found.version != expected:
                raise _no_commit(self._target, ours)
            if not found.keeps_rows:
                raise _changed(found, ours, self._target, "after it was judged and before it was committed")
            expected = found.before


def _changed(other: Commit, ours: Commit, target: str, when: str) -> MaterializeError:
    batch_id = ours.marker.batch_id
    last = f"batch {batch_id}" if batch_id >= 0 else "the table was taken by its query"
    return MaterializeError(
        f"Another writer has committed the operation {other.operation} to {target} (version "
        f"{other.version}). The last commit of penstock is version {ours.version} ({last}), and the other "
        f"one came {when}. It may have changed rows, and the marker does not tell. Nothing more was written. "
        "Stop the query. Build the table again with a new checkpoint, or copy the whole table back, with its "
        "log, and the checkpoint and the state from the same time. RESTORE of Delta does not help: it is one "
        "more commit of another writer.",
        operation=other.operation,
        batch_id=batch_id,
    )


def _no_commit(target: str, ours: Commit | None = None) -> MaterializeError:
    what = "of its last batch" if ours is None else f"that came under batch {ours.marker.batch_id}"
    return MaterializeError(
        f"The log of {target} does not have the commit {what} any more, so penstock cannot tell whether "
        "other writers have changed rows. Expired snapshots or a cleaned log are the usual cause, after a "
        "pause that was longer than they are kept. Nothing more was written. Start with a new table and a "
        "new checkpoint, and keep snapshots and log longer than the longest pause between two batches."
    )
