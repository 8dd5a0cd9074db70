"""Bugs to plant in the sink's recovery, commits, tasks and tools: the simulation has to find them.

Each names a history that finds it, or says why no promise is broken. Invariant: without the bug that history
keeps all promises.
"""

from __future__ import annotations

from tests.simulation.mutants.client import CLIENT
from tests.simulation.mutants.commits import ABORTS, COMMITS, FINISHING
from tests.simulation.mutants.recovery import LOG, RECOVERY, TOOLS
from tests.simulation.mutants.tasks import DECISIONS, TASKS

MUTANTS = (*COMMITS, *ABORTS, *FINISHING, *RECOVERY, *LOG, *TASKS, *DECISIONS, *CLIENT, *TOOLS)
