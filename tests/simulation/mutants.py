"""Bugs to plant in the sink's recovery, commits, tasks and tools: the simulation has to find them.

`python -m tests.simulation --mutants N` looks for the first seed below N whose history breaks a promise. A
mutant names such a seed, so that a test needs one history for each. Invariant: without the mutant the history
of that seed keeps all promises, because all histories do.
"""

from __future__ import annotations

from typing import Any

from penstock.client.transactions import append, markers, steps
from penstock.client.transactions.append import TransactionalAppender
from penstock.client.transactions.steps import Transactions
from penstock.sink.exactly_once import (
    _aborted,
    _commit,
    _fate,
    _finish,
    _recovery,
    _replay,
    _strays,
    _target_topics,
    mandate,
    task_writer,
)
from penstock.sink.exactly_once._log_contents import LogContents
from penstock.sink.exactly_once._reused_ids import ReusedIds
from penstock.sink.exactly_once.by_hand import TransactionTools
from penstock.sink.exactly_once.decision import Decision
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.mandate import Mandate
from tests.simulation.planting import Edit, Mutant


def _mutant(
    name: str, function: Any, before: str, after: str, seed: int | None = None, harmless: str = ""
) -> Mutant:
    return Mutant(name, (Edit(function, before, after),), seed, harmless)


_COMMITS = (
    _mutant(
        "transactions are not looked at before a decision",
        _commit.commit,
        "check_all_open(kafka, decision, _written(reports), names)",
        "pass",
        seed=66,
    ),
    _mutant(
        "topics are not looked at before a decision",
        _commit.commit,
        "check_topics_in_place(kafka, decision, names, is_replay_of_lost=previous is not None)",
        "pass",
    ),
    _mutant(
        "a batch is finished without a decision",
        _commit.commit,
        "session = _decide(kafka, log, names, head.session, decision, came_back_from, receipt)",
        "session = head.session",
        seed=0,
    ),
    _mutant(
        "a decided batch is done before it is finished",
        _commit.commit,
        "_finish(kafka, log, names, session, decision)",
        "pass",
        seed=0,
    ),
    _mutant(
        "a replay is not compared with what is written",
        _commit.commit,
        "_take_replay(kafka, log, names, head, reports, previous)",
        "pass",
        seed=53,
    ),
    _mutant(
        "a commit does not look for an earlier decision",
        _commit._previous,
        "decision.batch_id < head.batch_id",
        "True",
        seed=0,
    ),
    _mutant(
        "a commit takes an earlier batch's decision for that of its own",
        _commit._previous,
        "decision is None or decision.batch_id < head.batch_id",
        "decision is None",
        seed=0,
    ),
    _mutant(
        "a withdrawn batch counts as written",
        _commit._previous,
        "None if decision.status is DecisionStatus.WITHDRAWN else decision",
        "decision",
        seed=60,
    ),
    _mutant(
        "the replay of a lost part is taken for one of a whole batch",
        _commit._decision,
        "previous.status is DecisionStatus.LOST",
        "False",
        seed=21,
    ),
    _mutant(
        "the replay of a lost part is not compared with it",
        _commit._decision,
        "check_replay(previous, reports, names)",
        "pass",
        seed=106,
    ),
    _mutant(
        "the decision about a replay names only the replay",
        _commit._decision,
        "return decide_again(previous, written, topics)",
        "return decide(head.query_id, head.batch_id, len(reports), written, topics)",
        seed=76,
    ),
    _mutant(
        "a lost part counts as a batch that is done",
        _commit._finish,
        "if settled.status is not DecisionStatus.FINISHED:",
        "if False:",
        seed=3,
    ),
    _mutant(
        "a commit lists strays after it has written down the outcome",
        _commit._finish,
        "_abort_quietly(kafka, names, strays)",
        "_abort_quietly(kafka, names, _strays(kafka, log, names, session.identity.protocol)[0])",
    ),
    _mutant(
        "a commit aborts the transactions that it has decided",
        _commit._strays,
        "stray_transactions(kafka, log, names, protocol), None",
        "stray_transactions(kafka, DecisionLog(log._store, 'other'), names, protocol), None",
        harmless="they are committed by then, and an abort filters them once more",
    ),
)

