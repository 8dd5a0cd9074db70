"""Whether a replay brought what was lost: same Spark partitions, same number of records, same digest.

Runs on the driver. Pure. Invariant: unless everything agrees, nothing of the replay is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import TransactionsInDoubtError
from penstock.sink.committable import Committable
from penstock.sink.decision import Decision, Outcome


def check_replay(lost: Decision, replayed: Sequence[Committable], spark_partition_count: int) -> None:
    """Raise TransactionsInDoubtError unless `replayed` is what was lost."""
    wanted = {each.spark_partition_id: each for each in lost.with_outcome(Outcome.LOST)}
    brought = {each.spark_partition_id: each for each in replayed}
    doubts = []
    if spark_partition_count != lost.spark_partition_count:
        doubts.append(f"it has {spark_partition_count} Spark partitions, not {lost.spark_partition_count}")
    for spark_partition_id in sorted(wanted.keys() | brought.keys()):
        doubt = _difference(wanted.get(spark_partition_id), brought.get(spark_partition_id))
        if doubt:
            doubts.append(f"Spark partition {spark_partition_id} {doubt}")
    if not doubts:
        return
    in_doubt = sorted(wanted)
    raise TransactionsInDoubtError(
        f"The replay of {lost.where} is not what was lost: {'; '.join(doubts[:10])}"
        f"{'; ...' if len(doubts) > 10 else ''}. In doubt are the records of Spark partitions "
        f"{', '.join(map(str, in_doubt[:10]))}{', ...' if len(in_doubt) > 10 else ''}; those of the others "
        "are committed. The plan of the query gives other rows each time (random values, the current time, "
        "an order that is not fixed), or it was changed. Nothing of the replay was committed. Decide by "
        "hand: `penstock transactions abort --query ...` either writes the whole batch again (the committed "
        "part "
        "doubled) or goes on without what was lost.",
        query_id=lost.query_id,
        batch_id=lost.batch_id,
        spark_partition_ids=in_doubt,
    )


def _difference(wanted: Committable | None, brought: Committable | None) -> str | None:
    if wanted is None:
        return "wrote, though nothing of it was lost"
    if brought is None:
        return f"wrote nothing, {wanted.record_count} records were lost"
    if brought.record_count != wanted.record_count:
        return f"wrote {brought.record_count} records, {wanted.record_count} were lost"
    if brought.digest != wanted.digest:
        return f"wrote {brought.record_count} records as were lost, but not the same ones"
    return None
