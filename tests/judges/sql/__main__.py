"""Judge the scripts of SQL: `python -m tests.judges.sql [options] [beginnings of names, or a mode]`.

It runs penstock over all scripts, prints what is refused and different, keeps each outcome in
tests/data/sql/corpus/outcomes.json, and writes the figures into the docs. With FLINK=1 it asks a real Flink
instead and writes its answers.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.judges.sql.corpus import Script
    from tests.judges.sql.outcomes import Asked, Outcome


def main(arguments: list[str]) -> int:
    """Record or compare, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.judges.sql")
    parser.add_argument("beginnings", nargs="*", help="of names of scripts, and modes: batch, streaming")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--missing", action="store_true", help="only scripts that are new or have changed")
    which.add_argument(
        "--refused", action="store_true", help="only what was refused or wrong when it last ran"
    )
    which.add_argument("--resume", action="store_true", help="only what this code has not run yet")
    which.add_argument(
        "--beside",
        type=Path,
        metavar="FILE",
        help="only what FILE does not have; outcomes go there, as they are those of another PySpark",
    )
    which.add_argument("--figures", action="store_true", help="only write the figures into the docs")
    parser.add_argument(
        "--batches",
        type=_counts,
        default=(1, 4, 40),
        metavar="1,4,40",
        help="each stream runs in these numbers of micro-batches, or one for each record if it has fewer",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="stop each stream of several micro-batches once, and continue it from its checkpoint",
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no script after this time")
    given = parser.parse_intermixed_args(arguments)
    if os.environ.get("FLINK") == "1":
        from tests.judges.sql.record import record  # noqa: PLC0415 - installs Flink

        record(given.beginnings, only_missing=given.missing, limit_s=given.seconds)
        return 0
    return _run(given)


def _run(given: argparse.Namespace) -> int:
    from tests.judges.sql import figures, outcomes, running  # noqa: PLC0415 - imports Spark

    if given.figures:
        figures.write()
        return 0
    asked = outcomes.asked_of(given.beginnings)
    if given.missing:
        asked = [each for each in asked if outcomes.is_missing(*each)]
    if given.refused:
        asked = [each for each in asked if outcomes.is_unsettled(*each)]
    if given.resume:
        asked = [each for each in asked if not outcomes.is_done(*each, given.batches)]
    if given.beside is not None:
        return _run_beside(given, asked)

    def keep(script: Script, mode: str, outcome: Outcome, message: str) -> None:
        outcomes.keep(script, mode, outcome, message, given.batches)

    status = running.judge_all(asked, given.seconds, given.batches, keep, restarts=given.restart)
    figures.write()
    return status


def _run_beside(given: argparse.Namespace, asked: list[Asked]) -> int:
    from tests.judges.sql import beside, running  # noqa: PLC0415 - imports Spark

    file = beside.Beside(given.beside)
    remaining = [each for each in asked if not file.has(each)]
    status = running.judge_all(remaining, given.seconds, given.batches, file.keep, restarts=given.restart)
    sys.stdout.write(file.text())
    return status


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(map(int, text.split(",")))
    if min(counts) < 1:
        raise argparse.ArgumentTypeError("expected numbers from 1")
    return counts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