_ABORTS = (
    _mutant(
        "an abort does not look at the log",
        _commit.abort,
        "abort_strays(kafka, names, without_decided(log, strays))",
        "abort_strays(kafka, names, strays)",
    ),
    _mutant("an abort does not read the news of the log", _commit.abort, "_catch_up(log)", "pass"),
    _mutant(
        "an abort does not stop for a newer driver",
        _commit.abort,
        "if result.state in (EndState.FENCED, EndState.UNKNOWN_ID):",
        "if False:",
    ),
    _mutant(
        "an abort lists strays when it has read the log",
        _commit.abort,
        "abort_strays(kafka, names, without_decided(log, strays))",
        "abort_strays(kafka, names, without_decided(log, _strays(kafka, log, names, decision.protocol)[0]))",
    ),
    _mutant(
        "strays are aborted although they are decided",
        _strays._decided_ids,
        "if decision.status is DecisionStatus.DECIDED",
        "if False",
    ),
    _mutant(
        "finished transactions are taken for decided ones",
        _strays._decided_ids,
        "for committable in decision.with_outcome(Outcome.PENDING)",
        "for committable in decision.with_outcome(Outcome.LOST)",
    ),
    _mutant("no stray is found", _strays.stray_transactions, "if not ongoing:", "if True:", seed=1),
    _mutant(
        "strays of protocol 1 are aborted with protocol 2",
        _strays.stray_transactions,
        "replace(each.identity, protocol=protocol)",
        "each.identity",
        seed=15,
    ),
)

_FINISHING = (
    _mutant(
        "an end without an answer is not an error of finishing",
        _finish._commit,
        "if result.state is EndState.UNKNOWN and result.error is not None:",
        "if False:",
        harmless="the markers are read then, and they say what became of the transaction",
    ),
    _mutant(
        "a refused commit counts as committed",
        _finish._commit,
        "Outcome.COMMITTED if is_done else _find_out(kafka, decision, each, names)",
        "Outcome.COMMITTED",
        seed=3,
    ),
    _mutant(
        "a refused commit counts as lost",
        _finish._commit,
        "Outcome.COMMITTED if is_done else _find_out(kafka, decision, each, names)",
        "Outcome.COMMITTED if is_done else Outcome.LOST",
        seed=12,
    ),
    _mutant(
        "what is decided is noted and not committed",
        _finish._commit,
        "results = kafka.end([each.identity for each in pending], is_commit=True)",
        "return dict.fromkeys(pending, Outcome.COMMITTED)",
        seed=0,
    ),
    _mutant(
        "what is decided is aborted",
        _finish._commit,
        "is_commit=True)",
        "is_commit=False)",
        seed=0,
    ),
    _mutant(
        "an abort marker counts as a commit",
        _finish._find_out,
        "return Outcome.LOST",
        "return Outcome.COMMITTED",
        seed=21,
    ),
    _mutant(
        "a commit marker counts as an abort",
        _finish._find_out,
        "return Outcome.COMMITTED",
        "return Outcome.LOST",
        seed=12,
    ),
    _mutant(
        "the log is not asked for markers",
        _finish._find_out,
        "if committable.witness is not None:",
        "if False:",
        seed=12,
    ),
    _mutant(
        "a marker is not waited for",
        _finish._find_out,
        "if time.monotonic() > deadline:",
        "if True:",
        harmless="the batch stays decided, and the next start asks again",
    ),
    _mutant(
        "a transaction without a marker yet is lost",
        _finish._find_out,
        "if end is TransactionEnd.ABORTED:",
        "if end in (TransactionEnd.ABORTED, TransactionEnd.OPEN):",
        harmless="a commit is refused before its marker is there only if the transaction is being aborted",
    ),
    _mutant(
        "only a refused end tells that a part is lost",
        _finish._coordinator_says,
        "if description.identity.producer_epoch != identity.producer_epoch + bump:",
        "if False:",
    ),
    _mutant(
        "a V2 transaction is looked for under its own epoch",
        _finish._coordinator_says,
        "1 if identity.protocol is TransactionProtocol.V2 else 0",
        "0",
    ),
)

