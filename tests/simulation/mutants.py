"""Safety rules of the sink that are taken out, one at a time: the simulation has to find each.

`python -m tests.simulation --mutants N` looks for the first seed below N whose history breaks a promise. A
`Mutant` names such a seed, so that a test needs one history for each. Invariant: without the mutant the
history of that seed keeps all promises, because all histories do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from penstock.client.transactions import steps
from penstock.client.transactions.steps import EndState, TransactionProtocol, Transactions
from penstock.sink.exactly_once import (
    _commit,
    _finish,
    _recovery,
    _replay,
    _reused_ids,
    _strays,
    driver_side,
    mandate,
    task_writer,
)
from penstock.sink.exactly_once.decision import Outcome
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.mandate import Mandate, TaskPlan

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutant:
    """A rule that is taken out.

    Attributes:
        name: what the code does then.
        patches: object, name and value of what is replaced.
        seed: of a history that finds it; None: no history is known that does.
    """

    name: str
    patches: tuple[Patch, ...]
    seed: int | None

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Take the rule out."""
        with ExitStack() as stack:
            for place, name, value in self.patches:
                stack.enter_context(mock.patch.object(place, name, value))
            yield


def _gives(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


_end_state = steps._end_state
_stable_end = DecisionTopic.stable_end


def _done_if(*states: EndState) -> Callable[[Any], EndState]:
    def end_state(error: Any) -> EndState:
        found = _end_state(error)
        return EndState.DONE if found in states else found

    return end_state


def _abort_all(kafka: Any, log: Any, names: Any, reports: Any) -> None:
    open_now = kafka.list_open(lambda each: names.parse(each) is not None)
    described = kafka.describe([each.transactional_id for each in open_now]).values()
    protocol = reports[0].session.identity.protocol if reports else TransactionProtocol.V2
    found = [replace(each.identity, protocol=protocol) for each in described if each is not None]
    kafka.end(found, is_commit=False)


def _append_without_fence(topic: DecisionTopic, session: Any, *records: Any) -> Any:
    for key, value in records:
        topic.append_plainly(key, value)
    return session


def _begin_without_asking(ids: Any, held: Mandate, describe: Any) -> None:
    ids._is_first_batch = ids._mandate is None
    ids._mandate = held.session.identity
    ids._ready, ids._used = ids._used + ids._ready, []


def _all_committed(kafka: Any, decision: Any, pending: Any, names: Any) -> Any:
    return dict.fromkeys(pending, Outcome.COMMITTED)


def _finish_none(kafka: Any, log: DecisionLog, names: Any, session: Any) -> Any:
    log.catch_up()
    return session, []


MUTANTS = (
    Mutant(
        "no open transaction of a dead driver is aborted",
        ((_recovery, "stray_transactions", _gives([])), (_commit, "stray_transactions", _gives([]))),
        8,
    ),
    Mutant("a replay is written again", ((Mandate, "plan", _gives(TaskPlan.WRITE)),), 3),
    Mutant("a replay is always drained", ((Mandate, "plan", _gives(TaskPlan.DRAIN)),), 2),
    Mutant("a refused commit counts as committed", ((_finish, "_find_out", _gives(Outcome.COMMITTED)),), 64),
    Mutant("a refused commit counts as lost", ((_finish, "_find_out", _gives(Outcome.LOST)),), 27),
    Mutant("what is decided is noted and not committed", ((_finish, "_commit", _all_committed),), 3),
    Mutant("a recovery finishes nothing", ((_recovery, "_finish_all", _finish_none),), 5),
    Mutant("a decided batch is done before it is finished", ((_commit, "_finish", _gives(None)),), 3),
    Mutant("a batch is finished without a decision", ((_commit, "_decide", lambda *a: a[3]),), 19),
    Mutant("a fenced end counts as done", ((steps, "_end_state", _done_if(EndState.FENCED)),), 64),
    Mutant(
        "an end without an answer counts as done", ((steps, "_end_state", _done_if(EndState.UNKNOWN)),), 7
    ),
    Mutant("a refused end counts as done", ((steps, "_end_state", _done_if(EndState.REFUSED)),), 269),
    Mutant("an abort does not look at the log", ((driver_side, "abort", _abort_all),), 7),
    Mutant(
        "strays are aborted although they are decided",
        ((_strays, "_decided_ids", _gives(frozenset())),),
        34,
    ),
    Mutant(
        "a decision is written without a transaction",
        ((DecisionTopic, "append", _append_without_fence),),
        None,
    ),
    Mutant(
        "open decisions are not waited for",
        ((DecisionTopic, "stable_end", lambda self, *, waits: _stable_end(self, waits=False)),),
        None,
    ),
    Mutant(
        "a recovery does not look whether the prefix is still its own",
        ((_recovery, "_check_still_ours", _gives(None)),),
        968,
    ),
    Mutant("a commit does not look for an earlier decision", ((_commit, "_previous", _gives(None)),), 2),
    Mutant(
        "used ids are used again without asking",
        ((_reused_ids.ReusedIds, "_begin_batch", _begin_without_asking),),
        None,
    ),
    Mutant("protocol 1 is taken for 2", ((Transactions, "protocol", _gives(TransactionProtocol.V2)),), None),
    Mutant("protocol 2 is taken for 1", ((Transactions, "protocol", _gives(TransactionProtocol.V1)),), None),
    Mutant(
        "transactions are not looked at before a decision", ((_commit, "check_all_open", _gives(None)),), None
    ),
    Mutant(
        "the order of batches is not checked",
        ((mandate, "check_order", _gives(None)), (_commit, "check_order", _gives(None))),
        2,
    ),
    Mutant("an incomplete batch may be passed", ((mandate, "_check_whole", _gives(None)),), None),
    Mutant("drained rows are not compared with lost ones", ((_replay, "_differences", _gives([])),), None),
    Mutant(
        "a task takes an id that is in use",
        ((task_writer, "_free_id", lambda t, n, at, attempt: n.data_id(at, 0)),),
        None,
    ),
)


def first_kill(mutant: Mutant, seeds: range, fails: Callable[[int], bool]) -> int | None:
    """Return the first of the seeds whose history finds a mutant; None if none does."""
    with mutant.planted():
        return next((seed for seed in seeds if fails(seed)), None)
