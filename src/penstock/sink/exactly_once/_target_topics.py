"""Check that the topics that a batch was written into still exist, and were not deleted and created again.

Runs on the driver. Records are deleted with their topic. A topic that is created again under the same name
has none of them, and Kafka commits the transaction all the same. Invariant: a batch is decided only if each
of its topics is still the topic that its tasks wrote into. If a topic is deleted after the decision, the
batch's records are deleted with all others; an error says so when penstock notices.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from penstock.errors import TargetTopicError, TransactionsInDoubtError
from penstock.sink.exactly_once.committable import TargetTopic
from penstock.sink.exactly_once.decision import Decision, DecisionStatus
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.names import TransactionNames

_GRACE_SECONDS = 2.0
"""A broker may learn about changes late, so it is asked again for this long."""
_PAUSE_SECONDS = 0.1


def gone_topics(kafka: SinkTransactions, topics: Sequence[TargetTopic]) -> list[str]:
    """Return, for messages, the topics that were deleted since, and what has their names now.

    Costs one metadata request if all topics are in place.
    """
    wanted = [each for each in topics if each.topic_id is not None]
    if not wanted:
        return []
    grace_ends = time.monotonic() + _GRACE_SECONDS
    while True:
        found = kafka.topic_ids({each.name for each in wanted})
        gone = [difference for each in wanted if (difference := _difference(each, found))]
        if not gone or time.monotonic() > grace_ends:
            return gone
        time.sleep(_PAUSE_SECONDS)


def _difference(wanted: TargetTopic, found: Mapping[str, str | None]) -> str | None:
    if wanted.name not in found:
        return f"topic {wanted.name!r} was deleted (id {wanted.topic_id})"
    found_id = found[wanted.name]
    if found_id is None or found_id == wanted.topic_id:
        return None  # None: this broker gives no ids
    return f"topic {wanted.name!r} was deleted and created again (id {wanted.topic_id}, now {found_id})"


def check_topics_in_place(
    kafka: SinkTransactions, decision: Decision, names: TransactionNames, *, is_replay_of_lost: bool
) -> None:
    """Raise before a decision if a topic is not the one that the tasks wrote into.

    Raises:
        TargetTopicError: nothing of the batch is decided; the whole batch can be written again.
        TransactionsInDoubtError: this is the replay of lost records, and the committed ones are gone.
    """
    gone = gone_topics(kafka, decision.topics)
    if not gone:
        return
    if is_replay_of_lost:
        raise gone_error(decision, "; ".join(gone), names)
    raise TargetTopicError(
        f"While {decision.where} was being written, {'; '.join(gone)}. The records in it are gone. Nothing "
        "is decided, so nothing of the batch is visible in other topics. "
        f"{_again(decision)}",
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        topics=sorted({each.name for each in decision.topics}),
    )


def _again(decision: Decision) -> str:
    if decision.is_batch_write:
        return "Run the write again."
    return "Restart the query: Spark replays the batch, and it is written whole."


def gone_error(decision: Decision, gone: str, names: TransactionNames) -> TransactionsInDoubtError:
    """Return the error that stops a query if its target topics were deleted before a replay."""
    is_whole = decision.status is DecisionStatus.FINISHED
    return TransactionsInDoubtError(
        f"{decision.where[0].upper()}{decision.where[1:]} was written{'' if is_whole else ' in part'} before "
        f"the query stopped, and since then {gone}. Its records were deleted with the topic, and so were "
        "those of all batches before it. Spark replays the batch; nothing of the replay was written. Decide "
        f"by hand: `{names.resolving(decision.query_id, 'write-again')}` writes the whole batch (its rows in "
        "other topics are doubled). The same with `--resolution take-as-written` continues with the next "
        "batch.",
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        doubt=gone,
    )


def gone_batch_write_error(decision: Decision, gone: str) -> TargetTopicError:
    """Return the error for a batch write that was finished into a topic that is gone."""
    return TargetTopicError(
        f"An earlier {decision.where} was decided when its driver died, and is committed now. In between, "
        f"{gone}. Its records were deleted with the topic. You get this error only once. Nothing of the "
        "present write or batch was written; start it again. If the records of the earlier write are still "
        "wanted, run that write again too.",
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        topics=sorted({each.name for each in decision.topics}),
    )