_RECOVERY = (
    _mutant(
        "a recovery finishes nothing",
        _recovery.bring_to_end,
        "session, doubts = _finish_all(kafka, log, names, session)",
        "log.catch_up(); doubts = []",
        seed=0,
    ),
    _mutant(
        "a recovery aborts nothing",
        _recovery.bring_to_end,
        "abort_strays(kafka, names, strays)",
        "pass",
        seed=6,
    ),
    _mutant(
        "a recovery does not look whether the prefix is still its own",
        _recovery.bring_to_end,
        "_check_still_ours(kafka, log, names, session)",
        "pass",
    ),
    _mutant(
        "a recovery does not take the prefix, but goes on with the producer that has it",
        _recovery.take_prefix,
        "identity = kafka.init_producer(",
        "known = kafka.describe([names.committer_id])[names.committer_id]\n"
        "    identity = type(known.identity)(names.committer_id, known.identity.producer_id,\n"
        "        known.identity.producer_epoch, protocol) if known is not None else kafka.init_producer(",
        seed=2,
    ),
    _mutant(
        "a recovery reads the log before it takes the prefix, and not after",
        _recovery.bring_to_end,
        "session = take_prefix(kafka, log, names, timeouts, protocol)",
        "_make_sure_of_log(kafka, log, names); log.catch_up(); log.catch_up = lambda **_: log.decisions\n"
        "        session = take_prefix(kafka, log, names, timeouts, protocol); del log.catch_up",
    ),
    _mutant(
        "a prefix leaves no record in its log before it is taken",
        _recovery._make_sure_of_log,
        "log.start()",
        "pass",
        seed=0,
    ),
    _mutant(
        "tasks are not told what is written",
        _recovery.recover,
        "for each in log",
        "for each in {} and log",
        seed=0,
    ),
    _mutant(
        "a recovery writes down the outcome of what it has finished, and no other",
        _recovery._finish_all,
        "decision.status is not DecisionStatus.DECIDED",
        "decision.status is DecisionStatus.FINISHED",
        seed=24,
    ),
    _mutant(
        "an error does not drop what the driver remembers",
        DriverSide._run,
        "self._log = self._timeouts = None\n",
        "pass\n",
    ),
)

_LOG = (
    _mutant(
        "a decision is written without a transaction",
        DecisionTopic.append,
        "return self._appender.append(session, *records, timeout_ms=self._settings.timeout_ms)",
        "return [session for record in records if self.append_plainly(*record) is None][0]",
    ),
    _mutant(
        "open decisions are not waited for",
        DecisionTopic.stable_end,
        "if stable >= end_offset or not waits:",
        "if True:",
        seed=36,
    ),
    _mutant(
        "a snapshot forgets the decisions", LogContents.snapshot, "if not each.is_over", "if False", seed=28
    ),
    _mutant(
        "a snapshot claims to hold records after it",
        DecisionLog.keep_short,
        "value = self._contents.snapshot(self._next_offset)",
        "value = self._contents.snapshot(self._next_offset + 4)",
        seed=1,
    ),
    _mutant(
        "the log is read to the last snapshot only",
        DecisionLog._new_records,
        "if record.offset >= contents.through",
        "if record.offset > contents.through + 3",
        seed=1,
    ),
    _mutant(
        "records at the beginning of the news are left out",
        DecisionLog._new_records,
        "return self._without_receipts(self._next_offset, end_offset)",
        "return self._without_receipts(self._next_offset + 3, end_offset)",
        seed=118,
    ),
    _mutant(
        "an older record replaces a newer one",
        LogContents.apply,
        "_take(self._newest, query_id, record)",
        "query_id in self._newest or _take(self._newest, query_id, record)",
        seed=70,
    ),
    _mutant(
        "a decision that was not read yet counts as not decided",
        DecisionLog.trace_of,
        "return self._trace(decision, waits=True) if trace is Trace.NONE else trace",
        "return Trace.NONE",
    ),
    _mutant(
        "an error says not decided although it is unknown",
        _fate.fate_of_decision,
        "if trace is Trace.NONE:",
        "if trace is not Trace.FOUND:",
        seed=28,
    ),
    _mutant(
        "an error says not decided before the decision is ended",
        _fate.fate_of_decision,
        "None if ended.state is EndState.UNKNOWN else log.trace_of(decision)",
        "log.trace_of(decision)",
    ),
)

