"""penstock on each PySpark: `make versions`, or `python -m tests.versions 4.0.1 4.3.0`.

Each environment is made from the built wheel and one PySpark only. `probe.py` runs its cases there against
one real broker. An independent read_committed consumer says what the cases have written. Invariant: a case
that did not run is a failure. Environments stay, and get each new wheel.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import NEVER_FENCED, START_TIMEOUT_S
from tests.versions.probe_inputs import INPUTS, OUTPUTS, each_once

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("probe.py")
VERSIONS = ("4.0.1", "4.1.4", "4.2.1", "4.3.0")
KINDS = ("classic", "connect")
MOVED = "moved checkpoint"
_NONE: Mapping[str, str] = {}


def main() -> int:
    """Run the cases. Return 1 if one of them is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv" / "versions")
    parser.add_argument("--wheel", type=Path, help="an own wheel; without it, one is built")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--case", action="append", default=[])
    given = parser.parse_args()
    wheel = given.wheel or build_wheel(given.environments)
    wrong = []
    with (
        DevCluster(properties=NEVER_FENCED, start_timeout_s=START_TIMEOUT_S) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        for version in given.versions:
            python = environment(given.environments / version, version, wheel)
            for kind in given.kind or KINDS:
                run = Run(cluster.bootstrap_servers, version, kind, Path(folder))
                if given.case != [MOVED]:
                    wrong += run.judged(python, given.case)
        if len(given.versions) > 1 and (not given.case or MOVED in given.case):
            wrong += moved(cluster.bootstrap_servers, given, Path(folder))
    print(f"{len(wrong)} cases are wrong." if wrong else "All cases are right.")  # noqa: T201 - a command
    return bool(wrong)


def moved(servers: str, given: argparse.Namespace, folder: Path) -> list[str]:
    """Move one checkpoint from each version to the others, forth and back, and judge what it has written."""
    path = [*given.versions, *reversed(given.versions[:-1])]
    run = Run(servers, "moves", "classic", folder)
    run.make_topics()
    for step, version in enumerate(path):
        python = given.environments / version / "bin" / "python"
        wrong = run.ran(python, [MOVED], {"PROBE_STEP": str(step)}, records=100 * (step + 1))
        if wrong:
            return [f"checkpoint moved to {version}: {each}" for each in wrong]
    print(f"One checkpoint on {', '.join(path)}: each record once.")  # noqa: T201 - a command
    return []


def build_wheel(folder: Path) -> Path:
    """Return the wheel of this checkout."""
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet", "-w", made]
        subprocess.run([*command, "--no-build-isolation"], check=True)
        [wheel] = Path(made).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, folder / wheel.name))  # perhaps another file system


def environment(folder: Path, version: str, wheel: Path) -> Path:
    """Return the Python of the environment with this PySpark and the wheel; make it if it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip_install(python, f"{wheel}[sql,connect]", f"pyspark=={version}")
    pip_install(python, "--force-reinstall", "--no-deps", str(wheel))
    return python


def pip_install(python: Path, *what: str) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *what], check=True)


class Run:
    """All cases of one PySpark, with topics of its own."""

    def __init__(self, servers: str, version: str, kind: str, folder: Path) -> None:
        self._servers = servers
        self._prefix = f"v{version.replace('.', '')}-{kind}"
        self._title = f"{version} {kind}"
        self._kind = kind
        self._folder = folder / self._prefix
        self._folder.mkdir()

    def judged(self, python: Path, cases: Sequence[str]) -> list[str]:
        """Run the probe in new topics. Return what is wrong."""
        self.make_topics()
        return self.ran(python, cases)

    def ran(
        self, python: Path, cases: Sequence[str], variables: Mapping[str, str] = _NONE, records: int = 0
    ) -> list[str]:
        """Run the probe. Print a line for each case, and return the titles of those that are wrong.

        Args:
            python: of the environment.
            cases: their names; none for all.
            variables: of the environment.
            records: how many a moved checkpoint has to have written.
        """
        begun_s = time.monotonic()
        log = self._folder / "log"
        where = [self._servers, self._prefix, str(self._folder), self._kind]
        count, wrong = 0, []
        command = [str(python), str(PROBE), *where, *cases]
        changed = {**os.environ, **variables}
        with (
            log.open("w") as errors,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=self._folder, env=changed
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith('{"case"'):
                    count += 1
                    wrong += self._wrong_of(json.loads(line), records)
        if process.returncode or not count:
            wrong.append(f"{self._title}: ended with {process.returncode}")
        if wrong:
            print(log.read_text()[-2000:])  # noqa: T201 - a command
        print(f"{self._title}: {count} cases, {time.monotonic() - begun_s:.0f} s")  # noqa: T201 - a command
        return wrong

    def _wrong_of(self, answer: dict[str, Any], records: int) -> list[str]:
        error = self._error_of(answer, records)
        text = f"WRONG {error}" if error else f"ok {answer['saw'] or ''}"
        print(f"{self._title}: {answer['case']}: {text}", flush=True)  # noqa: T201 - a command
        return [f"{self._title}: {answer['case']}"] if error else []

    def make_topics(self) -> None:
        """Create the topics of all cases, with what is in them before."""
        names = {*INPUTS, *(name for topics in OUTPUTS.values() for name in topics)}
        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(self._make_topic, sorted(names)):
                pass

    def _make_topic(self, name: str) -> None:
        topic = f"{self._prefix}-{name}"
        judge.create_topic(self._servers, topic, partitions=3)
        if records := INPUTS.get(name):
            judge.produce(self._servers, topic, *records)

    def _error_of(self, answer: dict[str, Any], records: int) -> str:
        if "error" in answer:
            return str(answer["error"])
        checks = {"moved": each_once(records)} if answer["case"] == MOVED else OUTPUTS.get(answer["case"], {})
        for name, check in checks.items():
            found = judge.consume_all(self._servers, f"{self._prefix}-{name}")
            try:
                check(found)
            except AssertionError as error:
                return f"topic {name}: {error}"
        return self._group_error() if answer["case"] == "group offsets" else ""

    def _group_error(self) -> str:
        """The group has what is in the commit log: everything, because the query was idle at its end."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": f"{self._prefix}-committed"})
        try:
            wanted = [TopicPartition(f"{self._prefix}-group", each) for each in range(3)]
            committed = sum(max(0, each.offset) for each in consumer.committed(wanted, timeout=60))
        finally:
            consumer.close()
        return "" if committed == 30 else f"expected 30 committed records, got {committed}"


if __name__ == "__main__":
    sys.exit(main())
