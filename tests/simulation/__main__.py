"""`python -m tests.simulation`: run many histories, or one again.

    python -m tests.simulation --histories 10000 --first 0
    python -m tests.simulation --seed 17
    python -m tests.simulation --plan '{"seed": 17, ...}'
    python -m tests.simulation --mutants 300

A history that fails prints its seed, the smallest plan that still fails, and the commands that run both
again. The exit status is 1 if one failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.history import Result, run_plan, simulation
from tests.simulation.mutants import MUTANTS
from tests.simulation.plan import Plan, plan_from_json, plan_of
from tests.simulation.planting import first_kill
from tests.simulation.shrink import shrink

_PIECE = 50


class Piece(NamedTuple):
    """What some histories came to."""

    requests: int
    drivers: int
    faults: int
    failed: list[Result]


def run_piece(seeds: Sequence[int]) -> Piece:
    """Run the histories of these seeds."""
    with simulation():
        results = [run_plan(plan_of(seed)) for seed in seeds]
    return Piece(
        sum(each.requests for each in results),
        sum(each.drivers for each in results),
        sum(len(each.plan.faults) for each in results),
        [each for each in results if each.violation],
    )


def _tell_failure(result: Result) -> None:
    with simulation():
        smallest = shrink(result.plan, lambda plan: run_plan(plan).violation is not None)
        again = run_plan(smallest)
    _print(f"\nseed {result.plan.seed} FAILED: {result.violation}")
    _print(f"  again: python -m tests.simulation --seed {result.plan.seed}")
    _print(f"  with {len(smallest.faults)} of {len(result.plan.faults)} faults: {again.violation}")
    _print(f"  again: python -m tests.simulation --plan '{smallest.to_json()}'")


def _run_many(first: int, count: int) -> int:
    begin = time.process_time()
    done: list[Piece] = []
    for at in range(first, first + count, _PIECE):
        done.append(run_piece(range(at, min(at + _PIECE, first + count))))
        for result in done[-1].failed:
            _tell_failure(result)
    seconds = time.process_time() - begin
    failed = sum(len(each.failed) for each in done)
    _print(
        f"{count} histories, seeds {first} to {first + count - 1}: {failed} failed. "
        f"{sum(each.faults for each in done)} faults, {sum(each.drivers for each in done)} drivers, "
        f"{sum(each.requests for each in done)} requests. "
        f"{count / seconds:.1f} histories for each second of CPU."
    )
    return int(failed > 0)


def _run_one(plan: Plan) -> int:
    with simulation():
        result = run_plan(plan)
    _print("\n".join(result.trace))
    _print(f"\nseed {plan.seed}, trace {result.digest}, {result.requests} requests, faults:")
    for fault in plan.faults:
        _print(f"  {fault}")
    _print(f"FAILED: {result.violation}" if result.violation else "All promises are kept.")
    return int(result.violation is not None)


def _look_for_mutants(count: int) -> int:
    """Run the history that each mutant names. Look in so many others for what breaks a harmless one."""
    wrong = 0
    with simulation():
        for mutant in MUTANTS:
            plans = [mutant.history] if mutant.history else map(plan_of, range(count))
            found = first_kill(mutant, plans, lambda plan: run_plan(plan).violation is not None)
            is_right = (found is None) == bool(mutant.harmless)
            wrong += not is_right
            said = "not found" if found is None else "found" if mutant.seed is None else f"seed {found.seed}"
            _print(f"{said:>10}  {mutant.name}{'' if is_right else ': NOT AS EXPECTED'}")
    harmless = sum(bool(each.harmless) for each in MUTANTS)
    _print(
        f"{len(MUTANTS)} mutants, {harmless} of them harmless: {wrong} not as expected. "
        f"{count} histories for each that is harmless."
    )
    return int(wrong > 0)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--histories", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run the history of this seed, and print its trace")
    parser.add_argument("--plan", help="run a plan that a failure printed, and print its trace")
    parser.add_argument(
        "--mutants", type=int, help="find each mutant; so many histories for one that is harmless"
    )
    given = parser.parse_args()
    if given.mutants is not None:
        return _look_for_mutants(given.mutants)
    if given.plan is not None:
        return _run_one(plan_from_json(given.plan))
    if given.seed is not None:
        return _run_one(plan_of(given.seed))
    return _run_many(given.first, given.histories)


if __name__ == "__main__":
    sys.exit(main())
