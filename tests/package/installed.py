"""Run the suites against the installed wheel: `make installed`, or `python -m tests.package.installed`.

Makes an empty environment, installs the wheel with all its extras and the packages of the tests, and runs
the unit tests there. With `--promises` also those on a real Kafka and a real Spark that have the mark.
Invariant: a run fails if a module of penstock came from the checkout, so it tells what a user's machine
would do.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.environments import new_environment, pip

ROOT = Path(__file__).parents[2]
UNIT = ("tests/unit", "tests/contract")
PROMISES = ("-m", "promise", "tests/kafka", "tests/spark", "tests/compat")
SHARED = ("--dist", "loadgroup", "--no-loadscope-reorder")
WORKERS = "2"


def built(folder: Path) -> Path:
    """Build the wheel of this checkout."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, cwd=folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def environment_of(wheel: Path, folder: Path, python: str) -> Path:
    """Make an environment with the wheel, its extras and what the tests need. Return its Python."""
    there = new_environment(folder / "environment", python)
    pip(there, "install", "--requirement", str(ROOT / "requirements-dev.lock"))
    pip(there, "install", f"{wheel}[all]")
    return there


def run_suite(python: Path, name: str, arguments: Sequence[str], variables: dict[str, str]) -> bool:
    """Run a suite, show its last line, and return whether it passed."""
    begun_s = time.monotonic()
    ours = ("PYTHONPATH", "PYTEST", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    path = os.pathsep.join([str(python.parent), kept["PATH"]])
    command = [
        *(str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.package.installed"),
        *("-n", WORKERS, *arguments),
    ]
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**kept, **variables, "PATH": path},
    )
    passed = re.findall(r"^\d+ passed.*$|^.*\d+ failed.*$", done.stdout, re.MULTILINE)
    if done.returncode:
        show(f"{done.stdout[-12_000:]}\n{done.stderr[-3_000:]}")
    show(
        f"{name}, against the installed wheel: {passed[-1] if passed else done.returncode}, "
        f"{time.monotonic() - begun_s:.0f} s"
    )
    return done.returncode == 0


def foreign_modules() -> list[str]:
    """Return the modules of penstock in this process that did not come from the environment."""
    ours = [
        module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ("penstock", "pyspark_penstock")
    ]
    files = [str(file) for module in ours if (file := getattr(module, "__file__", None))]
    return [file for file in files if not Path(file).is_relative_to(sys.prefix)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End with an error if the tests have tried the checkout. pytest calls this in each of its processes."""
    foreign = foreign_modules()
    if foreign:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        raise pytest.UsageError(f"these modules are not those of the wheel: {foreign[:5]}")


def show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Build, install and run. The exit status is 1 if a suite failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="builds nothing, and tries this one")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--promises", action="store_true", help="the tests of `make test` on real parts too")
    given = parser.parse_args()
    profile = {"HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "quick")}
    with tempfile.TemporaryDirectory() as folder:
        wheel = given.wheel.resolve() if given.wheel else built(Path(folder))
        python = environment_of(wheel, Path(folder), given.python)
        passed = [run_suite(python, "unit", ("--dist", "worksteal", *UNIT), profile)]
        if given.promises:
            passed.append(run_suite(python, "promises", (*SHARED, *PROMISES), profile))
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
