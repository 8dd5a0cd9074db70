"""Run suites one after the other, and show at the end how long each of them took.

`make test` and `make ci` call this. A suite is a target of the Makefile. A suite that fails does not stop the
others, but the exit status is then 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple


class Result(NamedTuple):
    """What came of a suite."""

    suite: str
    seconds: float
    is_passed: bool


def table(results: Sequence[Result]) -> str:
    """Return a line for each suite, and one for all of them."""
    rows = [(each.suite, "passed" if each.is_passed else "FAILED", each.seconds) for each in results]
    rows.append(("total", "", sum(each.seconds for each in results)))
    lines = [f"{suite:<10} {result:<6} {seconds:7.0f} s" for suite, result, seconds in rows]
    return "\n".join(["", "==> time of each suite", *lines, ""])


def run_all(suites: Sequence[str]) -> list[Result]:
    """Run the suites. An interruption ends the run, and what ran until then is shown too."""
    results: list[Result] = []
    try:
        for suite in suites:
            sys.stdout.write(f"\n==> make {suite}\n")
            sys.stdout.flush()
            begin = time.monotonic()
            status = _made(suite)
            results.append(Result(suite, time.monotonic() - begin, status == 0))
    finally:
        sys.stdout.write(table(results))
        sys.stdout.flush()
    return results


def _made(suite: str) -> int:
    with subprocess.Popen(["make", "--no-print-directory", suite]) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            child.wait()  # Ctrl-C has reached it too. It stops its brokers before it ends.
            raise


def main(suites: Sequence[str]) -> int:
    """Return the exit status: 0 if each suite passed."""
    return int(not all(each.is_passed for each in run_all(suites)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
