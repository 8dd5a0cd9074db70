"""Compare a replay with what was written, or with the lost part of it, by content and not only by number.

Runs on the driver. Pure. Spark numbers batches by its checkpoint. A checkpoint that is one batch old, or that
has lost its newest offsets, gives a used number to other rows. Invariant: unless count and digest agree,
nothing of a replay is committed and nothing of it is taken as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import ExactlyOnceError, TransactionsInDoubtError
from penstock.sink.exactly_once.committable import Committable, TaskReport
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, Outcome
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.names import TransactionNames

_SHOWN = 10

_CAUSES = (
    "Possible causes: the checkpoint is older than the target (restored from a copy, or its newest file in "
    "offsets/ was removed or lost), so Spark has planned the batch again with other rows; the plan gives "
    "other rows each time (random values, uuid(), an order that is not fixed); the query, its options or its "
    "code were changed; or records of the source were compacted or deleted since."
)

_CURE = (
    "Continue with the newest checkpoint. If the query was changed: start the old query once, stop it after "
    "its batch (one Ctrl-C of penstock sql, or penstock.stop_after_batch), and start the changed one then. "
    "The other rows are then written in a batch of their own."
)
_CAUSES_OF_A_NAME = (
    "Possible causes: another write has used this name before; the rows are different each time (random "
    "values, uuid(), the current time); or the rows, the options or the code were changed."
)
_NEW_NAME = "Give other rows a sink.write-id of their own."

# ----- of a batch that is finished


def drain_doubt(written: Decision, drained: RecordDigest) -> str | None:
    """Return the difference between a replay and a finished batch; None if there is none."""
    if drained.record_count != written.record_count:
        expected, got = _records(written.record_count), _records(drained.record_count)
        return f"it is written with {expected}, the replay brought {got}"
    if written.digest is not None and written.digest != str(drained):
        return f"the replay brought {_records(drained.record_count)}, as many as are written, but other ones"
    return None


def drain_error(written: Decision, doubt: str, names: TransactionNames) -> TransactionsInDoubtError:
    """Return the error that stops a query whose replay differs from what is written."""
    causes, cure = (_CAUSES_OF_A_NAME, _NEW_NAME) if written.is_named_write else (_CAUSES, _CURE)
    return TransactionsInDoubtError(
        f"The replay of {written.where} is not what is written: {doubt}. {causes} Nothing of the replay was "
        f"written, and Spark has not counted the batch as done. {cure} If that is not possible, look at the "
        f"target and decide by hand: `{names.resolving(written.query_id, 'take-as-written')}` takes the next "
        "replay as written (rows that are not in the target stay unwritten). The same with `--resolution "
        "write-again` writes the whole replay (rows that are in the target are doubled).",
        query_id=written.query_id,
        batch_id=written.batch_id,
        doubt=doubt,
    )


def check_none_written(previous: Decision, written: Sequence[Committable]) -> None:
    """Raise ExactlyOnceError if tasks wrote for a batch that is already written, or not finished."""
    if not written and previous.status is not DecisionStatus.DECIDED:
        return
    # A recovery that had finished the batch told these tasks to drain.
    raise ExactlyOnceError(
        f"Tasks have written for {previous.where}, which is already {previous.status.value}. Their rows "
        "are not committed. Restart the query. If this error comes again, report it as a bug of penstock.",
        query_id=previous.query_id,
        batch_id=previous.batch_id,
    )


def check_none_drained(head: TaskReport, drained: RecordDigest) -> None:
    """Raise ExactlyOnceError if tasks drained a batch that is not written, or no longer is."""
    if not drained.record_count:
        return
    raise ExactlyOnceError(
        f"Tasks have read {_records(drained.record_count)} of batch {head.batch_id} of query {head.query_id} "
        "without writing them, because the batch was written when they began. Now the decision log has no "
        "such batch. Was `penstock transactions abort` run with --query in between? Nothing was written. "
        "Restart the query; the batch is then written.",
        query_id=head.query_id,
        batch_id=head.batch_id,
    )


# ----- of a batch of which a part was lost


def check_replay(lost: Decision, reports: Sequence[TaskReport], names: TransactionNames) -> None:
    """Raise TransactionsInDoubtError unless a replay brings the lost rows, and the committed ones."""
    wanted = _contents(lost, Outcome.LOST)
    brought = {
        report.spark_partition_id: report.committable.content
        for report in reports
        if report.committable is not None
    }
    doubts = []
    if len(reports) != lost.spark_partition_count:
        doubts.append(f"it has {len(reports)} Spark partitions, not {lost.spark_partition_count}")
    doubts += _differences(wanted, brought, "wrote", "lost")
    drained = {report.spark_partition_id: report.drained for report in reports if report.drained.record_count}
    # Rows may have moved between committed Spark partitions: they are all in the target.
    if sum(drained.values(), RecordDigest()) != lost.content_of(Outcome.COMMITTED):
        doubts += _differences(_contents(lost, Outcome.COMMITTED), drained, "brought", "committed")
    if doubts:
        raise _replay_error(lost, doubts, sorted(wanted), names)


def _contents(decision: Decision, outcome: Outcome) -> dict[int, RecordDigest]:
    return {each.spark_partition_id: each.content for each in decision.with_outcome(outcome)}


def _differences(
    wanted: Mapping[int, RecordDigest], found: Mapping[int, RecordDigest], did: str, was: str
) -> list[str]:
    return [
        f"Spark partition {spark_partition_id} {difference}"
        for spark_partition_id in sorted(wanted.keys() | found.keys())
        if (
            difference := _difference(wanted.get(spark_partition_id), found.get(spark_partition_id), did, was)
        )
    ]


def _difference(wanted: RecordDigest | None, found: RecordDigest | None, did: str, was: str) -> str | None:
    if found == wanted:
        return None
    if wanted is None:
        return f"{did} {_records(found.record_count if found else 0)}, 0 were {was}"
    if found is None:
        return f"{did} nothing, {wanted.record_count} records were {was}"
    if found.record_count != wanted.record_count:
        return f"{did} {found.record_count} records, {wanted.record_count} were {was}"
    return f"{did} {found.record_count} records, as many as were {was}, but other ones"


def _replay_error(
    lost: Decision, doubts: Sequence[str], in_doubt: Sequence[int], names: TransactionNames
) -> TransactionsInDoubtError:
    told = "; ".join(doubts[:_SHOWN]) + ("; ..." if len(doubts) > _SHOWN else "")
    return TransactionsInDoubtError(
        f"The replay of {lost.where} is not what was lost: {told}. The records of Spark partitions "
        f"{_listed(in_doubt)} are in doubt; those of the others are committed. {_CAUSES} Nothing of the "
        "replay was committed. Continue with the newest checkpoint or the old plan. Or decide by hand: "
        f"`{names.resolving(lost.query_id, 'write-again')}` writes the whole batch again (the committed part "
        "is doubled). The same with `--resolution take-as-written` continues without the lost records.",
        query_id=lost.query_id,
        batch_id=lost.batch_id,
        spark_partition_ids=list(in_doubt),
    )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
