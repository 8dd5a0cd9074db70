"""What other writers have committed to a Delta table since its last batch.

Runs on the driver. Invariant: a batch is applied only if each commit since the last batch is of a kind that
leaves the rows as they are. A kind that is not known counts as one that changes rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.errors import MaterializeError

KEEP_ROWS = frozenset(
    {
        "ADD COLUMN",
        "ADD COLUMNS",
        "ADD CONSTRAINT",
        "ADD FEATURE",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "CLUSTER BY",
        "COMPUTE STATS",
        "DOMAIN METADATA CLEANUP",
        "DROP CONSTRAINT",
        "DROP FEATURE",
        "OPTIMIZE",
        "REORG",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPDATE COLUMN METADATA",
        "UPDATE FIELD METADATA",
        "UPDATE TABLE METADATA",
        "UPGRADE PROTOCOL",
        "VACUUM END",
        "VACUUM START",
    }
)
"""Operations of Delta that change no row."""
_FIRST_LIMIT, _GROWTH = 1, 16


def check_commits(table: Any, key: str, batch_id: int, target: str) -> None:
    """Raise MaterializeError unless all commits since the last batch leave the rows as they are.

    Args:
        table: of the package `deltalake`.
        key: of a commit's metadata; penstock's own commits have it.
        batch_id: of the last batch.
        target: names the table in messages.
    """
    for commit in newest_first(table):
        if key in commit:
            return
        operation = commit.get("operation")
        if operation not in KEEP_ROWS:
            raise MaterializeError(
                f"Another writer has committed the operation {operation} to {target} after batch {batch_id}. "
                "It may have changed rows, and a RESTORE takes the rows back but not the marker of penstock. "
                "Nothing was written. Stop the query, and copy the whole folder of the table back (with "
                "_delta_log), with checkpoint and state of the same time. Or start with a new table and a "
                "new checkpoint.",
                batch_id=batch_id,
                operation=operation,
            )
    raise MaterializeError(
        f"The log of {target} does not have the commit of batch {batch_id} any more, so penstock cannot tell "
        "whether other writers have changed rows since. Nothing was written. Start with a new table and a "
        "new checkpoint.",
        batch_id=batch_id,
    )


def newest_first(table: Any) -> Iterator[dict[str, Any]]:
    """Return the commits of the log, newest first. Only a few are read at a time: usually one is enough.

    A commit that comes meanwhile moves the others on, so one may be returned twice. None is left out.
    """
    limit, done = _FIRST_LIMIT, 0
    while True:
        commits = table.history(limit)
        yield from commits[done:]
        if len(commits) < limit:
            return
        limit, done = limit * _GROWTH, len(commits)
