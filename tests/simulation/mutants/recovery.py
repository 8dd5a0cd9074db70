"""Bugs to plant: recovery, the decision log, and `penstock transactions`."""

from __future__ import annotations

from penstock.sink.exactly_once import _fate, _recovery
from penstock.sink.exactly_once._log_contents import LogContents
from penstock.sink.exactly_once.by_hand import TransactionTools
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.log_topic import DecisionTopic
from tests.simulation.mutants.making import history, mutant
from tests.simulation.plan import Aim, Fault, Kind

RECOVERY = (
    mutant(
        "a recovery finishes nothing",
        _recovery.bring_to_end,
        "session, doubts = _finish_all(kafka, log, names, session)",
        "log.catch_up(); doubts = []",
        seed=0,
    ),
    mutant(
        "a recovery aborts nothing",
        _recovery.bring_to_end,
        "abort_strays(kafka, names, strays)",
        "pass",
        seed=6,
    ),
    mutant(
        "a recovery does not look whether the prefix is still its own",
        _recovery.bring_to_end,
        "_check_still_ours(kafka, log, names, session)",
        "pass",
        found_by=history(Fault(1, Kind.PAUSE, 100, Aim.END), Fault(4, Kind.PAUSE, 100, Aim.LIST)),
    ),
    mutant(
        "a recovery does not take the prefix, but goes on with the producer that has it",
        _recovery.take_prefix,
        "identity = kafka.init_producer(",
        "known = kafka.describe([names.committer_id])[names.committer_id]\n"
        "    identity = type(known.identity)(names.committer_id, known.identity.producer_id,\n"
        "        known.identity.producer_epoch, protocol) if known is not None else kafka.init_producer(",
        seed=2,
    ),
    mutant(
        "a recovery reads the log before it takes the prefix, and not after",
        _recovery.bring_to_end,
        "session = take_prefix(kafka, log, names, timeouts, protocol)\n"
        "        session, doubts = _finish_all(kafka, log, names, session)",
        "_make_sure_of_log(kafka, log, names); log.catch_up(); log.catch_up = lambda **_: log.decisions\n"
        "        session = take_prefix(kafka, log, names, timeouts, protocol)\n"
        "        session, doubts = _finish_all(kafka, log, names, session); del log.catch_up",
        found_by=history(
            Fault(1, Kind.PAUSE, 100, Aim.END),
            Fault(2, Kind.PAUSE, 100, Aim.TAKE),
            Fault(3, Kind.PAUSE, 100, Aim.RECORD),
        ),
    ),
    mutant(
        "a prefix leaves no record in its log before it is taken",
        _recovery._make_sure_of_log,
        "log.start()",
        "pass",
        seed=0,
    ),
    mutant(
        "tasks are not told what is written",
        _recovery.recover,
        "for each in log",
        "for each in {} and log",
        seed=0,
    ),
    mutant(
        "a recovery writes down the outcome of what it has finished, and no other",
        _recovery._finish_all,
        "decision.status is not DecisionStatus.DECIDED",
        "decision.status is DecisionStatus.FINISHED",
        seed=24,
    ),
    mutant(
        "an error does not drop what the driver remembers",
        DriverSide._run,
        "self._log = self._timeouts = None\n",
        "pass\n",
        harmless="it remembers what Kafka has acknowledged and what the log says, and reads on from there",
    ),
)

LOG = (
    mutant(
        "a decision is written without a transaction",
        DecisionTopic.append,
        "return self._appender.append(session, *records, timeout_ms=self._settings.timeout_ms)",
        "return [session for record in records if self.append_plainly(*record) is None][0]",
        found_by=history(Fault(3, Kind.PAUSE, 100, Aim.RECORD), Fault(7, Kind.KILL_AFTER, 1, Aim.RECORD)),
    ),
    mutant(
        "open decisions are not waited for",
        DecisionTopic.stable_end,
        "if stable >= end_offset or not waits:",
        "if True:",
        seed=36,
    ),
    mutant(
        "a snapshot forgets the decisions", LogContents.snapshot, "if not each.is_over", "if False", seed=28
    ),
    mutant(
        "a snapshot claims to hold records after it",
        DecisionLog.keep_short,
        "value = self._contents.snapshot(self._next_offset)",
        "value = self._contents.snapshot(self._next_offset + 4)",
        seed=1,
    ),
    mutant(
        "the log is read to the last snapshot only",
        DecisionLog._new_records,
        "if record.offset >= contents.through",
        "if record.offset > contents.through + 3",
        seed=1,
    ),
    mutant(
        "records at the beginning of the news are left out",
        DecisionLog._new_records,
        "return self._without_receipts(self._next_offset, end_offset)",
        "return self._without_receipts(self._next_offset + 3, end_offset)",
        seed=118,
    ),
    mutant(
        "an older record replaces a newer one",
        LogContents.apply,
        "_take(self._newest, query_id, record)",
        "query_id in self._newest or _take(self._newest, query_id, record)",
        seed=70,
    ),
    mutant(
        "a decision that was not read yet counts as not decided",
        DecisionLog.trace_of,
        "return self._trace(decision, waits=True) if trace is Trace.NONE else trace",
        "return Trace.NONE",
        found_by=history(
            Fault(1, Kind.LOSE_ANSWER, 1, Aim.DECISION),
            Fault(2, Kind.DEAF, 2, Aim.DECISION),
            Fault(3, Kind.NEIGHBOUR, 1, Aim.RECORD),
        ),
    ),
    mutant(
        "an error says not decided although it is unknown",
        _fate.fate_of_decision,
        "if trace is Trace.NONE:",
        "if trace is not Trace.FOUND:",
        seed=28,
    ),
    mutant(
        "an error says not decided before the decision is ended",
        _fate.fate_of_decision,
        "None if ended.state is EndState.UNKNOWN else log.trace_of(decision)",
        "log.trace_of(decision)",
        harmless="the look at the log waits until no transaction is open there, so the decision is ended too",
    ),
)

TOOLS = (
    mutant(
        "what is not in doubt is resolved by hand",
        TransactionTools.resolve,
        "check_resolvable(decision)",
        "pass",
        seed=28,
    ),
    mutant(
        "an abort of a prefix that looked new does not look again",
        TransactionTools.abort,
        "if is_prefix_new(self._kafka, self._log, self._names):\n            abort_strays",
        "if True:\n            abort_strays",
        found_by=history(
            Fault(1, Kind.OPERATOR),
            Fault(1, Kind.PAUSE, 10),
            Fault(1, Kind.PAUSE, 100, Aim.LIST),
            Fault(1, Kind.PAUSE, 100, Aim.END),
        ),
    ),
    mutant(
        "a command aborts what is open and finishes nothing",
        TransactionTools._settle_all,
        "_, doubts = self._settle()",
        "abort_strays(self._kafka, self._names, self._kafka and [each.description.identity "
        "for each in self.open_transactions()]); doubts = []",
        seed=132,
    ),
)