_TASKS = (
    _mutant(
        "a replay is written again",
        Mandate.plan,
        "TaskPlan.REWRITE if is_lost else TaskPlan.DRAIN",
        "TaskPlan.REWRITE",
        seed=3,
    ),
    _mutant(
        "a lost part is not written again",
        Mandate.plan,
        "TaskPlan.REWRITE if is_lost else TaskPlan.DRAIN",
        "TaskPlan.DRAIN",
        seed=3,
    ),
    _mutant(
        "a withdrawn batch is drained",
        Mandate.plan,
        "if known.status is DecisionStatus.WITHDRAWN:",
        "if False:",
        seed=60,
    ),
    _mutant(
        "a new batch is drained",
        Mandate.plan,
        "if batch_id > known.batch_id:",
        "if batch_id > known.batch_id + 1:",
        seed=1,
    ),
    _mutant(
        "an incomplete batch may be passed",
        mandate._check_whole,
        "if known.status is not DecisionStatus.LOST:",
        "if True:",
    ),
    Mutant(
        "the order of batches is not checked",
        (Edit(mandate.check_order, "if batch_id >= newest_batch_id:", "if True:"),),
        seed=25,
    ),
    _mutant(
        "tasks are not told which part is lost",
        mandate.known_batch,
        "frozenset(each.spark_partition_id for each in lost)",
        "frozenset()",
    ),
    _mutant(
        "a task takes an id that is in use",
        task_writer._free_id,
        "if description is None or description.state is not TransactionState.ONGOING:",
        "if True:",
    ),
    _mutant(
        "a task drains nothing",
        task_writer.write_in_transaction,
        "if plan is TaskPlan.DRAIN:",
        "if False:",
        seed=37,
    ),
    _mutant(
        "a task reports no drained rows",
        task_writer.write_in_transaction,
        "return replace(_report(mandate, task), drained=_drain(config, with_first(first, filled)))",
        "return _report(mandate, task)",
        seed=3,
    ),
    _mutant(
        "a task reports no witness",
        task_writer._write,
        "None if producer.first_written is None else Witness(*producer.first_written)",
        "None",
        seed=19,
    ),
    _mutant(
        "a task reports no topics", task_writer.write_in_transaction, "topics=written.topics", "topics=()"
    ),
    _mutant(
        "a task reports its transaction before it has written",
        task_writer._write,
        "producer.flush()",
        "producer.acknowledged_record_count = digests.total.record_count",
        seed=3,
    ),
    _mutant(
        "used ids are used again without asking",
        ReusedIds._begin_batch,
        "if not asked or mandate.protocol is not TransactionProtocol.V2:",
        "self._ready = asked\n    if True:",
    ),
    _mutant(
        "an identity is used with the epoch after the last one",
        ReusedIds.give_back,
        "if used.producer_epoch >= _LAST_EPOCH:",
        "if False:",
        harmless="Kafka 4.3.0, and the model, give such an id another producer id",
    ),
    _mutant(
        "an identity is used again as it is",
        ReusedIds.give_back,
        "self._used.append(replace(used, producer_epoch=used.producer_epoch + 1))",
        "self._ready.append(used)",
        seed=61,
    ),
)

_DECISIONS = (
    _mutant(
        "a batch of which a part is lost counts as finished",
        Decision.settled,
        "if found <= {Outcome.COMMITTED}:",
        "if Outcome.COMMITTED in found:",
        seed=75,
    ),
    _mutant(
        "a batch of which a part is lost is written again whole",
        Decision.settled,
        "is_withdrawn = found == {Outcome.LOST}",
        "is_withdrawn = Outcome.LOST in found",
        seed=21,
    ),
    _mutant(
        "a batch that is lost whole waits for its parts",
        Decision.settled,
        "is_withdrawn = found == {Outcome.LOST}",
        "is_withdrawn = False",
        harmless="each part is then written again on its own, if the replay has the same rows",
    ),
    _mutant(
        "the rows of a replay are not compared",
        _replay.drain_doubt,
        "written.digest is not None",
        "False",
        seed=106,
    ),
    _mutant(
        "the count of a replay is not compared",
        _replay.drain_doubt,
        "drained.record_count != written.record_count",
        "False",
        harmless="the digest that is compared next covers the count",
    ),
    _mutant(
        "a lost part is not compared with its replay",
        _replay.check_replay,
        'doubts += _differences(wanted, brought, "wrote", "lost")',
        "pass",
        harmless="the written part is still compared, and rows in the place of lost ones are seen once",
    ),
    _mutant(
        "the written part is not compared with the replay of the lost one",
        _replay.check_replay,
        "sum(drained.values(), RecordDigest()) != lost.content_of(Outcome.COMMITTED)",
        "False",
    ),
    _mutant(
        "another producer's transaction counts as open",
        _aborted._is_open,
        "and description.identity.has_same_epoch(committable.identity)",
        "",
    ),
    _mutant(
        "a topic that was created again is taken for the old one",
        _target_topics._difference,
        "if found_id is None or found_id == wanted.topic_id:",
        "if True:",
    ),
)

