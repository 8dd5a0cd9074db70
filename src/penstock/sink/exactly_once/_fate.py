"""Make the error for a batch whose deciding or finishing failed: is it decided, and what finishes it?

Runs on the driver. Invariants: an error after the decision says that the batch is decided, what finishes it,
and whether it may be run again. "Not decided" is said only when the decision can no longer be committed. The
same text is in the log, because Spark may cut the text of an error.
"""

from __future__ import annotations

import logging
from typing import TypeVar

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import EndState
from penstock.errors import (
    DecidedError,
    DecisionLogError,
    ExactlyOnceError,
    PenstockError,
    PrefixTakenError,
    ProducerFencedError,
)
from penstock.sink.exactly_once._prefix_users import STOOD_STILL, taken_error
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import Decision, where
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog, Trace
from penstock.sink.exactly_once.mandate import KnownBatch, known_batch
from penstock.sink.exactly_once.names import TransactionNames

_log = logging.getLogger(__name__)

E = TypeVar("E", bound=PenstockError)

NOT_DECIDED = "This attempt at it is not decided, so nothing that it wrote is visible."


def prefix_taken(
    log: DecisionLog,
    names: TransactionNames,
    batch: Decision | TaskReport,
    consequence: str,
    *,
    is_decided: bool | None = False,
    is_written: bool = False,
) -> PrefixTakenError:
    """Return the error for a writer whose prefix another one has taken; `is_written` as for `taken_error`."""
    error = taken_error(
        names.prefix,
        f"{where(batch.query_id, batch.batch_id)} was being committed",
        consequence,
        known=_known(log),
        query_id=batch.query_id,
        batch_id=batch.batch_id,
        is_written=is_written,
        is_decided=is_decided,
    )
    return error if is_decided is False else _logged(error)


def _known(log: DecisionLog) -> dict[str, KnownBatch]:
    """Return the newest batches of all queries, as the log shows them now; none when it cannot be read."""
    try:
        decisions = log.catch_up(waits=False)
        return {query_id: known_batch(each) for query_id, each in decisions.items()}
    except PenstockError as error:
        _log.warning("prefix %s: cannot read the decision log now: %s", log.location.prefix, error)
        return {}


def fate_of_decision(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    session: ProducerSession,
    decision: Decision,
    error: Exception,
) -> PenstockError:
    """Return the error to raise when writing the decision failed."""
    if isinstance(error, ProducerFencedError):
        return _taken_while_deciding(log, names, decision)
    try:
        # Once this is answered, the decision is either committed or can no longer be.
        ended = kafka.end([session.identity], is_commit=False)[session.identity]
        if ended.state in (EndState.FENCED, EndState.UNKNOWN_ID):
            return _taken_while_deciding(log, names, decision)
        trace = None if ended.state is EndState.UNKNOWN else log.trace_of(decision)
    except PenstockError as second:
        _log.warning("prefix %s: it is unknown what became of the decision: %s", names.prefix, second)
        trace = None
    if trace is Trace.NONE:
        return _with_words(error, NOT_DECIDED)
    is_decided = True if trace is Trace.FOUND else None
    return _logged(_decided_error(names, decision, error, is_decided=is_decided))


def fate_of_finish(
    log: DecisionLog, names: TransactionNames, decision: Decision, error: Exception
) -> PenstockError:
    """Return the error to raise when the decision is written and finishing it failed."""
    if isinstance(error, ProducerFencedError):
        fate = f"It was decided before: {_finisher(names, decision)}{STOOD_STILL}"
        return prefix_taken(log, names, decision, fate, is_decided=True)
    if isinstance(error, ExactlyOnceError):
        known = type(error)(f"{error.message}{no_repetition(decision)}", **error.facts, is_decided=True)
        return _logged(known)
    return _logged(_decided_error(names, decision, error, is_decided=True))


def _taken_while_deciding(log: DecisionLog, names: TransactionNames, decision: Decision) -> PrefixTakenError:
    """Return the error for a fenced decision, which may be committed all the same.

    Only its repetition is fenced then.
    """
    try:
        trace = log.trace_of(decision)
    except DecisionLogError as error:
        fate = f"It is unknown whether it is decided: {error.message}{no_repetition(decision)}"
        return prefix_taken(log, names, decision, fate, is_decided=None)
    except PenstockError as error:
        _log.warning("prefix %s: cannot read the decision log now: %s", names.prefix, error)
        is_unknown = (
            "It is unknown whether it is decided, because the decision log could not be read. If it is, "
        )
        fate = f"{is_unknown}{_finisher(names, decision)}{STOOD_STILL}"
        return prefix_taken(log, names, decision, fate, is_decided=None)
    if trace is Trace.FOUND:
        fate = f"It was decided all the same: {_finisher(names, decision)}"
        return prefix_taken(log, names, decision, fate, is_decided=True)
    if trace is Trace.OVERTAKEN:
        fate = f"A newer writer has continued or finished it.{no_repetition(decision)}"
        return prefix_taken(log, names, decision, fate, is_decided=None)
    return prefix_taken(log, names, decision, f"{NOT_DECIDED}{STOOD_STILL}")


def _finisher(names: TransactionNames, decision: Decision) -> str:
    return (
        f"the newer writer, the next start with this prefix, or `{_command(names)}` finishes it, or reports "
        f"what was lost.{no_repetition(decision)}"
    )


def _command(names: TransactionNames) -> str:
    return names.command("recover", "--yes")


def _decided_error(
    names: TransactionNames, decision: Decision, error: Exception, *, is_decided: bool | None
) -> DecidedError:
    what = error.message if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
    begin = (
        f"{decision.where} is decided, which means written, but it could not be finished"
        if is_decided
        else f"It is unknown whether {decision.where} is decided, which means written"
    )
    todo = _what_to_do(names, decision, is_decided=is_decided)
    return DecidedError(
        f"{begin[0].upper()}{begin[1:]}: {what} {todo}",
        prefix=names.prefix,
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        is_decided=is_decided,
        cause=type(error).__name__,
    )


def _what_to_do(names: TransactionNames, decision: Decision, *, is_decided: bool | None) -> str:
    command = _command(names)
    if not decision.is_batch_write:
        again = "Run it again with the same sink.write-id" if decision.is_named_write else "Restart the query"
        return f"{again}: nothing is written twice. That, or `{command}`, finishes it."
    finishes = f"The next start with this prefix, or `{command}`, finishes it"
    if is_decided:
        return (
            f"Do not run it again, because its rows would be doubled. {finishes}, and its rows become "
            "visible. (A write with sink.write-id can be run again.)"
        )
    return (
        f"Do not run it again yet, because its rows could be doubled. {finishes}, if it is decided. Run that "
        "command, then look at the target. (A write with sink.write-id can be run again.)"
    )


def no_repetition(decision: Decision) -> str:
    """Return the warning not to repeat a batch write without a name.

    A stream's batch that comes again is recognised, and so is a write with a name.
    """
    return " Do not run it again before you have looked at the target." if decision.is_batch_write else ""


def _with_words(error: Exception, words: str) -> PenstockError:
    if isinstance(error, PenstockError):
        return type(error)(f"{error.message} {words}", **error.facts)
    return ExactlyOnceError(f"{type(error).__name__}: {error}. {words}", cause=type(error).__name__)


def _logged(error: E) -> E:
    _log.error("%s", error)
    return error
