"""The plans of a state: each call of an operator with its folder gets a number.

Runs on the driver, when the DataFrame is made; on Spark Connect in a task. Tasks read the newest number.
Invariant: a number is given once, and a later call gets a higher one. So the plan of a driver that was
started later is higher than that of a driver that is dead, also if a task of the dead one begins last.

    plans/<number, 8 digits>-<plan id>-<random>.json    numbers and ids in hexadecimal digits

Only the newest file is needed. Who has taken a number deletes the files with lower ones.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from penstock.errors import StateError
from penstock.state.files import Files

PLANS = "plans"
"""The folder of the plans."""
_NAME = re.compile(r"([0-9a-f]{8})-([0-9a-f]+)-([0-9a-f]{8})\.json")
_TRIES = 100


@dataclass(frozen=True, order=True)
class Plan:
    """A plan and its file."""

    number: int
    plan_id: str
    token: str

    @property
    def path(self) -> str:
        return f"{PLANS}/{self.number:08x}-{self.plan_id}-{self.token}.json"


def read_plans(files: Files) -> list[Plan]:
    """Return the plans whose files are there, in order."""
    found = map(_NAME.fullmatch, files.names(PLANS))
    return sorted(Plan(int(name[1], 16), name[2], name[3]) for name in found if name is not None)


def take_number(files: Files, plan_id: str, at_least: int = 1) -> int:
    """Return a number that is higher than all numbers that were given before.

    Of two callers that write one number, the one that lists the folder later sees the file of the other, or a
    higher one, because the highest file is never deleted. So at most one of them keeps the number.

    Args:
        files: the folder of the state.
        plan_id: of the DataFrame, in hexadecimal digits.
        at_least: the lowest number to give.

    Raises:
        StateError: other drivers take all the numbers.
        OSError: the folder cannot be written.
    """
    for _ in range(_TRIES):
        newest = max((plan.number for plan in read_plans(files)), default=0)
        own = Plan(max(newest + 1, at_least), plan_id, uuid.uuid4().hex[:8])
        with files.create(own.path) as sink:
            sink.write(b"{}\n")
        found = read_plans(files)
        if [plan for plan in found if plan.number >= own.number] == [own]:
            for plan in found[:-1]:
                files.delete(plan.path)
            return own.number
    raise StateError(
        f"No plan could be written to the state in {files.root}: {_TRIES} times another driver wrote one at "
        "the same moment, or the files that were written are not listed. Nothing was started. Stop the "
        "other drivers.",
        path=files.root,
    )


def is_replaced(files: Files, number: int, plan_id: str) -> bool:
    """Return whether a later call has taken a higher number."""
    return any(plan.number > number and plan.plan_id != plan_id for plan in read_plans(files))
