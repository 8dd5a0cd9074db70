"""Fuzz all compiled code under sanitizers: `python -m tests.fuzz --minutes 60 --seed 1`.

Builds the compiled parts with AddressSanitizer and UndefinedBehaviorSanitizer, then gives each harness
its turn, in a process of its own, and one turn at least, whatever the minutes are. Inputs that take a new
way through the code are kept in `build/fuzz` and changed further. Prints for each harness its inputs, seconds
of processor time and findings. A finding ends its turn, and its input is printed. The exit status is 1 then.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz import sanitized
from tests.fuzz.worker import HARNESSES, noted

FOLDER = sanitized.REPOSITORY / "build" / "fuzz"
TURN_S = 60.0
STARTUP_S = 120.0
"""Processor time of a turn beside its inputs."""
STARVED = 30
"""So many times its processor time a turn may take: on a busy machine it waits more than it works."""


@dataclass
class Tally:
    """What a harness has done until now."""

    inputs: int = 0
    cpu_s: float = 0.0
    findings: list[str] = field(default_factory=list)


@dataclass
class Fuzzing:
    """One run of all harnesses."""

    seed: int
    root: Path
    variables: dict[str, str]
    tallies: dict[str, Tally]

    def turn(self, name: str, seconds: float, number: int) -> None:
        """Let one harness work."""
        before_s, limit_s = _cpu_of_children_s(), seconds * 3 + STARTUP_S
        arguments = (name, f"{seconds:.1f}", str(self.seed), str(number), str(FOLDER))
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.worker", *arguments],
            cwd=sanitized.REPOSITORY,
            env={**os.environ, **self.variables, "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
            timeout=limit_s * STARVED,
            check=False,
            preexec_fn=lambda: limit_cpu(limit_s),  # this process has no thread
        )
        tally = self.tallies[name]
        tally.cpu_s += _cpu_of_children_s() - before_s
        said = done.stdout + done.stderr
        counted = re.search(r"(\d+) inputs, .*", said)
        if done.returncode or not counted:
            data = noted(FOLDER / f"{name}.input").hex()
            again = f"python -m tests.fuzz.worker {name} --again {self.seed} {data}"
            tally.findings.append(again)
            _say(f"{name}: FINDING, round {number}\n{said[-6_000:]}\n{again}")
            return
        tally.inputs += int(counted[1])
        _say(f"round {number}, {name}: {counted[0]}")

    def table(self) -> str:
        """Return what each harness has done."""
        lines = [f"{'harness':<16}{'inputs':>12}{'CPU s':>9}{'findings':>10}"]
        for name, each in self.tallies.items():
            lines.append(f"{name:<16}{each.inputs:>12,}{each.cpu_s:>9.0f}{len(each.findings):>10}")
        inputs = sum(each.inputs for each in self.tallies.values())
        hours = sum(each.cpu_s for each in self.tallies.values()) / 3_600
        findings = sum(len(each.findings) for each in self.tallies.values())
        lines.append(
            f"seed {self.seed}: {inputs:,} inputs in {hours:.2f} hours of processor time, {findings} findings"
        )
        return "\n".join(lines)


def limit_cpu(limit_s: float) -> None:
    """End this process after so much processor time, so that an input without an end becomes a finding."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5))


def _cpu_of_children_s() -> float:
    """Return the processor time of the processes that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def prepared(*, is_plain: bool) -> tuple[Path, dict[str, str]]:
    """Return the folder of the package and the variables of a process that fuzzes it."""
    if is_plain:
        return sanitized.REPOSITORY / "src", {}
    libraries = sanitized.runtimes()
    scratch = FOLDER / sanitized.digest_of_sources()
    if not (scratch / "built").exists():
        _say("building with sanitizers, which takes minutes")
        sanitized.build(scratch, with_coverage=True)
        (scratch / "built").touch()
    return scratch / "lib", sanitized.environment([*libraries, str(sanitized.counter(scratch))])


def main() -> None:
    """Fuzz. The exit status is 1 if something was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=[*HARNESSES], help="may be given several times")
    parser.add_argument("--plain", action="store_true", help="without sanitizers, and without a build")
    given = parser.parse_args()
    root, variables = prepared(is_plain=given.plain)
    names = given.only or [*HARNESSES]
    fuzzing = Fuzzing(given.seed, root, variables, {name: Tally() for name in names})
    end, number = time.monotonic() + 60 * given.minutes, 0
    seconds = min(TURN_S, 60 * given.minutes / len(names))
    while number == 0 or time.monotonic() < end:
        for name in names:
            if number == 0 or time.monotonic() < end:
                left_s = seconds if number == 0 else max(1.0, end - time.monotonic())
                fuzzing.turn(name, min(seconds, left_s), number)
        number += 1
        _say(fuzzing.table())
    sys.exit(1 if any(each.findings for each in fuzzing.tallies.values()) else 0)


if __name__ == "__main__":
    main()
