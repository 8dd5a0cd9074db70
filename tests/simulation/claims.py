"""What the judge may demand of a history, and what is told to users in it that has to be true.

Invariant: a batch is demanded once, unless its user has thrown it away (the topic is deleted, an error is
caught). Then it is there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.codec import RecordBatchDecoder
from penstock.sink.exactly_once._fate import NOT_DECIDED
from penstock.sink.exactly_once._log_records import decode, decode_key
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import Decision, DecisionStatus
from penstock.testing.fake._coordinator import ONGOING
from tests.simulation.checkpoints import Checkpoint
from tests.simulation.judge import visible_producers
from tests.simulation.network import LOG, PREFIX, QUERY, Network

_AT_ONCE = 15
"""Between the last look at a batch's transactions and its decision are fewer requests."""
_TOPICS_AT_ONCE = 6
"""The same of a batch's topics."""


class Claims:
    """What is due in one history."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._thrown_away: set[int] = set()
        self._denied: set[tuple[int, int]] = set()
        self._recreated_at: int | None = None
        self._decided_count = 0
        """The batches of which a decision was on its way."""
        network.on_decision_record = self._decides

    # ----- what is due

    def due(self, checkpoint: Checkpoint, batch_count: int) -> list[str]:
        """Return the values that have to be there once, of the first batches."""
        planned = enumerate(checkpoint.planned[:batch_count])
        return [value for at, batch in planned if at not in self._thrown_away for value in batch.values]

    def whole_or_absent(self, checkpoint: Checkpoint) -> list[list[str]]:
        """Return the values of each batch that is there whole or not at all."""
        return [batch.values for at, batch in enumerate(checkpoint.planned) if at in self._thrown_away]

    @property
    def is_recreated(self) -> bool:
        """Return whether the target topic was deleted and created again."""
        return self._recreated_at is not None

    def throw_away(self, batch_id: int) -> None:
        """Note that a user has passed over a batch."""
        self._thrown_away.add(batch_id)

    def recreate(self, done: int) -> None:
        """Note that the target topic is deleted now, with what is done and decided."""
        self._thrown_away |= set(range(max(done, self._decided_count)))
        self._recreated_at = self._network.step

    # ----- what is told

    def stopped(self, error: Exception, reports: Sequence[TaskReport]) -> None:
        """Note what an error says about the tasks of its batch."""
        if NOT_DECIDED in str(error):
            written = (each.committable for each in reports)
            identities = [each.identity for each in written if each is not None]
            self._denied |= {(each.producer_id, each.producer_epoch) for each in identities}

    def broken(self) -> str | None:
        """Return a sentence that was told to a user and is not true."""
        wrong = self._denied & visible_producers(self._network)
        return f"said to be not decided, but committed: {sorted(wrong)}" if wrong else None

    # ----- what is decided

    def _decides(self, request: Any) -> None:
        """Look at the record of a decision on its way: whatever can be checked is checked before."""
        network = self._network
        for decision in _decisions_in(request):
            self._decided_count = max(self._decided_count, decision.batch_id + 1)
            if self._recreated_at is not None and network.step - self._recreated_at <= _TOPICS_AT_ONCE:
                self._thrown_away.add(decision.batch_id)
            if network.step - network.disturbed_at > _AT_ONCE and not self._are_open(decision):
                network.broken.append(f"batch {decision.batch_id} is decided with transactions that are over")

    def _are_open(self, decision: Decision) -> bool:
        ids = self._network.kafka._state.transactions.ids
        found = [
            (ids.get(each.committable.identity.transactional_id), each.committable.identity)
            for each in decision.transactions
        ]
        return all(
            now is not None
            and now.state == ONGOING
            and (now.producer_id, now.epoch) == (each.producer_id, each.producer_epoch)
            for now, each in found
        )


def _decisions_in(request: Any) -> list[Decision]:
    """Return the new decisions that a Produce request writes."""
    (data,) = (bytes(each.records) for topic in request.topic_data for each in topic.partition_data)
    decoder = RecordBatchDecoder(LOG, 0, starting_offset=0, stopping_offset=1 << 40, columns=["key", "value"])
    decoded = [each for each in (*decoder.decode(data), decoder.flush()) if each is not None]
    rows = [row for each in decoded for row in each.to_pylist()]
    ours = [row["value"] for row in rows if decode_key(row["key"]) == (PREFIX, QUERY) and row["value"]]
    found = [decode(QUERY, value) for value in ours]
    return [each for each in found if each.status is DecisionStatus.DECIDED and _is_all_new(each)]


def _is_all_new(decision: Decision) -> bool:
    return all(each.outcome.value == "pending" for each in decision.transactions)
