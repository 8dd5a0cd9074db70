"""Run tests/contract on both ends of the range of kafka-python: `make kafka-python`.

Each version goes to a folder of its own, before that of the environment. With `--kafka` connections, logins,
reads and transactions of tests/kafka run too, on real brokers. Invariant: changes nothing in the environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
ON_BROKERS = (
    "test_connection.py",
    "test_security_matrix.py",
    "test_oauth.py",
    "test_fetcher.py",
    "test_committer_tools.py",
)


def main() -> None:
    """Run the tests. The exit status is not 0 if some fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument(
        "versions", nargs="*", help="without any: the lowest of the range, and the newest in it"
    )
    given = parser.parse_args()
    wanted = requirement()
    lowest = next(each.version for each in wanted.specifier if each.operator == ">=")
    failed: list[str] = []
    for asked in given.versions or (lowest, ""):
        with tempfile.TemporaryDirectory() as folder:
            version = install(f"{wanted.name}=={asked}" if asked else str(wanted), folder)
            assert wanted.specifier.contains(version), f"{version} is not in {wanted}"
            if not passed(version, folder, ["tests/contract"]):
                failed.append(str(version))
            suites = [f"tests/kafka/{name}" for name in ON_BROKERS]
            if given.kafka and not passed(version, folder, suites):
                failed.append(str(version))
    sys.exit(f"Tests fail with kafka-python {', '.join(failed)}." if failed else 0)


def requirement() -> Requirement:
    """Return what pyproject.toml says about kafka-python."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return next(each for each in map(Requirement, dependencies) if each.name == "kafka-python")


def install(what: str, folder: str) -> Version:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, what]
    subprocess.run(command, check=True)
    [info] = Path(folder).glob("kafka_python-*.dist-info")
    return Version(info.name.removeprefix("kafka_python-").removesuffix(".dist-info"))


def passed(version: Version, folder: str, what: list[str]) -> bool:
    path = os.pathsep.join([folder, str(ROOT / "src")])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "--dist",
        "loadgroup",
    ]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [*command, *what], check=False, cwd=ROOT, capture_output=True, text=True, env=environment
    )
    shown = done.stdout if done.returncode else done.stdout.splitlines()[-1]
    print(f"kafka-python {version}, {' '.join(what)}: {shown}", flush=True)  # noqa: T201 - a command
    return not done.returncode


if __name__ == "__main__":
    main()
