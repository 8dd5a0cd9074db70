"""What people do in a history: restore a checkpoint, catch an error, delete a topic, run `penstock` commands.

Invariant: they do what the message of an error tells them, and a checkpoint is replaced only while no driver
runs.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import BatchOrderError, PenstockError, TransactionsInDoubtError
from penstock.sink.exactly_once.by_hand import Resolution
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, Outcome
from tests.simulation.checkpoints import Checkpoint, Checkpoints, Older
from tests.simulation.claims import Claims
from tests.simulation.judge import Violation, committed
from tests.simulation.network import PARTITION_COUNT, QUERY, TARGET, Network, ignoring_errors
from tests.simulation.plan import Kind
from tests.simulation.worker import Driver

_OLDER = {
    1: Older(0, is_planned_again=True),
    2: Older(1, is_planned_again=False),
    3: Older(1, is_planned_again=True),
    4: Older(0, is_planned_again=True, key_count=1, has_as_many_rows=True),
    5: Older(0, is_planned_again=True, key_count=2, has_as_many_rows=True),
    10: Older(1, is_planned_again=True, key_count=2, has_as_many_rows=True),
    30: Older(1, is_planned_again=True, has_as_many_rows=True),
    100: Older(2, is_planned_again=False),
}
"""By the length of the fault."""


class Users:
    """The people of one history."""

    def __init__(self, network: Network, checkpoints: Checkpoints, claims: Claims) -> None:
        self._network = network
        self._checkpoints = checkpoints
        self._claims = claims
        self._older: int | None = None
        self._catches = self._has_caught = self._has_gone_back = False

    def tell(self, kind: Kind, length: int) -> None:
        """Let a user do something now, or when the time has come."""
        if kind is Kind.OLD_CHECKPOINT:
            self._older, self._has_gone_back = length, True
        elif kind is Kind.CATCH:
            self._catches = True
        elif kind is Kind.RECREATE:
            self._claims.recreate(self._checkpoints.current.done)
            self._network.kafka.delete_topic(TARGET)
            self._network.kafka.create_topic(TARGET, PARTITION_COUNT)

    # ----- the query

    def before_start(self) -> None:
        """Put an older checkpoint in its place, if no other driver runs."""
        if self._older is not None and self._is_alone():
            older, self._older = _OLDER[self._older], None
            self._checkpoints.go_back(older)
            self._network.say(f"THE CHECKPOINT IS OLDER: {older}")

    def takes_error(self, batch_id: int, checkpoint: Checkpoint) -> bool:
        """Return whether a function of foreachBatch catches the error. The batch then counts as done."""
        # After the last batch nothing would come that an incomplete one has to stop.
        is_last = batch_id + 1 == self._network.plan.batch_count
        if not self._catches or is_last or self._checkpoints.has_newer() or checkpoint.done != batch_id:
            return False
        self._catches, self._has_caught = False, True
        self._claims.throw_away(batch_id)
        checkpoint.done += 1
        self._network.say(f"THE ERROR IS CAUGHT, batch {batch_id} counts as done")
        return True

    def after_stop(self, error: PenstockError) -> None:
        """Do what the error says.

        Raises:
            Violation: the error is not honest.
        """
        if isinstance(error, TransactionsInDoubtError):
            self._clear_doubt(error)
        elif isinstance(error, BatchOrderError) and self._is_alone():
            newest = int(error.facts["newest_batch_id"])
            if newest > int(error.facts["batch_id"]) and self._checkpoints.has_newer():
                self._checkpoints.put_back()
            elif newest < int(error.facts["batch_id"]) and self._has_caught:
                self._network.say(f"THE USER REPEATS BATCH {newest}")
                self._checkpoints.current.done = min(newest, self._checkpoints.current.done)

    def _clear_doubt(self, error: TransactionsInDoubtError) -> None:
        if self._checkpoints.has_newer():
            if self._is_alone():
                self._network.say("THE NEWEST CHECKPOINT IS BACK")
                self._checkpoints.put_back()
        elif self._claims.is_recreated:
            tools = Driver(self._network, "operator").tools()
            self._network.say("THE USER LETS IT BE WRITTEN AGAIN")
            ignoring_errors(lambda: tools.resolve(QUERY, Resolution.WRITE_AGAIN))()
        elif self._is_hidden(error):
            self._look_and_decide(int(error.facts["batch_id"]))
        elif not self._has_gone_back:
            raise Violation(f"the replay is always the same, but: {error}")

    def _is_hidden(self, error: TransactionsInDoubtError) -> bool:
        """Return whether an outcome cannot be known: there is no witness, and the id has a later producer."""
        transactional_id = error.facts.get("transactional_id")
        found = self._network.kafka._state.transactions.ids.get(str(transactional_id))
        decided = [
            each
            for decision in self._network.decisions()
            for each in decision.with_outcome(Outcome.PENDING)
            if each.identity.transactional_id == transactional_id and each.witness is None
        ]
        if found is None or not decided:
            return False
        ours = decided[0].identity
        epochs = 1 if self._network.plan.is_v2 else 0
        return found.producer_id != ours.producer_id or found.epoch > ours.producer_epoch + epochs

    def _look_and_decide(self, batch_id: int) -> None:
        """Look for the records of a batch in the target, as the message says, and resolve it."""
        values = set(self._checkpoints.current.planned[batch_id].values)
        seen = {value for at in range(PARTITION_COUNT) for value in committed(self._network, at)}
        chosen = Resolution.TAKE_AS_WRITTEN if values <= seen else Resolution.WRITE_AGAIN
        self._network.say(f"THE USER LOOKS INTO THE TARGET, AND DECIDES: {chosen.value}")
        tools = Driver(self._network, "operator").tools()
        ignoring_errors(lambda: tools.resolve(QUERY, chosen))()

    def _is_alone(self) -> bool:
        return sum(each.name == "query" for each in self._network.turns.actors) <= 1

    # ----- penstock transactions

    def operator_command(self) -> Callable[[], object]:
        """Return a command that somebody runs."""
        tools = Driver(self._network, "operator").tools()
        return self._network.chance.choice((tools.recover, tools.abort, self._resolve_without_doubt))

    def _resolve_without_doubt(self) -> None:
        """Resolve by hand what is not in doubt. That has to be refused, because rows would be doubled."""
        before = self._settled()
        if before is None or self._has_gone_back or self._has_caught or self._claims.is_recreated:
            return
        tools = Driver(self._network, "operator").tools()
        chosen = self._network.chance.choice(list(Resolution))
        after = tools.resolve(QUERY, chosen)
        if after.batch_id == before.batch_id:
            self._network.broken.append(f"batch {after.batch_id} is not in doubt, but was resolved by hand")

    def _settled(self) -> Decision | None:
        found = [each for each in self._network.decisions() if each.query_id == QUERY]
        over = (DecisionStatus.FINISHED, DecisionStatus.WITHDRAWN)
        return next((each for each in found if each.status in over), None)
