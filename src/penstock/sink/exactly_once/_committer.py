"""The committer: takes the reports of a batch's tasks, decides that the batch is written, and finishes it.

Runs on the driver, in `commit` and `abort` of the writer. `commit`, in this order:

1. Check what the tasks bring against the log: a new batch, a replay of a written one, or of lost parts; and
   that all their transactions are still open.
2. Write the decision under the mandate of the reports. Kafka refuses it when another driver has recovered
   since. From here the batch is written, whatever dies.
3. Finish: commit all its transactions, and write down what came of it.
4. Abort open transactions of other attempts at the batch.

Invariants: nothing is committed that is not decided; nothing decided is aborted; an error after 2 leaves
the batch decided, and the next recovery finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    TransactionProtocol,
    has_moved_on,
)
from penstock.errors import (
    DecisionLogError,
    ExactlyOnceError,
    PenstockError,
    ProducerFencedError,
    TransactionsInDoubtError,
)
from penstock.sink.exactly_once._aborted import check_all_open
from penstock.sink.exactly_once._elsewhere import find_written, prefix_changed_error
from penstock.sink.exactly_once._fate import NOT_DECIDED, FateTeller
from penstock.sink.exactly_once._finish import finish, lost_error
from penstock.sink.exactly_once._prefix_users import new_query_warning
from penstock.sink.exactly_once._probes import Step, reached
from penstock.sink.exactly_once._recovery import (
    abort_strays,
    stray_transactions,
    take_from_query,
    without_decided,
)
from penstock.sink.exactly_once._replay import (
    check_none_drained,
    check_none_written,
    check_replay,
    drain_doubt,
    drain_error,
)
from penstock.sink.exactly_once._target_topics import check_topics_in_place, gone_error, gone_topics
from penstock.sink.exactly_once.committable import Committable, TaskReport
from penstock.sink.exactly_once.decision import (
    Decision,
    DecisionStatus,
    Outcome,
    decide,
    decide_again,
)
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.mandate import check_order, known_batch
from penstock.sink.exactly_once.names import TransactionNames

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit did. A drained batch was written before, so that nothing is new."""

    record_count: int = 0
    transaction_count: int = 0
    is_drained: bool = False


