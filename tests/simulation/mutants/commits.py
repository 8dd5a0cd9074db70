"""Bugs to plant: commits, aborts, and how a decided batch is finished."""

from __future__ import annotations

from penstock.sink.exactly_once import _commit, _finish, _strays
from tests.simulation.mutants.making import NEVER, history, mutant
from tests.simulation.plan import Aim, Fault, Kind

COMMITS = (
    mutant(
        "transactions are not looked at before a decision",
        _commit.commit,
        "check_all_open(kafka, decision, _written(reports), names)",
        "pass",
        seed=66,
    ),
    mutant(
        "topics are not looked at before a decision",
        _commit.commit,
        "check_topics_in_place(kafka, decision, names, is_replay_of_lost=previous is not None)",
        "pass",
        found_by=history(Fault(2, Kind.RECREATE, 1, Aim.WRITE), task_count=3),
    ),
    mutant(
        "a batch is finished without a decision",
        _commit.commit,
        "session = _decide(kafka, log, names, head.session, decision, came_back_from, receipt)",
        "session = head.session",
        seed=0,
    ),
    mutant(
        "a decided batch is done before it is finished",
        _commit.commit,
        "_finish(kafka, log, names, session, decision)",
        "pass",
        seed=0,
    ),
    mutant(
        "a replay is not compared with what is written",
        _commit.commit,
        "_take_replay(kafka, log, names, head, reports, previous)",
        "pass",
        seed=53,
    ),
    mutant(
        "a commit does not look for an earlier decision",
        _commit._previous,
        "decision.batch_id < head.batch_id",
        "True",
        seed=0,
    ),
    mutant(
        "a commit takes an earlier batch's decision for that of its own",
        _commit._previous,
        "decision is None or decision.batch_id < head.batch_id",
        "decision is None",
        seed=0,
    ),
    mutant(
        "a withdrawn batch counts as written",
        _commit._previous,
        "None if decision.status is DecisionStatus.WITHDRAWN else decision",
        "decision",
        seed=60,
    ),
    mutant(
        "the replay of a lost part is taken for one of a whole batch",
        _commit._decision,
        "previous.status is DecisionStatus.LOST",
        "False",
        seed=21,
    ),
    mutant(
        "the replay of a lost part is not compared with it",
        _commit._decision,
        "check_replay(previous, reports, names)",
        "pass",
        seed=106,
    ),
    mutant(
        "the decision about a replay names only the replay",
        _commit._decision,
        "return decide_again(previous, written, topics)",
        "return decide(head.query_id, head.batch_id, len(reports), written, topics)",
        seed=76,
    ),
    mutant(
        "a lost part counts as a batch that is done",
        _commit._finish,
        "if settled.status is not DecisionStatus.FINISHED:",
        "if False:",
        seed=3,
    ),
    mutant(
        "a commit lists strays after it has written down the outcome",
        _commit._finish,
        "_abort_quietly(kafka, names, strays)",
        "_abort_quietly(kafka, names, _strays(kafka, log, names, session.identity.protocol)[0])",
        found_by=history(
            Fault(3, Kind.PAUSE, 100, Aim.END), Fault(10, Kind.PAUSE, 100, Aim.LIST), batch_count=2
        ),
    ),
    mutant(
        "a commit aborts the transactions that it has decided",
        _commit._strays,
        "stray_transactions(kafka, log, names, protocol), None",
        "stray_transactions(kafka, DecisionLog(log._store, 'other'), names, protocol), None",
        harmless="they are committed by then, and an abort filters them once more",
    ),
)

