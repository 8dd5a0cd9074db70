"""How the lists of mutants are written: a bug, and the history that finds it.

Invariant: a history with a name of its own here is a plain `Plan`, which does not change with `plan_of`.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.plan import Aim, Fault, Kind, Plan
from tests.simulation.planting import Edit, Mutant

NEVER = Fault(40, Kind.TWICE, 1, Aim.RECORD)
"""No history comes to it. Until it would come, processes that have made way go on beside each other."""


def mutant(
    name: str,
    function: Any,
    before: str,
    after: str,
    *,
    seed: int | None = None,
    found_by: Plan | None = None,
    harmless: str = "",
) -> Mutant:
    """Return a bug: in the text of a function, `after` takes the place of `before`.

    Args:
        name: what the code does then.
        function: of penstock.
        before: stands in it once.
        after: the bug.
        seed: of a history that finds it.
        found_by: a history that finds it.
        harmless: why no history can find it.
    """
    return Mutant(name, (Edit(function, before, after),), seed, found_by, harmless)


def history(
    *faults: Fault,
    is_v2: bool = True,
    task_count: int = 2,
    batch_count: int = 1,
    first_epoch: int = 0,
    is_speculative: bool = False,
    seed: int = 0,
) -> Plan:
    """Return the history of these faults, of a small job."""
    in_order = tuple(sorted(faults, key=lambda each: each.at))
    return Plan(seed, is_v2, batch_count, task_count, first_epoch, is_speculative, in_order)
