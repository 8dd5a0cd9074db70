"""Bugs to plant: tasks, their ids, and decisions."""

from __future__ import annotations

from penstock.sink.exactly_once import _aborted, _replay, _target_topics, mandate, task_writer
from penstock.sink.exactly_once._reused_ids import ReusedIds
from penstock.sink.exactly_once.decision import Decision
from penstock.sink.exactly_once.mandate import Mandate
from tests.simulation.mutants.making import NEVER, history, mutant
from tests.simulation.plan import Aim, Fault, Kind

TASKS = (
    mutant(
        "a replay is written again",
        Mandate.plan,
        "TaskPlan.REWRITE if is_lost else TaskPlan.DRAIN",
        "TaskPlan.REWRITE",
        seed=3,
    ),
    mutant(
        "a lost part is not written again",
        Mandate.plan,
        "TaskPlan.REWRITE if is_lost else TaskPlan.DRAIN",
        "TaskPlan.DRAIN",
        seed=3,
    ),
    mutant(
        "a withdrawn batch is drained",
        Mandate.plan,
        "if known.status is DecisionStatus.WITHDRAWN:",
        "if False:",
        seed=60,
    ),
    mutant(
        "a new batch is drained",
        Mandate.plan,
        "if batch_id > known.batch_id:",
        "if batch_id > known.batch_id + 1:",
        seed=1,
    ),
    mutant(
        "an incomplete batch may be passed",
        mandate._check_whole,
        "if known.status is not DecisionStatus.LOST:",
        "if True:",
        found_by=history(Fault(2, Kind.TIME, 100, Aim.END), Fault(2, Kind.CATCH, 1, Aim.END), batch_count=2),
    ),
    mutant(
        "the order of batches is not checked",
        mandate.check_order,
        "if batch_id >= newest_batch_id:",
        "if True:",
        seed=25,
    ),
    mutant(
        "tasks are not told which part is lost",
        mandate.known_batch,
        "frozenset(each.spark_partition_id for each in lost)",
        "frozenset()",
        found_by=history(Fault(2, Kind.TIME, 100, Aim.END)),
    ),
    mutant(
        "a task takes an id that is in use",
        task_writer._free_id,
        "if description is None or description.state is not TransactionState.ONGOING:",
        "if True:",
        found_by=history(NEVER, task_count=3, batch_count=2, is_speculative=True, seed=2),
    ),
    mutant(
        "a task drains nothing",
        task_writer.write_in_transaction,
        "if plan is TaskPlan.DRAIN:",
        "if False:",
        seed=37,
    ),
    mutant(
        "a task reports no drained rows",
        task_writer.write_in_transaction,
        "return replace(_report(mandate, task), drained=_drain(config, with_first(first, filled)))",
        "return _report(mandate, task)",
        seed=3,
    ),
    mutant(
        "a task reports no witness",
        task_writer._write,
        "None if producer.first_written is None else Witness(*producer.first_written)",
        "None",
        seed=19,
    ),
    mutant(
        "a task reports no topics",
        task_writer.write_in_transaction,
        "topics=written.topics",
        "topics=()",
        found_by=history(Fault(2, Kind.RECREATE, 1, Aim.WRITE), task_count=3),
    ),
    mutant(
        "a task reports its transaction before it has written",
        task_writer._write,
        "producer.flush()",
        "producer.acknowledged_record_count = digests.total.record_count",
        seed=3,
    ),
    mutant(
        "used ids are used again without asking",
        ReusedIds._begin_batch,
        "if not asked or mandate.protocol is not TransactionProtocol.V2:",
        "self._ready = asked\n    if True:",
        harmless="a write with another epoch is refused, and the next attempt of the task takes another id",
    ),
    mutant(
        "an identity is used with the epoch after the last one",
        ReusedIds.give_back,
        "if used.producer_epoch >= _LAST_EPOCH:",
        "if False:",
        harmless="Kafka 4.3.0, and the model, give such an id another producer id",
    ),
    mutant(
        "an identity is used again as it is",
        ReusedIds.give_back,
        "self._used.append(replace(used, producer_epoch=used.producer_epoch + 1))",
        "self._ready.append(used)",
        seed=61,
    ),
)

DECISIONS = (
    mutant(
        "a batch of which a part is lost counts as finished",
        Decision.settled,
        "if found <= {Outcome.COMMITTED}:",
        "if Outcome.COMMITTED in found:",
        seed=75,
    ),
    mutant(
        "a batch of which a part is lost is written again whole",
        Decision.settled,
        "is_withdrawn = found == {Outcome.LOST}",
        "is_withdrawn = Outcome.LOST in found",
        seed=21,
    ),
    mutant(
        "a batch that is lost whole waits for its parts",
        Decision.settled,
        "is_withdrawn = found == {Outcome.LOST}",
        "is_withdrawn = False",
        harmless="each part is then written again on its own, if the replay has the same rows",
    ),
    mutant(
        "the rows of a replay are not compared",
        _replay.drain_doubt,
        "written.digest is not None",
        "False",
        seed=106,
    ),
    mutant(
        "the count of a replay is not compared",
        _replay.drain_doubt,
        "drained.record_count != written.record_count",
        "False",
        harmless="the digest that is compared next covers the count",
    ),
    mutant(
        "a lost part is not compared with its replay",
        _replay.check_replay,
        'doubts += _differences(wanted, brought, "wrote", "lost")',
        "pass",
        harmless="the written part is still compared, and rows in the place of lost ones are seen once",
    ),
    mutant(
        "the written part is not compared with the replay of the lost one",
        _replay.check_replay,
        "sum(drained.values(), RecordDigest()) != lost.content_of(Outcome.COMMITTED)",
        "False",
        found_by=history(Fault(2, Kind.TIME, 100, Aim.END), Fault(2, Kind.OLD_CHECKPOINT, 4, Aim.END)),
    ),
    mutant(
        "another producer's transaction counts as open",
        _aborted._is_open,
        "and description.identity.has_same_epoch(committable.identity)",
        "",
        found_by=history(Fault(2, Kind.PAUSE, 32, Aim.WRITE), NEVER, task_count=6),
    ),
    mutant(
        "a topic that was created again is taken for the old one",
        _target_topics._difference,
        "if found_id is None or found_id == wanted.topic_id:",
        "if True:",
        found_by=history(Fault(2, Kind.RECREATE, 1, Aim.WRITE), task_count=3),
    ),
)
