"""What became of a batch whose deciding or finishing failed, as the error that says so.

Runs on the driver. Invariants: an error after the decision says that the batch is decided, what finishes it
and whether it may be run again; "not decided" is said only when the decision can not be committed any more;
the same is in the log, since Spark may cut an error's text.
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

_log = logging.getLogger(__name__)

E = TypeVar("E", bound=PenstockError)

NOT_DECIDED = "This attempt at it is not decided, so nothing that it wrote is visible."


class FateTeller:
    """Finds out what became of a decision, for one prefix. Not for several threads."""

    def __init__(self, kafka: SinkTransactions, log: DecisionLog, prefix: str) -> None:
        self._kafka = kafka
        self._log = log
        self._prefix = prefix

    def taken(
        self,
        batch: Decision | TaskReport,
        consequence: str,
        *,
        is_decided: bool | None = False,
        is_written: bool = False,
    ) -> PrefixTakenError:
        """The error for a writer whose prefix another one has taken; `is_written` as for `taken_error`."""
        error = taken_error(
            self._prefix,
            f"{where(batch.query_id, batch.batch_id)} was being committed",
            consequence,
            known=self._known(),
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            is_written=is_written,
            is_decided=is_decided,
        )
        return error if is_decided is False else _logged(error)

    def _known(self) -> dict[str, KnownBatch]:
        """The newest batches of all queries, as the log shows them now; none when it cannot be read."""
        try:
            decisions = self._log.catch_up(waits=False)
            return {query_id: known_batch(each) for query_id, each in decisions.items()}
        except PenstockError as error:
            _log.warning("prefix %s: cannot read the decision log now: %s", self._prefix, error)
            return {}

    def of_failed_decision(
        self, session: ProducerSession, decision: Decision, error: Exception
    ) -> PenstockError:
        """The error to raise where writing the decision failed."""
        if isinstance(error, ProducerFencedError):
            return self._taken_while_deciding(decision)
        try:
            # From here the decision is either committed or can never be; but only if this is answered.
            ended = self._kafka.end([session.identity], is_commit=False)[session.identity]
            if ended.state in (EndState.FENCED, EndState.UNKNOWN_ID):
                return self._taken_while_deciding(decision)
            trace = None if ended.state is EndState.UNKNOWN else self._log.trace_of(decision)
        except PenstockError as second:
            _log.warning("prefix %s: what became of the decision is unknown: %s", self._prefix, second)
            trace = None
        if trace is Trace.NONE:
            return _with_words(error, NOT_DECIDED)
        return _logged(
            self._decided_error(decision, error, is_decided=True if trace is Trace.FOUND else None)
        )

    def of_failed_finish(self, decision: Decision, error: Exception) -> PenstockError:
        """The error to raise where the decision is written and finishing it failed."""
        if isinstance(error, ProducerFencedError):
            fate = f"It was decided before: {self._finisher(decision)}{STOOD_STILL}"
            return self.taken(decision, fate, is_decided=True)
        if isinstance(error, ExactlyOnceError):
            known = type(error)(f"{error.message}{no_repetition(decision)}", **error.facts, is_decided=True)
            return _logged(known)
        return _logged(self._decided_error(decision, error, is_decided=True))

    def _taken_while_deciding(self, decision: Decision) -> PrefixTakenError:
        """A fenced decision may be committed, and only its repetition be fenced."""
        try:
            trace = self._log.trace_of(decision)
        except DecisionLogError as error:
            fate = f"Whether it is decided, the log cannot tell: {error.message}{no_repetition(decision)}"
            return self.taken(decision, fate, is_decided=None)
        except PenstockError as error:
            _log.warning("prefix %s: cannot read the decision log now: %s", self._prefix, error)
            is_unknown = "Whether it is decided, the log cannot tell now; if it is, "
            fate = f"{is_unknown}{self._finisher(decision)}{STOOD_STILL}"
            return self.taken(decision, fate, is_decided=None)
        if trace is Trace.FOUND:
            fate = f"It was decided all the same: {self._finisher(decision)}"
            return self.taken(decision, fate, is_decided=True)
        if trace is Trace.OVERTAKEN:
            fate = f"A newer writer has gone on with it, or finished it.{no_repetition(decision)}"
            return self.taken(decision, fate, is_decided=None)
        return self.taken(decision, f"{NOT_DECIDED}{STOOD_STILL}")

    def _finisher(self, decision: Decision) -> str:
        return (
            f"the newer writer, the next start with this prefix, or `{self._command}` finishes it, or says "
            f"what of it was lost.{no_repetition(decision)}"
        )

    @property
    def _command(self) -> str:
        return f"penstock transactions recover --prefix {self._prefix} --yes"

    def _decided_error(
        self, decision: Decision, error: Exception, *, is_decided: bool | None
    ) -> DecidedError:
        what = error.message if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
        begin = (
            f"{decision.where} is decided, which means written, but it could not be finished"
            if is_decided
            else f"Whether {decision.where} is decided, which means written, is unknown"
        )
        return DecidedError(
            f"{begin[0].upper()}{begin[1:]}: {what} {self._what_to_do(decision, is_decided=is_decided)}",
            prefix=self._prefix,
            query_id=decision.query_id,
            batch_id=decision.batch_id,
            is_decided=is_decided,
            cause=type(error).__name__,
        )

    def _what_to_do(self, decision: Decision, *, is_decided: bool | None) -> str:
        if not decision.is_batch_write:
            again = (
                "Run it again with the same sink.write-id" if decision.is_named_write else "Restart the query"
            )
            return f"{again}: nothing is written twice. That, or `{self._command}`, finishes it."
        finishes = f"The next start with this prefix, or `{self._command}`, finishes it"
        if is_decided:
            return (
                f"Do not run it again: its rows would be doubled. {finishes}, and its rows become visible. "
                "(A write with sink.write-id can be run again.)"
            )
        return (
            f"Do not run it again yet: its rows could be doubled. {finishes}, if it is decided; run that "
            "command, then look at the target. (A write with sink.write-id can be run again.)"
        )


def no_repetition(decision: Decision) -> str:
    """A stream's batch that comes again is known, so is a write with a name; another batch write is not."""
    return " Do not run it again before you have looked at the target." if decision.is_batch_write else ""


def _with_words(error: Exception, words: str) -> PenstockError:
    if isinstance(error, PenstockError):
        return type(error)(f"{error.message} {words}", **error.facts)
    return ExactlyOnceError(f"{type(error).__name__}: {error}. {words}", cause=type(error).__name__)


def _logged(error: E) -> E:
    _log.error("%s", error)
    return error
