"""Make a history that fails smaller: leave out faults, and shorten those that stay, while it still fails.

Runs under `simulation`. Invariant: what is returned fails by itself, because it was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.plan import LENGTHS, Plan

Fails = Callable[[Plan], bool]


def shrink(plan: Plan, fails: Fails) -> Plan:
    """Return a plan that fails, of which no step of `_smaller` makes one that fails. `plan` fails."""
    while True:
        smaller = next((each for each in _smaller(plan) if fails(each)), None)
        if smaller is None:
            return plan
        plan = smaller


def _smaller(plan: Plan) -> Iterator[Plan]:
    faults = plan.faults
    size = len(faults) // 2
    while size:
        for first in range(0, len(faults), size):
            yield replace(plan, faults=faults[:first] + faults[first + size :])
        size //= 2
    if plan.is_speculative:
        yield replace(plan, is_speculative=False)
    if plan.first_epoch:
        yield replace(plan, first_epoch=0)
    for at, fault in enumerate(faults):
        for length in LENGTHS:
            if length < fault.length:
                yield replace(plan, faults=(*faults[:at], replace(fault, length=length), *faults[at + 1 :]))
