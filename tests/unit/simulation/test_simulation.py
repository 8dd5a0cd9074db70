"""The simulation of the exactly-once sink: histories, their repetition, and how they shrink."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.sink.exactly_once import _commit, _recovery
from tests.examples import examples
from tests.simulation.bugs import KNOWN_BUGS, KnownBug
from tests.simulation.history import run_plan, simulation
from tests.simulation.mutants import MUTANTS
from tests.simulation.plan import Fault, Kind, Plan, last_request, plan_from_json, plan_of
from tests.simulation.planting import Mutant, edited_code, plain_function
from tests.simulation.shrink import shrink

QUIET = Plan(0, True, 2, 2, 0, False, ())
IS_QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "quick"
"""`make unit`: 5 seconds of CPU at most for the tests of the simulation, without the start of Python."""
SHORT = replace(QUIET, batch_count=1, task_count=1)


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with simulation():
        yield


def test_every_history_keeps_all_promises() -> None:
    for seed in range(examples(50)):
        result = run_plan(plan_of(seed))
        assert result.violation is None, (
            f"seed {seed}: {result.violation}\nAgain: python -m tests.simulation --seed {seed}"
        )


def test_one_seed_is_one_history() -> None:
    plan = plan_of(3)
    assert plan.faults
    assert run_plan(plan).trace == run_plan(plan).trace


@pytest.mark.skipif(IS_QUICK, reason="It starts another Python. `make ci` runs it.")
def test_a_seed_is_the_same_history_in_another_process() -> None:
    here = " ".join(run_plan(plan_of(seed)).digest for seed in range(3, 6))
    assert _digests_elsewhere() == here


def _digests_elsewhere() -> str:
    code = (
        "from tests.simulation.history import run_plan, simulation\n"
        "from tests.simulation.plan import plan_of\n"
        "with simulation():\n"
        "    print(*(run_plan(plan_of(seed)).digest for seed in range(3, 6)))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_a_plan_survives_its_json() -> None:
    plan = plan_of(3)
    assert plan_from_json(plan.to_json()) == plan


@pytest.mark.parametrize("is_v2", [True, False])
def test_a_history_without_faults_needs_one_driver(is_v2: bool) -> None:
    result = run_plan(replace(QUIET, is_v2=is_v2))
    assert result.violation is None
    assert result.drivers == 2  # the second one recovers at the end


def test_tasks_speculate_in_a_history_without_faults() -> None:
    """Then one start is enough, too."""
    quiet = replace(QUIET, is_speculative=True)
    results = [run_plan(replace(quiet, seed=seed)) for seed in range(4)]
    assert [each.violation for each in results] == [None] * 4
    assert any(" speculative" in line or ".speculative" in line for each in results for line in each.trace)


def test_a_driver_may_die_at_requests_all_over_a_history() -> None:
    """At each request of it in the profile `usual`, at some of them in `quick`."""
    last = run_plan(SHORT).requests
    for at in range(1, last + 1, max(1, last // examples(50))):
        result = run_plan(replace(SHORT, faults=(Fault(at, Kind.KILL),)))
        assert result.violation is None, f"request {at}: {result.violation}"


def test_faults_reach_the_last_batch() -> None:
    largest = replace(QUIET, is_v2=False, batch_count=4, task_count=3)
    assert last_request(4) >= run_plan(largest).requests


@pytest.fixture
def _driver_aborts_no_strays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug: the driver aborts no open transaction."""
    for room in (_recovery, _commit):
        monkeypatch.setattr(room, "stray_transactions", lambda *_: [])


@pytest.mark.usefixtures("_driver_aborts_no_strays")
def test_a_bug_is_found_and_its_history_shrinks_to_the_fault_that_matters() -> None:
    kill = next(each for each in _kills() if _fails(replace(QUIET, faults=(each,))))
    noise = (Fault(1, Kind.TWICE), Fault(2, Kind.TWICE), Fault(3, Kind.TIME, 2))
    plan = replace(QUIET, is_speculative=True, first_epoch=32_763, faults=(*noise, kill))
    assert _fails(plan)
    smallest = shrink(plan, _fails)
    assert smallest == replace(QUIET, faults=(kill,))
    assert "open for ever" in str(run_plan(smallest).violation)


def _kills() -> Iterator[Fault]:
    return (Fault(at, Kind.KILL) for at in range(30, 200))


def _fails(plan: Plan) -> bool:
    return run_plan(plan).violation is not None


FOUND = [each for each in MUTANTS if not each.harmless]


def test_each_mutant_names_a_history_or_says_why_it_is_harmless() -> None:
    """`docs/long-runs.md` says how many."""
    assert len({each.name for each in MUTANTS}) == len(MUTANTS)
    assert [each.name for each in MUTANTS if (each.history is None) != bool(each.harmless)] == []
    assert len(FOUND) == 83


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_its_function(mutant: Mutant) -> None:
    for edit in mutant.edits:
        before, after = plain_function(edit.function).__code__, edited_code(edit)
        assert after.co_freevars == before.co_freevars
        assert (after.co_code, after.co_consts, after.co_names) != (
            before.co_code,
            before.co_consts,
            before.co_names,
        )


@pytest.mark.parametrize("mutant", FOUND[:: 6 if IS_QUICK else 1], ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    assert mutant.history is not None
    with mutant.planted():
        assert _fails(mutant.history)


NAMED = {each.found_by for each in MUTANTS if each.found_by is not None}


def test_without_its_mutant_a_named_history_keeps_all_promises() -> None:
    """Those of a seed are among all others (`test_every_history_keeps_all_promises`)."""
    wanted = sorted(NAMED, key=lambda each: each.to_json())[:: 6 if IS_QUICK else 1]
    assert [(plan, said) for plan in wanted if (said := run_plan(plan).violation) is not None] == []


@pytest.mark.parametrize(
    ("bug", "seed"),
    [(bug, seed) for bug in KNOWN_BUGS for seed in bug.seeds],
    ids=lambda value: value.name if isinstance(value, KnownBug) else str(value),
)
def test_a_known_bug_of_kafka_is_seen_or_breaks_no_promise(bug: KnownBug, seed: int) -> None:
    with bug.planted() as happened:
        result = run_plan(plan_of(seed))
    assert happened
    assert (result.violation is not None) == bug.is_harmful, result.violation


@pytest.mark.parametrize("bug", [each for each in KNOWN_BUGS if each.is_harmful], ids=lambda bug: bug.name)
def test_a_known_bug_of_kafka_doubles_nothing(bug: KnownBug) -> None:
    """It lets a query wait or be refused for ever, and breaks no other promise."""
    for seed in bug.seeds:
        with bug.planted():
            violation = run_plan(plan_of(seed)).violation
        assert violation is not None
        assert "for ever" in violation
