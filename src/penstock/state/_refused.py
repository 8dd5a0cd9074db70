"""The errors of a state from which a task cannot continue.

Runs on executors. Invariant: each says what is expected and found, that nothing was written, and what to do.
"""

from __future__ import annotations

from penstock.errors import StateError
from penstock.state.identity import TOGETHER


def incomplete(root: str, version: int, reached: int, partition_count: int) -> StateError:
    """Return the error of a batch that was committed although not all of its tasks have used the state."""
    return StateError(
        f"Batch {version} was committed, but only {reached} of its {partition_count} tasks have used the "
        f"state in {root}. The rows of the others are not in the state, so nothing was written since. A "
        "function of foreachBatch has read a part of its DataFrame (first, take, show), has left "
        "the batch out, or has caught the error of a write. Write the whole DataFrame in each batch. "
        "Or it calls isEmpty or first between persist and coalesce: call count() first, or use repartition "
        "instead of coalesce. "
        "docs/state.md, 'A batch that was read in part', says how to repeat the batch.",
        path=root,
        version=version,
        reached=reached,
        partition_count=partition_count,
    )


def several_tasks(root: str, version: int, partition: int) -> StateError:
    """Return the error of a stage that computes a partition several times."""
    return StateError(
        f"One stage of batch {version} has computed partition {partition} of the state in {root} several "
        "times, so it is unknown whether all of its partitions were computed. Nothing was written since. "
        "A crossJoin above the operator does this, and so does coalesce above a union of the operator with "
        "itself. In foreachBatch call persist() before the join or the union and count() after it, or "
        "write the rows first. docs/state.md, 'A batch that was read in part', says how to repeat the "
        "batch, if it was committed.",
        path=root,
        version=version,
        partition=partition,
    )


def missing_version(root: str, partition: int, expected: int, found: int) -> StateError:
    """Return the error of a partition without the manifest of the batch before."""
    newest = "there is no manifest of it" if found < 0 else f"its newest manifest is of batch {found}"
    return StateError(
        f"Batch {expected} has written partition {partition} of the state in {root}, but {newest}. Nothing "
        "was written. Either the file was deleted: restore the whole folder together with the checkpoint "
        "of the same time. Or the file system does not list a new file at once: use one that does.",
        path=root,
        partition=partition,
        version=found,
    )


def of_another_time(root: str, batch_id: int, version: int) -> StateError:
    """Return the error of a state that ends before the batch before."""
    newest = "has no batch" if version < 0 else f"ends at batch {version}"
    return StateError(
        f"The state in {root} and the checkpoint are of different times: the checkpoint is at batch "
        f"{batch_id}, and the state {newest} before it. Nothing was written. {TOGETHER}",
        path=root,
        batch_id=batch_id,
        version=version,
    )


def newer_than_checkpoint(root: str, batch_id: int, version: int) -> StateError:
    return StateError(
        f"The state in {root} is newer than the checkpoint: it ends at batch {version}, and the checkpoint "
        f"is at batch {batch_id}. Nothing was written. {TOGETHER}",
        path=root,
        batch_id=batch_id,
        version=version,
    )


def different_rows(root: str, version: int, partition: str) -> StateError:
    """Return the error of two attempts of one run whose input differs."""
    return StateError(
        f"Two attempts of batch {version} got different rows for partition {partition} of the state in "
        f"{root}. Nothing was written. Either two operators of the query use this folder: give each a "
        "`name`, or a folder of its own. Or the rows before the operator differ each time (a random number, "
        "a time, a table that changed): remove that.",
        path=root,
        batch_id=version,
    )


def two_operators(root: str, batch_id: int) -> StateError:
    """Return the error of two operators that use one folder."""
    return StateError(
        f"Two operators of this query use the state in {root}. Their rows are mixed. Give each operator a "
        "`name`, or a folder of its own, and start with a new checkpoint.",
        path=root,
        batch_id=batch_id,
    )