class Committer:
    """Commits and aborts batches of one prefix. Not for several threads."""

    def __init__(
        self,
        kafka: SinkTransactions,
        log: DecisionLog,
        names: TransactionNames,
    ) -> None:
        self._kafka = kafka
        self._log = log
        self._names = names
        self._fates = FateTeller(kafka, log, names.prefix)

    def commit(self, reports: Sequence[TaskReport], siblings: Collection[str] = frozenset()) -> CommitSummary:
        """Decide that the batch of these reports is written, and finish it.

        Args:
            reports: one of each task of the batch, written under one mandate.
            siblings: other prefixes under which the query writes its batches, too.

        Raises:
            PrefixChangedError: it is written under a prefix that the query had before.
            PrefixTakenError: another writer has taken the prefix; this one must stop.
            TargetTopicError: a target topic was deleted or created again; nothing is decided.
            TransactionsLostError: the broker has aborted transactions; the batch has to be replayed.
            TransactionsInDoubtError: a replay is not what is written or was lost, or an outcome cannot be
                known.
            BatchOrderError: a later batch of the query is written already.
            DecidedError: the batch is decided, or may be, and finishing it failed; the next recovery does it.
            PenstockError: the batch is not decided.
        """
        if not reports:
            return CommitSummary()
        head = _checked(reports)
        with self._unless_taken(head, is_written=bool(_written(reports))):
            previous = self._previous(head)
            decision = self._decision(head, reports, previous, frozenset(siblings))
            if decision is not None:
                check_all_open(self._kafka, decision, _written(reports))
                check_topics_in_place(self._kafka, decision, is_replay_of_lost=previous is not None)
        if decision is None:
            return CommitSummary() if previous is None else self._take_replay(head, reports, previous)
        session = self._decide(head.session, decision)
        return self._finish(session, decision, len(_written(reports)))

    def abort(self, reports: Sequence[TaskReport]) -> None:
        """Abort the transactions of a batch that failed, unless it is decided.

        Spark calls this also when `commit` has failed after the decision; then nothing is done here, and
        the next recovery finishes the batch. The same when another writer has taken the prefix.

        Raises:
            PenstockError: no answer in time, or what is open cannot be listed; the next recovery does it.
        """
        if not reports:
            return
        decision = reports[0].session.identity
        # Listed before it is known that nobody has taken the prefix, as in `_finish`.
        strays, unlisted = self._strays(decision.protocol)
        # What was being decided when commit failed is decided or aborted after this, for certain. It names
        # the very transaction, so that a newer driver's is not touched.
        result = self._kafka.end([decision], is_commit=False)[decision]
        if result.state in (EndState.FENCED, EndState.UNKNOWN_ID):
            return
        if result.state is EndState.UNKNOWN and result.error is not None:
            raise result.error
        self._catch_up()
        abort_strays(self._kafka, self._names, without_decided(self._log, strays))
        if unlisted is not None:
            raise unlisted

    @contextmanager
    def _unless_taken(self, head: TaskReport, *, is_written: bool) -> Iterator[None]:
        """What does not fit together before a decision may be nothing but a newer driver's doing."""
        try:
            yield
        except DecisionLogError:
            raise
        except ExactlyOnceError as error:
            if has_moved_on(self._kafka.describe, head.session.identity):
                raise self._fates.taken(head, NOT_DECIDED, is_written=is_written) from error
            raise

    # ----- deciding

    def _catch_up(self) -> None:
        if not self._log.is_open:
            # Recovery, in another process, has opened it before the tasks began.
            self._log.open(create=False, is_expected=True)
        self._log.catch_up()
        self._log.check_started()

    def _previous(self, head: TaskReport) -> Decision | None:
        """The decision that exists about this very batch and still counts."""
        self._catch_up()
        decision = self._log.decisions.get(head.query_id)
        if decision is None or decision.batch_id < head.batch_id:
            return None
        check_order(self._names.prefix, head.query_id, head.batch_id, decision.batch_id)
        return None if decision.status is DecisionStatus.WITHDRAWN else decision

    def _check_elsewhere(self, decision: Decision, siblings: frozenset[str]) -> None:
        if decision.is_batch_write or decision.is_named_write:
            return  # its id is of this write, or of this prefix, alone
        found = find_written(
            self._log, decision, siblings, lambda prefix: take_from_query(self._kafka, prefix)
        )
        if found.holders:
            raise prefix_changed_error(self._log.place, decision, found.holders)
        if found.is_known:
            return
        known = {each.query_id: known_batch(each) for each in self._log.decisions.values()}
        warning = new_query_warning(known, self._names.prefix, decision.query_id)
        if warning is not None:
            _log.warning("%s", warning)

    def _decision(
        self,
        head: TaskReport,
        reports: Sequence[TaskReport],
        previous: Decision | None,
        siblings: frozenset[str],
    ) -> Decision | None:
        """What to decide; None where there is nothing: the batch has no rows, or is written already."""
        written = _written(reports)
        topics = [topic for report in reports for topic in report.topics]
        if previous is None:
            check_none_drained(head, _drained(reports))
            if not written:
                return None
            decision = decide(
                head.query_id, head.batch_id, len(reports), written, topics, sibling_count=len(siblings)
            )
            self._check_elsewhere(decision, siblings)
            return decision
        if previous.status is DecisionStatus.LOST:
            check_replay(previous, reports)
            return decide_again(previous, written, topics)
        check_none_written(previous, written)
        return None

    def _take_replay(
        self, head: TaskReport, reports: Sequence[TaskReport], previous: Decision
    ) -> CommitSummary:
        """Hold the replay of a finished batch to what is written."""
        drained = _drained(reports)
        try:
            if previous.takes_any_replay:
                self._log.append(head.session, previous.with_replay(drained))
            elif (error := self._replay_error(previous, drained)) is not None:
                self._note(head.session, previous.doubted(str(error.facts["doubt"])))
                raise error
            elif previous.doubt is not None:
                self._note(head.session, previous.doubted(None))
        except ProducerFencedError as error:
            raise self._fates.taken(head, NOT_DECIDED) from error
        if previous.is_named_write:
            _log.warning("%s is written already: nothing was written.", previous.where)
        return CommitSummary(is_drained=True)

    def _replay_error(self, previous: Decision, drained: RecordDigest) -> TransactionsInDoubtError | None:
        doubt = drain_doubt(previous, drained)
        if doubt is not None:
            return drain_error(previous, doubt)
        gone = gone_topics(self._kafka, previous.topics)
        return gone_error(previous, "; ".join(gone)) if gone else None

    def _note(self, session: ProducerSession, doubted: Decision) -> None:
        """Write down a doubt, for `penstock transactions`; without it the error says the same."""
        try:
            self._log.append(session, doubted)
        except ProducerFencedError:
            raise
        except PenstockError as error:
            _log.warning("prefix %s: cannot write down what a replay brought: %s", self._names.prefix, error)

    def _decide(self, session: ProducerSession, decision: Decision) -> ProducerSession:
        reached(Step.BEFORE_DECISION)
        try:
            following = self._log.append(session, decision)
        except Exception as error:
            raise self._fates.of_failed_decision(session, decision, error) from error
        reached(Step.DECIDED)
        return following

    # ----- finishing

    def _finish(self, session: ProducerSession, decision: Decision, transaction_count: int) -> CommitSummary:
        # Listed before it is written down that the batch is finished: if that succeeds, no other driver had
        # taken the prefix until then, and none of these transactions can be of a later one's tasks.
        strays, _ = self._strays(session.identity.protocol)
        try:
            _, settled = finish(self._kafka, self._log, session, decision, Step.FINISHED)
        except Exception as error:
            raise self._fates.of_failed_finish(decision, error) from error
        reached(Step.MARKED)
        if settled.status is not DecisionStatus.FINISHED:
            lost = lost_error(settled, self._names.prefix)
            _log.error("%s", lost)
            raise lost
        self._abort_strays(strays)
        record_count = sum(each.record_count for each in decision.with_outcome(Outcome.PENDING))
        return CommitSummary(record_count, transaction_count)

    def _strays(
        self, protocol: TransactionProtocol
    ) -> tuple[list[TransactionIdentity], PenstockError | None]:
        """Open transactions of the prefix that are not decided; none, and why, when they cannot be listed."""
        try:
            return stray_transactions(self._kafka, self._log, self._names, protocol), None
        except PenstockError as error:
            _log.warning("prefix %s: cannot list open transactions now: %s", self._names.prefix, error)
            return [], error

    def _abort_strays(self, strays: Sequence[TransactionIdentity]) -> None:
        """Other attempts' transactions would hold readers back until the next batch. Failing is no matter."""
        try:
            abort_strays(self._kafka, self._names, strays)
        except PenstockError as error:
            _log.warning("prefix %s: cannot abort open transactions now: %s", self._names.prefix, error)


def _written(reports: Sequence[TaskReport]) -> list[Committable]:
    return [report.committable for report in reports if report.committable is not None]


def _drained(reports: Sequence[TaskReport]) -> RecordDigest:
    return sum((report.drained for report in reports), RecordDigest())


def _checked(reports: Sequence[TaskReport]) -> TaskReport:
    """The first report, when all are of one batch and one mandate."""
    head = reports[0]
    for report in reports:
        is_same = (report.query_id, report.batch_id, report.session) == (
            head.query_id,
            head.batch_id,
            head.session,
        )
        if not is_same:
            raise ExactlyOnceError(
                f"Reports of different batches came together: {head.batch_id} of {head.query_id} and "
                f"{report.batch_id} of {report.query_id}. Nothing was decided. Restart the query; if this "
                "comes again, report it as a bug of penstock.",
                query_id=head.query_id,
                batch_id=head.batch_id,
            )
    return head