ABORTS = (
    mutant(
        "an abort does not look at the log",
        _commit.abort,
        "abort_strays(kafka, names, without_decided(log, strays))",
        "abort_strays(kafka, names, strays)",
        found_by=history(Fault(1, Kind.DEAF, 5, Aim.END), is_v2=False),
    ),
    mutant(
        "an abort does not read the news of the log",
        _commit.abort,
        "_catch_up(log)",
        "pass",
        found_by=history(Fault(1, Kind.DEAF, 5, Aim.END), is_v2=False),
    ),
    mutant(
        "an abort does not stop for a newer driver",
        _commit.abort,
        "if result.state in (EndState.FENCED, EndState.UNKNOWN_ID):",
        "if False:",
        found_by=history(
            Fault(3, Kind.PAUSE, 100, Aim.RECORD),
            Fault(3, Kind.PAUSE, 100, Aim.END),
            Fault(4, Kind.PAUSE, 100, Aim.END),
            Fault(5, Kind.PAUSE, 100, Aim.RECORD),
        ),
    ),
    mutant(
        "an abort lists strays when it has read the log",
        _commit.abort,
        "abort_strays(kafka, names, without_decided(log, strays))",
        "abort_strays(kafka, names, without_decided(log, _strays(kafka, log, names, decision.protocol)[0]))",
        found_by=history(
            Fault(2, Kind.TIME, 100, Aim.WRITE),
            Fault(2, Kind.PAUSE, 100, Aim.END),
            Fault(10, Kind.PAUSE, 100, Aim.LIST),
        ),
    ),
    mutant(
        "strays are aborted although they are decided",
        _strays._decided_ids,
        "if decision.status is DecisionStatus.DECIDED",
        "if False",
        found_by=history(Fault(1, Kind.DEAF, 5, Aim.END), is_v2=False),
    ),
    mutant(
        "finished transactions are taken for decided ones",
        _strays._decided_ids,
        "for committable in decision.with_outcome(Outcome.PENDING)",
        "for committable in decision.with_outcome(Outcome.LOST)",
        found_by=history(Fault(1, Kind.DEAF, 5, Aim.END), is_v2=False),
    ),
    mutant("no stray is found", _strays.stray_transactions, "if not ongoing:", "if True:", seed=1),
    mutant(
        "strays of protocol 1 are aborted with protocol 2",
        _strays.stray_transactions,
        "replace(each.identity, protocol=protocol)",
        "each.identity",
        seed=15,
    ),
)

FINISHING = (
    mutant(
        "an end without an answer is not an error of finishing",
        _finish._commit,
        "if result.state is EndState.UNKNOWN and result.error is not None:",
        "if False:",
        harmless="the markers are read then, and they say what became of the transaction",
    ),
    mutant(
        "a refused commit counts as committed",
        _finish._commit,
        "Outcome.COMMITTED if is_done else _find_out(kafka, decision, each, names)",
        "Outcome.COMMITTED",
        seed=3,
    ),
    mutant(
        "a refused commit counts as lost",
        _finish._commit,
        "Outcome.COMMITTED if is_done else _find_out(kafka, decision, each, names)",
        "Outcome.COMMITTED if is_done else Outcome.LOST",
        seed=12,
    ),
    mutant(
        "what is decided is noted and not committed",
        _finish._commit,
        "results = kafka.end([each.identity for each in pending], is_commit=True)",
        "return dict.fromkeys(pending, Outcome.COMMITTED)",
        seed=0,
    ),
    mutant(
        "what is decided is aborted",
        _finish._commit,
        "is_commit=True)",
        "is_commit=False)",
        seed=0,
    ),
    mutant(
        "an abort marker counts as a commit",
        _finish._find_out,
        "return Outcome.LOST",
        "return Outcome.COMMITTED",
        seed=21,
    ),
    mutant(
        "a commit marker counts as an abort",
        _finish._find_out,
        "return Outcome.COMMITTED",
        "return Outcome.LOST",
        seed=12,
    ),
    mutant(
        "the log is not asked for markers",
        _finish._find_out,
        "if committable.witness is not None:",
        "if False:",
        seed=12,
    ),
    mutant(
        "a marker is not waited for",
        _finish._find_out,
        "if time.monotonic() > deadline:",
        "if True:",
        harmless="the batch stays decided, and the next start asks again",
    ),
    mutant(
        "a transaction without a marker yet is lost",
        _finish._find_out,
        "if end is TransactionEnd.ABORTED:",
        "if end in (TransactionEnd.ABORTED, TransactionEnd.OPEN):",
        harmless="a commit is refused before its marker is there only if the transaction is being aborted",
    ),
    mutant(
        "only a refused end tells that a part is lost",
        _finish._coordinator_says,
        "if description.identity.producer_epoch != identity.producer_epoch + bump:",
        "if False:",
        found_by=history(
            Fault(1, Kind.NO_OFFSET, 1, Aim.WRITE),
            Fault(1, Kind.LOSE_ANSWER, 1, Aim.END),
            Fault(2, Kind.PAUSE, 100, Aim.END),
            Fault(2, Kind.DEAF, 50, Aim.WRITE),
            NEVER,
            task_count=1,
            is_speculative=True,
            seed=20,
        ),
    ),
    mutant(
        "a V2 transaction is looked for under its own epoch",
        _finish._coordinator_says,
        "1 if identity.protocol is TransactionProtocol.V2 else 0",
        "0",
        found_by=history(
            Fault(1, Kind.NO_OFFSET, 1, Aim.WRITE), Fault(1, Kind.TIME, 100, Aim.END), task_count=1
        ),
    ),
)