_CLIENT = (
    _mutant(
        "a fenced end counts as done",
        steps._end_state,
        "return EndState.FENCED",
        "return EndState.DONE",
        seed=17,
    ),
    _mutant(
        "an end of an unknown producer counts as done",
        steps._end_state,
        "return EndState.UNKNOWN_ID",
        "return EndState.DONE",
    ),
    _mutant(
        "a refused end counts as done",
        steps._end_state,
        "return EndState.REFUSED if",
        "return EndState.DONE if",
        seed=32,
    ),
    _mutant(
        "an end without an answer counts as done",
        steps._end_state,
        "else EndState.UNKNOWN",
        "else EndState.DONE",
        seed=39,
    ),
    _mutant(
        "protocol 1 is ended with the request of protocol 2",
        steps.end_request,
        "versions.END_TXN_V1 if is_v1 else versions.END_TXN_V2",
        "versions.END_TXN_V2",
        seed=15,
    ),
    _mutant(
        "the end of a transaction gives no new epoch",
        steps.next_identity,
        "if identity.protocol is TransactionProtocol.V1 or response.producer_id < 0:",
        "if True:",
        seed=31,
    ),
    _mutant(
        "topic partitions are not added to a transaction of protocol 1",
        Transactions.add_topic_partitions,
        "if identity.protocol is not TransactionProtocol.V1 or not topic_partitions:",
        "if True:",
        seed=9,
    ),
    _mutant(
        "one broker is asked for all open transactions",
        Transactions._list_once,
        "for node_id in sorted(brokers)",
        "for node_id in sorted(brokers)[:1]",
        seed=5,
    ),
    _mutant(
        "the state of a transaction does not count when strays are listed",
        steps._list_request,
        "state.value for state in sorted(_OPEN_STATES, key=lambda state: state.value)",
        "TransactionState.PREPARE_ABORT.value for _ in (1,)",
        seed=5,
    ),
    _mutant(
        "protocol 1 is taken for 2",
        Transactions.protocol,
        "return TransactionProtocol.V2 if is_v2 else TransactionProtocol.V1",
        "return TransactionProtocol.V2",
        seed=15,
    ),
    _mutant(
        "protocol 2 is taken for 1",
        Transactions.protocol,
        "return TransactionProtocol.V2 if is_v2 else TransactionProtocol.V1",
        "return TransactionProtocol.V1",
        harmless="a cluster with protocol 2 also serves protocol 1, which keeps the same promises",
    ),
    _mutant(
        "each record of a session has sequence number 0",
        TransactionalAppender.append,
        "advance_sequence(session.next_sequence, len(records)) if is_same_epoch else 0",
        "0",
        seed=78,
    ),
    _mutant(
        "a record counts as committed when it is written",
        TransactionalAppender.append,
        "result = self._transactions.end([identity], is_commit=True, timeout_ms=left_ms(deadline))[identity]",
        "return session",
        seed=5,
    ),
    _mutant(
        "another producer's marker counts",
        markers.find_marker,
        "header.producer_id == producer_id and",
        "",
        seed=40,
    ),
    _mutant(
        "the end of the log counts as an abort",
        markers.transaction_end,
        "return TransactionEnd.OPEN",
        "return TransactionEnd.ABORTED",
        harmless="as for a transaction without a marker yet",
    ),
    _mutant(
        "a fenced write is not told as one",
        append.write_record_batch,
        "is_fencing(code)",
        "False",
        harmless="the error is another one, and the query stops as well",
    ),
)

_TOOLS = (
    _mutant(
        "what is not in doubt is resolved by hand",
        TransactionTools.resolve,
        "check_resolvable(decision)",
        "pass",
        seed=28,
    ),
    _mutant(
        "an abort of a prefix that looked new does not look again",
        TransactionTools.abort,
        "if is_prefix_new(self._kafka, self._log, self._names):\n            abort_strays",
        "if True:\n            abort_strays",
    ),
    _mutant(
        "a command aborts what is open and finishes nothing",
        TransactionTools._settle_all,
        "_, doubts = self._settle()",
        "abort_strays(self._kafka, self._names, self._kafka and [each.description.identity "
        "for each in self.open_transactions()]); doubts = []",
        seed=132,
    ),
)

MUTANTS = (*_COMMITS, *_ABORTS, *_FINISHING, *_RECOVERY, *_LOG, *_TASKS, *_DECISIONS, *_CLIENT, *_TOOLS)
