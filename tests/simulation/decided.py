"""Find out what the decision log says at a moment of a history: which open transactions have to be committed.

Used by the network, at each abort of a task's transaction. It is an observer: its requests are not part of
the history, and meet no faults.
"""

from __future__ import annotations

from penstock.sink.exactly_once.decision import Decision, DecisionStatus, Outcome
from penstock.sink.exactly_once.log import DecisionLog
from penstock.testing.fake._coordinator import ONGOING
from tests.unit.direct_client import DirectKafka
from tests.unit.sink_cluster import SinkClient, decision_topic


def must_be_committed(
    kafka: DirectKafka, topic: str, prefix: str, transactional_id: str, producer_id: int, epoch: int
) -> bool:
    """Return whether this transaction is open, and a decision that readers see names it."""
    found = kafka._state.transactions.ids.get(transactional_id)
    if found is None or found.state != ONGOING or (found.producer_id, found.epoch) != (producer_id, epoch):
        return False
    identities = [
        each.identity
        for decision in decisions_of(kafka, topic, prefix)
        if decision.status is DecisionStatus.DECIDED
        for each in decision.with_outcome(Outcome.PENDING)
    ]
    wanted = transactional_id, producer_id, epoch
    return wanted in [(each.transactional_id, each.producer_id, each.producer_epoch) for each in identities]


def decisions_of(kafka: DirectKafka, topic: str, prefix: str) -> list[Decision]:
    """Return the newest decision of each query that readers of the log see now."""
    log = DecisionLog(decision_topic(SinkClient(kafka), topic), prefix)
    if topic not in kafka._state.topics or not log.open(create=False):
        return []
    return list(log.catch_up(waits=False).values())
