"""Time README's quick start on an empty machine: `python -m tests.package.first_record`.

The machine has a new user (root makes one; another user gets an empty home), no compiler in its path and
no checkout. The wheel lies in a folder, Java and Python are there, and nothing is in a cache: pip and the
broker fetch what they need. Runs each command as printed but for the wheel, the port and the folder of
the checkpoint, and prints its seconds. Invariant: leaves no user, no broker and no file behind.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.devbroker.cluster import free_ports
from tests.package.installed import built
from tests.package.readme import Step, pattern_of, quick_start

COMPILER = re.compile(
    r"^(?:.*-)?(?:cc|gcc|g\+\+|c\+\+|cpp|clang|clang\+\+|tcc|zig|ld|as|c89|c99|cargo|rustc)(?:-[\d.]+)?$"
)
USER = "penstock-stranger"
SHELL = "/bin/bash"
SHOWS_RECORDS = "penstock cat"
"""The command of the quick start whose output is the first records."""


@dataclass(frozen=True)
class Stranger:
    """Who runs the quick start: a home, and how a command becomes one of that user."""

    home: Path
    prefix: tuple[str, ...]


@contextlib.contextmanager
def stranger() -> Iterator[Stranger]:
    """Make a user with an empty home. Who is not root gives an empty home to a process."""
    if os.geteuid() != 0:
        with tempfile.TemporaryDirectory() as home:
            yield Stranger(Path(home), ())
        return
    subprocess.run(["useradd", "--create-home", "--skel", "/dev/null", "--shell", SHELL, USER], check=True)
    try:
        yield Stranger(
            Path(pwd.getpwnam(USER).pw_dir),
            ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"),
        )
    finally:
        subprocess.run(["userdel", "--remove", USER], check=True, capture_output=True)


def path_without_compilers(folder: Path, python: Path) -> Path:
    """Make a folder with all programs of the system but compilers. Its python3 is the given one."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for each in sorted([*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()]):
        if not COMPILER.match(each.name) and not (programs / each.name).is_symlink():
            (programs / each.name).symlink_to(each)
    for name in ("python3", "python"):
        (programs / name).unlink(missing_ok=True)
    (programs / "python3").symlink_to(python)
    assert not any(shutil.which(each, path=str(programs)) for each in ("cc", "gcc", "clang"))
    return programs


class QuickStart:
    """The steps of README, run one after the other in one shell."""

    def __init__(self, home: Path, wheel: Path) -> None:
        [port] = free_ports(1)
        self._home = home
        self._replaced = {
            "9092": str(port),
            "/tmp/orders-copy": f"{home}/checkpoint",  # noqa: S108 - the text of the page
            "pip install '.[spark,cli]'": f"pip install '{wheel}[spark,cli]'",
        }

    def here(self, text: str) -> str:
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def script(self, steps: list[Step]) -> str:
        """Return the commands, each with the time before and after it."""
        lines = ["set -e", f"cd {self._home}", "trap 'penstock broker stop >&2 || true' EXIT"]
        for number, step in enumerate(steps):
            if step.file_text is not None:
                lines.append(f"printf '%s' {shlex.quote(self.here(step.file_text))} > {step.command}")
                continue
            lines += [f'echo "===== {number} $EPOCHREALTIME"', self.here(step.command)]
            lines.append('echo "===== end $EPOCHREALTIME"')
        return "\n".join([*lines, "trap - EXIT"])


def seconds_of(said: str) -> dict[int, tuple[float, str]]:
    """Return for each step its seconds, and what it has printed."""
    found = re.findall(r"^===== (\d+) ([\d.]+)\n(.*?)^===== end ([\d.]+)$", said, re.DOTALL | re.MULTILINE)
    return {int(number): (float(end) - float(begin), text) for number, begin, text, end in found}


def run(wheel: Path, python: Path) -> None:
    """Run the quick start, and print the seconds of each command."""
    steps = quick_start()
    with stranger() as who, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        brought = Path(folder) / wheel.name
        shutil.copy(wheel, brought)
        start = QuickStart(who.home, brought)
        variables = {
            "HOME": str(who.home),
            "PATH": str(path_without_compilers(Path(folder), python)),
            "LANG": "C.UTF-8",
        }
        begun_s = time.monotonic()
        done = subprocess.run(
            [*who.prefix, SHELL, "-c", start.script(steps)],
            check=False,
            capture_output=True,
            text=True,
            cwd=who.home,
            env=variables,
        )
        total_s = time.monotonic() - begun_s
    if done.returncode:
        sys.exit(f"A command of README's quick start failed:\n{done.stdout[-4_000:]}\n{done.stderr[-4_000:]}")
    _report(steps, start, seconds_of(done.stdout), total_s)


def _report(
    steps: list[Step], start: QuickStart, times: dict[int, tuple[float, str]], total_s: float
) -> None:
    until_record_s, has_record = 0.0, False
    for number, (seconds, printed) in times.items():
        step = steps[number]
        if step.prints and not pattern_of(start.here(step.prints)).fullmatch(printed):
            sys.exit(f"{step.command} printed another thing than README says:\n{printed}")
        _say(f"{seconds:7.1f} s  {step.command}")
        until_record_s += 0 if has_record else seconds
        has_record = has_record or step.command.startswith(SHOWS_RECORDS)
    assert has_record, "the quick start shows no record"
    load = os.getloadavg()[0]
    _say(f"{until_record_s:7.1f} s  until the first record, copied exactly once; {total_s:.1f} s in all")
    _say(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.0f}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Build the wheel if there is none, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="builds nothing, and tries this one")
    parser.add_argument(
        "--python", type=Path, default=Path("/usr/bin/python3"), help="one that every user can run"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(given.wheel.resolve() if given.wheel else built(Path(folder)), given.python.absolute())


if __name__ == "__main__":
    main()
