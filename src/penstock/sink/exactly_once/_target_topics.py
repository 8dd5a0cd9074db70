"""Whether the topics that a batch was written into are still those topics.

Runs on the driver. A topic that is deleted takes its records along. One that is created again under its
name has none of them, and Kafka commits the transaction all the same. Invariant: a batch is decided only
when each of its topics is the one that its tasks wrote into. A topic that is deleted after the decision had
the batch's records, and takes them along like all others; where that is found it is said.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from penstock.errors import TargetTopicError, TransactionsInDoubtError
from penstock.sink.exactly_once.committable import TargetTopic
from penstock.sink.exactly_once.decision import Decision, DecisionStatus
from penstock.sink.exactly_once.kafka import SinkTransactions

_GRACE_SECONDS = 2.0
"""How long a broker that knows the cluster's news late is asked again."""
_PAUSE_SECONDS = 0.1


def gone_topics(kafka: SinkTransactions, topics: Sequence[TargetTopic]) -> list[str]:
    """Which of the topics were deleted since, and what stands there now, for messages.

    Costs one metadata request where all are in place.
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


def check_topics_in_place(kafka: SinkTransactions, decision: Decision, *, is_replay_of_lost: bool) -> None:
    """Before a batch is decided: raise when a topic is not the one that its tasks wrote into.

    Raises:
        TargetTopicError: nothing of the batch is decided; it can be written again whole.
        TransactionsInDoubtError: it is the replay of what was lost, and what was committed is gone.
    """
    gone = gone_topics(kafka, decision.topics)
    if not gone:
        return
    if is_replay_of_lost:
        raise gone_error(decision, "; ".join(gone))
    raise TargetTopicError(
        f"While {decision.where} was being written, {'; '.join(gone)}. What was written into it is gone with "
        "it. Nothing is decided, so nothing of the batch is visible in other topics either. "
        f"{_again(decision)}",
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        topics=sorted({each.name for each in decision.topics}),
    )


def _again(decision: Decision) -> str:
    if decision.is_batch_write:
        return "Run the write again."
    return "Restart the query: Spark replays the batch, and it is written whole."


def gone_error(decision: Decision, gone: str) -> TransactionsInDoubtError:
    """The error that stops a query whose replay finds its target topics deleted."""
    is_whole = decision.status is DecisionStatus.FINISHED
    return TransactionsInDoubtError(
        f"{decision.where[0].upper()}{decision.where[1:]} was written{'' if is_whole else ' in part'} before "
        f"the query stopped, and since then {gone}. Its records went with the topic, as did those of "
        "all batches before it. Spark replays the batch; nothing of the replay was written. Decide by hand: "
        f"`penstock transactions abort --query {decision.query_id} --resolution write-again` writes "
        "the whole batch (what it wrote into other topics is doubled), `take-as-written` goes on with the "
        "batch after it.",
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        doubt=gone,
    )


def gone_batch_write_error(decision: Decision, gone: str) -> TargetTopicError:
    """The error that tells of a batch write that was finished into a topic that is gone."""
    return TargetTopicError(
        f"An earlier {decision.where} was decided when its driver died, and is committed now; but meanwhile "
        f"{gone}. Its records went with the topic. This error comes once: what was to be written now is not "
        "written, and can be started again. Run the earlier write again too if its records are still wanted.",
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        topics=sorted({each.name for each in decision.topics}),
    )
