"""Run the cases of the probe on one PySpark, and judge what they have written.

Invariant: a case that did not run is a failure. The judge is an independent read_committed consumer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from tests import judge
from tests.versions.environments import connector_path
from tests.versions.inputs import INPUTS, OUTPUTS, each_once

PROBE = Path(__file__).with_name("probe")
MODULE = "tests.versions.probe"
MOVED = "moved checkpoint"


class Found(NamedTuple):
    """What came of a run."""

    right: int
    wrong: list[str]
    """Titles of the cases that are wrong, and of those that did not run."""


class Run:
    """Cases of one PySpark, with topics of their own."""

    def __init__(self, servers: str, title: str, kind: str, folder: Path) -> None:
        self._servers = servers
        self._prefix = f"v{title.replace('.', '').replace(' ', '-')}"
        self._title = title
        self._kind = kind
        self._folder = folder / self._prefix
        self._folder.mkdir()
        code = self._folder / "code"
        shutil.copytree(
            PROBE, code.joinpath(*MODULE.split(".")), ignore=shutil.ignore_patterns("__pycache__")
        )
        self._code = str(code)

    def judged(self, python: Path, version: str, cases: Sequence[str]) -> Found:
        """Run the probe in new topics."""
        self.make_topics()
        return self.ran(python, version, cases)

    def ran(
        self,
        python: Path,
        version: str,
        cases: Sequence[str],
        variables: Mapping[str, str] | None = None,
        records: int = 0,
    ) -> Found:
        """Run the probe, and print a line for each case.

        Args:
            python: of the environment.
            version: of its PySpark.
            cases: their names; none for all.
            variables: of the environment.
            records: how many a moved checkpoint has to have written.
        """
        begun_s = time.monotonic()
        log = self._folder / "log"
        command = [
            str(python),
            "-m",
            MODULE,
            self._servers,
            self._prefix,
            str(self._folder),
            self._kind,
            *cases,
        ]
        changed = {**os.environ, **connector_path(version), "PYTHONPATH": self._code, **(variables or {})}
        wanted: list[str] = []
        right: list[str] = []
        with (
            log.open("w") as errors,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=self._folder, env=changed
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith('{"cases"'):
                    wanted = json.loads(line)["cases"]
                elif line.startswith('{"case"') and self._is_right(json.loads(line), records):
                    right.append(json.loads(line)["case"])
        wrong = [f"{self._title}: {name}" for name in wanted if name not in right]
        if process.returncode or not wanted:
            wrong.append(f"{self._title}: ended with {process.returncode}")
        if wrong:
            say(log.read_text()[-3000:])
        say(f"{self._title}: {len(right)} of {len(wanted)} cases right, {time.monotonic() - begun_s:.0f} s")
        return Found(len(right), wrong)

    def _is_right(self, answer: dict[str, Any], records: int) -> bool:
        error = self._error_of(answer, records)
        text = f"WRONG {error}" if error else f"ok {answer['saw'] or ''}"
        say(f"{self._title}: {answer['case']}: {text}")
        return not error

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


def moved(servers: str, path: Sequence[tuple[str, Path]], folder: Path) -> list[str]:
    """Move one checkpoint along a path of versions and their Pythons. Return what is wrong.

    Each version also finds a batch of the one before that is planned and not in the commit log.
    """
    run = Run(servers, "moves", "classic", folder)
    run.make_topics()
    for step, (version, python) in enumerate(path):
        found = run.ran(python, version, [MOVED], {"PROBE_STEP": str(step)}, records=100 * (step + 1))
        if found.wrong:
            return [f"checkpoint moved to {version}: {each}" for each in found.wrong]
    say(f"One checkpoint on {', '.join(version for version, _ in path)}: each record once.")
    return []


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
