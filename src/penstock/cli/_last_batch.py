"""Find out after which batch a query has ended, for `penstock promote` and `rollback`.

Runs on the driver's machine. Changes nothing. Invariant: a batch counts as done only if the old job, started
again, would do nothing more for it. The other query counts its batches from 1 again, so nothing after the
hand-over could recognise a part of it that is missing, or is there already.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import CheckpointError, DecisionLogError, ExactlyOnceError
from penstock.observe.checkpoint import read_ranges
from penstock.observe.new_checkpoint import OldCheckpoint
from penstock.sink.exactly_once.by_hand import TransactionTools
from penstock.sink.exactly_once.decision import Decision, DecisionStatus
from penstock.sink.exactly_once.receipt import Receipt

NOTHING = "Nothing was handed over."


def last_batch(tools: TransactionTools, old: OldCheckpoint, decision: Decision) -> int:
    """Return the last batch of a query that counts; -1: none.

    Args:
        tools: of the prefix.
        old: the checkpoint of the query.
        decision: the newest one about the query.

    Raises:
        CheckpointError: the checkpoint is older than the target, or was changed.
        DecisionLogError: checkpoint and decision log contradict each other.
        ExactlyOnceError: a part of a batch is lost, a replay was different, or the old job has to finish it.
    """
    done, planned = old.done(), old.planned()
    newest, last_done = planned[-1] if planned else -1, done[-1] if done else -1
    # Without --yes it may be decided only. With it, it is finished by now.
    is_written = decision.status in (DecisionStatus.FINISHED, DecisionStatus.DECIDED)
    _check_status(old, decision, newest, last_done, is_written=is_written)
    receipts = tools.receipts()
    of_batch = [each for each in receipts if (each.query_id, each.batch_id) == _batch(decision)]
    if is_written and decision.batch_id > last_done:
        if not any(each.read is not None for each in of_batch):
            raise _not_done_error(old, decision, decision.batch_id)
        _check_is_there(tools, decision)
    elif newest > last_done and any(each.read is None for each in _newest_of(receipts, decision)):
        raise _not_done_error(old, decision, newest)
    _check_receipt(old, of_batch, decision)
    # A planned batch that is not decided has written nothing, and now it never will.
    return max(last_done, decision.batch_id) if is_written else last_done


def _batch(decision: Decision) -> tuple[str, int]:
    return decision.query_id, decision.batch_id


def _check_status(
    old: OldCheckpoint, decision: Decision, newest: int, last_done: int, *, is_written: bool
) -> None:
    if decision.is_in_doubt:
        raise ExactlyOnceError(
            f"{decision.where[0].upper()}{decision.where[1:]} is not whole: it is {decision.status.value}"
            f"{'' if decision.doubt is None else f', and a replay was different ({decision.doubt})'}. "
            f"{NOTHING} Start the old job once with the trigger availableNow=True: it finishes the batch. "
            "Or resolve it: docs/exactly-once-repair.md says how. Then run this command again.",
            query_id=decision.query_id,
            batch_id=decision.batch_id,
        )
    if decision.batch_id > newest:
        raise CheckpointError(
            f"Batch {decision.batch_id} of query {decision.query_id} is written, and the newest batch of the "
            f"checkpoint {old.folder} is {newest}. The checkpoint is older than the target. {NOTHING} Give "
            "the newest checkpoint.",
            batch_id=decision.batch_id,
        )
    if not is_written and decision.batch_id <= last_done:
        raise DecisionLogError(
            f"The checkpoint {old.folder} says that batch {decision.batch_id} is done, and the decision log "
            f"that it does not count as written. {NOTHING} Compare the target with the source.",
            batch_id=decision.batch_id,
        )


def _newest_of(receipts: Sequence[Receipt], decision: Decision) -> list[Receipt]:
    """Return the newest receipt of a query, or of the one that it continues, if it has written none."""
    begun = decision.begun
    query_id = decision.query_id if begun is None else begun.from_query_id
    return [each for each in receipts if each.query_id == query_id][-1:]


def _not_done_error(old: OldCheckpoint, decision: Decision, batch_id: int) -> ExactlyOnceError:
    """Return the error for a batch that is not done, of a query whose receipts do not say what it reads.

    That is so in foreachBatch, whose function may write elsewhere before or after it writes here. It is so,
    too, if the checkpoint was in a store, and what is on this machine may be an older state of it.
    """
    return ExactlyOnceError(
        f"Batch {batch_id} of query {decision.query_id} is planned and not done, says the checkpoint "
        f"{old.folder}, and the receipts of the query do not say what it reads. So the query may write "
        "elsewhere, too, in a function of foreachBatch, or its checkpoint is in a store or chosen by a "
        f"setting of the session. {NOTHING} Start the job that stops once more with its own checkpoint and "
        "the trigger availableNow=True: it finishes the batch. If it fails in this batch, let the other job "
        "finish it with that checkpoint. Then run this command again.",
        query_id=decision.query_id,
        batch_id=batch_id,
    )


def _check_is_there(tools: TransactionTools, decision: Decision) -> None:
    """Raise ExactlyOnceError if the records of a batch that is not done were deleted with their topic."""
    gone = tools.gone_topics(decision)
    if gone:
        raise ExactlyOnceError(
            f"{decision.where[0].upper()}{decision.where[1:]} is written and not done, and since then "
            f"{'; '.join(gone)}. Its records were deleted with the topic. {NOTHING} Start the old job once: "
            "it names the commands that let the batch be written again, or that continue without it. Then "
            "run this command again.",
            query_id=decision.query_id,
            batch_id=decision.batch_id,
        )


def _check_receipt(old: OldCheckpoint, receipts: Sequence[Receipt], decision: Decision) -> None:
    """Raise CheckpointError if the last batch has read something else than the checkpoint says."""
    found = next(iter(receipts), None)
    if found is None or found.read is None or decision.batch_id not in old.planned():
        return
    if decision.batch_id - 1 not in old.planned() and decision.batch_id:
        return
    _, ranges = read_ranges(old.folder, decision.batch_id)
    if set(ranges) != set(found.read):
        raise CheckpointError(
            f"Batch {decision.batch_id} of query {decision.query_id} has read "
            f"{', '.join(map(str, found.read))} when it was written, and the checkpoint {old.folder} says "
            f"{', '.join(map(str, ranges))}. Its files were changed or restored since. {NOTHING} Give the "
            "newest checkpoint.",
            batch_id=decision.batch_id,
        )
