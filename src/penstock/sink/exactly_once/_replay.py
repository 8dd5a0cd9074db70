"""Whether a replay brings what was written, or what was lost of it: a batch is known by what it holds.

Runs on the driver. Pure. Spark numbers batches by its checkpoint: one that is a batch old, or has lost its
newest offsets, gives a number that is used to other rows. Invariant: unless count and digest agree, nothing
of a replay is committed and nothing of it is taken for written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import ExactlyOnceError, TransactionsInDoubtError
from penstock.sink.exactly_once.committable import Committable, TaskReport
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, Outcome
from penstock.sink.exactly_once.digest import RecordDigest

_SHOWN = 10

_CAUSES = (
    "Either the checkpoint is older than what is written (restored from a copy, or its newest file in "
    "offsets/ was removed or lost), and Spark has planned the batch again with other rows. Or the plan gives "
    "other rows each time (random values, uuid(), an order that is not fixed). Or the query, its "
    "options or its code were changed. Or records of the source were compacted or deleted since."
)

_CURE = (
    "Go on with the newest checkpoint or the old plan; what the replay brings is then written where it "
    "belongs."
)
_CAUSES_OF_A_NAME = (
    "Either the name is that of another write, which was done before. Or the rows are other ones each time "
    "(random values, uuid(), the current time), or they, the options or the code were changed."
)
_NEW_NAME = "Give other rows a sink.write-id of their own."

# ----- of a batch that is finished


def drain_doubt(written: Decision, drained: RecordDigest) -> str | None:
    """In what a replay differs from a batch that is finished; None where it does not."""
    if drained.record_count != written.record_count:
        return f"it is written with {_records(written.record_count)}, the replay brought " + _records(
            drained.record_count
        )
    if written.digest is not None and written.digest != str(drained):
        return f"the replay brought {_records(drained.record_count)}, as are written, but not the same ones"
    return None


def drain_error(written: Decision, doubt: str) -> TransactionsInDoubtError:
    """The error that stops a query whose replay is not what is written."""
    causes, cure = (_CAUSES_OF_A_NAME, _NEW_NAME) if written.is_named_write else (_CAUSES, _CURE)
    return TransactionsInDoubtError(
        f"The replay of {written.where} is not what is written: {doubt}. {causes} Nothing of the replay was "
        f"written, and Spark has not counted it as done. {cure} If that cannot be, look "
        "at the target and decide by hand: `penstock transactions abort --query "
        f"{written.query_id} --resolution take-as-written` takes the next replay as written (rows that are "
        "not in the target stay unwritten), `write-again` writes it whole (rows that are in the target are "
        "doubled).",
        query_id=written.query_id,
        batch_id=written.batch_id,
        doubt=doubt,
    )


def check_none_written(previous: Decision, written: Sequence[Committable]) -> None:
    """Raise ExactlyOnceError when tasks wrote for a batch that is written, or is not finished."""
    if not written and previous.status is not DecisionStatus.DECIDED:
        return
    # Its tasks were told to drain, by a recovery that had finished it.
    raise ExactlyOnceError(
        f"Tasks have written for {previous.where}, which is {previous.status.value} already. What they wrote "
        "is not committed. Restart the query; if this comes again, report it as a bug of penstock.",
        query_id=previous.query_id,
        batch_id=previous.batch_id,
    )


def check_none_drained(head: TaskReport, drained: RecordDigest) -> None:
    """Raise ExactlyOnceError when tasks took a batch for written that is not, or is not any more."""
    if not drained.record_count:
        return
    raise ExactlyOnceError(
        f"Tasks have read {_records(drained.record_count)} of batch {head.batch_id} of query {head.query_id} "
        "without writing them, because the batch was written when they began; now the decision log has no "
        "such batch. Was `penstock transactions abort --query` run meanwhile? Nothing was written. Restart "
        "the query; the batch is then written.",
        query_id=head.query_id,
        batch_id=head.batch_id,
    )


# ----- of a batch of which a part was lost


def check_replay(lost: Decision, reports: Sequence[TaskReport]) -> None:
    """Raise TransactionsInDoubtError unless a replay brings what was lost, and what is committed with it."""
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
    # Rows may have changed places among Spark partitions that are committed: they are all there.
    if sum(drained.values(), RecordDigest()) != lost.content_of(Outcome.COMMITTED):
        doubts += _differences(_contents(lost, Outcome.COMMITTED), drained, "brought", "committed")
    if doubts:
        raise _replay_error(lost, doubts, sorted(wanted))


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
        return f"{did} {_records(found.record_count if found else 0)}, though none of it were {was}"
    if found is None:
        return f"{did} nothing, {wanted.record_count} records were {was}"
    if found.record_count != wanted.record_count:
        return f"{did} {found.record_count} records, {wanted.record_count} were {was}"
    return f"{did} {found.record_count} records as were {was}, but not the same ones"


def _replay_error(lost: Decision, doubts: Sequence[str], in_doubt: Sequence[int]) -> TransactionsInDoubtError:
    told = "; ".join(doubts[:_SHOWN]) + ("; ..." if len(doubts) > _SHOWN else "")
    return TransactionsInDoubtError(
        f"The replay of {lost.where} is not what was lost: {told}. In doubt are the records of Spark "
        f"partitions {_listed(in_doubt)}; those of the others are committed. {_CAUSES} Nothing of the replay "
        "was committed. Go on with the newest checkpoint or the old plan; or decide by hand: `penstock "
        f"transactions abort --query {lost.query_id} --resolution write-again` writes the whole batch again "
        "(the committed part doubled), `take-as-written` goes on without what was lost.",
        query_id=lost.query_id,
        batch_id=lost.batch_id,
        spark_partition_ids=list(in_doubt),
    )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
