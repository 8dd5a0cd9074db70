"""The loop in many histories of kills, lost and late answers, standing tasks and new plans."""

from __future__ import annotations

import random

import pytest

from penstock.client.net import error_codes as codes
from penstock.client.transactions.steps import TransactionProtocol
from penstock.options.config import DeliveryGuarantee
from penstock.relay import _pipeline
from penstock.relay._pipeline import Stage, Transaction
from penstock.relay.loop import End, Loop
from penstock.relay.messages import AddGroup, Done, EndTransaction, Refused, TakeId
from tests.examples import examples
from tests.unit.relay.model_kafka import ModelKafka
from tests.unit.relay.simulation import Faults, Simulation

HISTORIES = examples(30)
_DURATION_MS = 4_000
V1, V2 = TransactionProtocol.V1, TransactionProtocol.V2
ROUGH = Faults(refused=0.3, kills_a_second=5)
"""What the order rules are for: retries, and restarts right after them."""
NO_FAULTS = Faults(0, 0, 0, 0, kills_a_second=1e-6, plans_a_second=1e-6)


@pytest.mark.hypothesis
@pytest.mark.parametrize("protocol", [V1, V2])
@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("faults", [Faults(), ROUGH], ids=["usual", "rough"])
def test_each_record_is_written_once_and_in_order(
    protocol: TransactionProtocol, lanes: int, faults: Faults
) -> None:
    for seed in range(HISTORIES):
        Simulation(seed, protocol=protocol, lanes=lanes, faults=faults).run(_DURATION_MS)


@pytest.mark.hypothesis
@pytest.mark.parametrize("last_epoch", [2, 8])
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("faults", [Faults(), ROUGH], ids=["usual", "rough"])
def test_producer_ids_that_are_worn_out_are_replaced_on_the_way(
    lanes: int, last_epoch: int, faults: Faults
) -> None:
    """With protocol V2 each transaction takes an epoch. A producer id with few of them is replaced often."""
    rotations = 0
    for seed in range(HISTORIES):
        history = Simulation(seed, lanes=lanes, faults=faults, last_epoch=last_epoch).run(_DURATION_MS)
        rotations += history.kafka.rotations
    assert rotations > HISTORIES


@pytest.mark.parametrize("protocol", [V1, V2])
def test_the_model_commits_nothing_of_a_producer_that_an_old_plan_has_fenced(
    protocol: TransactionProtocol,
) -> None:
    """A TakeId that was on its way for long comes between two transactions with the same epoch (V1)."""
    kafka = ModelKafka(random.Random(1), protocol, 2_000)
    taken = kafka.handle(TakeId("query-0-0"), 1, 0)
    assert isinstance(taken, Done)
    identity = taken.value
    for now_ms in (0, 100):
        assert kafka.handle(AddGroup(identity), 1, now_ms) == Done()
        if now_ms:
            kafka.handle(TakeId("query-0-0"), 1, now_ms)
        ended = kafka.handle(EndTransaction(identity), 1, now_ms)
        if not now_ms:
            assert isinstance(ended, Done)
            identity = ended.value
    assert ended == Refused(codes.PRODUCER_FENCED)


def test_another_producer_id_costs_no_start() -> None:
    history = Simulation(1, tasks=1, faults=NO_FAULTS, last_epoch=5).run(_DURATION_MS)
    assert history.kafka.rotations > 10
    assert [task.loop.start_count for task in history.tasks] == [1]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("faults", [Faults(), ROUGH], ids=["usual", "rough"])
def test_without_transactions_no_record_is_lost(
    guarantee: DeliveryGuarantee, lanes: int, faults: Faults
) -> None:
    for seed in range(HISTORIES):
        Simulation(seed, lanes=lanes, faults=faults, guarantee=guarantee).run(_DURATION_MS)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ({Stage.PRODUCE}, "out of order"),
        ({Stage.PRODUCE, Stage.COMMIT_OFFSETS}, "not in order"),  # the loop itself asserts this
    ],
)
def test_without_the_order_rules_two_lanes_go_wrong_without_transactions_too(
    broken: set[Stage], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = _pipeline.may_begin
    monkeypatch.setattr(_pipeline, "may_begin", lambda of, before: of in broken or rule(of, before))

    def run_all() -> None:
        for seed in range(200):
            history = Simulation(seed, lanes=2, faults=ROUGH, guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
            history.run(_DURATION_MS)

    with pytest.raises(AssertionError, match=found):
        run_all()


@pytest.mark.parametrize("lanes", [1, 2])
def test_each_record_is_written_once_and_in_order_by_a_slow_function(lanes: int) -> None:
    """What is read waits until no transaction is open. Nothing of it is lost, and it goes on."""
    for seed in range(HISTORIES // 4):
        Simulation(seed, lanes=lanes, faults=ROUGH, call_ms=(0, 1, 100, 900)).run(_DURATION_MS)


def test_records_that_were_read_before_a_start_must_not_be_written_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next Fetch goes out before the work, so its answer may wait when a fault comes."""
    forget = Loop._forget

    def broken(loop: Loop) -> None:
        waits = list(loop._read)
        forget(loop)
        loop._read.extend(waits)

    monkeypatch.setattr(Loop, "_forget", broken)

    def run_all() -> None:
        for seed in range(200):
            Simulation(seed, faults=ROUGH).run(_DURATION_MS)

    with pytest.raises(AssertionError, match=r"doubled|lost|not in order|but the group is at"):
        run_all()


def test_the_histories_hold_what_they_are_for() -> None:
    tasks = [task for seed in range(10) for task in Simulation(seed).run(_DURATION_MS).tasks]
    outcomes = [task.loop.outcome for task in tasks if task.loop.outcome is not None]
    assert {outcome.end for outcome in outcomes} == {End.STOPPED, End.FENCED, End.PLAN_OVER}
    assert any(task.loop.start_count > 1 and task.loop.totals.transactions for task in tasks)
    assert max(task.loop.totals.transactions for task in tasks) > 20


@pytest.mark.parametrize(
    ("stage", "found"),
    [
        (Stage.PRODUCE, "out of order"),
        (Stage.COMMIT_OFFSETS, "records are doubled|but the group is at"),
        (Stage.END, "not in order|records are lost"),  # the loop itself asserts the first
    ],
)
def test_without_the_order_rule_of_a_stage_two_lanes_go_wrong(
    stage: Stage, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = _pipeline.may_begin

    def broken(of: Stage, before: Transaction | None) -> bool:
        return of is stage or rule(of, before)

    monkeypatch.setattr(_pipeline, "may_begin", broken)

    def run_all() -> None:
        for seed in range(200):
            Simulation(seed, lanes=2, faults=ROUGH).run(_DURATION_MS)

    with pytest.raises(AssertionError, match=found):
        run_all()
