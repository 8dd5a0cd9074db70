"""What a user sees of an error: docs/source.md says to search the output for `penstock.errors.`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import penstock
from penstock.cli.quick_start.python import quick_python
from tests import judge
from tests.spark.shown_errors_job import BEGIN

PATIENCE_S = 300
PAGE = (Path(__file__).parents[2] / "docs" / "source.md").read_text()
SEARCHED = PAGE.partition("Search the output for `")[2].partition("`")[0]
OWN_FILE = re.compile(rf'File "{re.escape(str(Path(penstock.__file__).parent))}/[^"]*", line')
CASES = {
    "no broker": "BrokerUnavailableError: ",
    "misspelt topic": "UnknownTopicOrPartitionError: Not on the Kafka cluster: topic ",
    "state": "StateError: ",
    "table": "TableOrderError: ",
    "wrong type": "DecodeError: ",
    "wrong type in a batch": "DecodeError: ",
}


@pytest.fixture(scope="module")
def shown(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each failing query has printed, by its name."""
    topic, folder = f"shown-{uuid.uuid4().hex[:12]}-orders", tmp_path_factory.mktemp("shown")
    judge.create_topic(bootstrap, topic)
    judge.produce(bootstrap, topic, b'{"id": 1, "amount": 12.50}', b'{"id": 2, "amount": 7.25}')
    job = [sys.executable, "-W", "ignore", "-m", "tests.spark.shown_errors_job", str(folder)]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        done = subprocess.run(
            [*job, bootstrap, topic, str(closed.getsockname()[1])],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": quick_python(), "PYSPARK_DRIVER_PYTHON": quick_python()},
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    parts = re.split(rf"^{BEGIN}(.*)$", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)) | {"topic": topic, "before": parts[0]}


@pytest.mark.parametrize("name", CASES)
def test_a_search_finds_the_sentence(shown: dict[str, str], name: str) -> None:
    lines = [line for line in shown[name].splitlines() if SEARCHED in line]
    assert SEARCHED
    assert lines, shown[name]
    for line in lines:
        assert line.partition(SEARCHED)[2].startswith(CASES[name]), line


@pytest.mark.parametrize("name", CASES)
def test_why_says_the_sentence_alone(shown: dict[str, str], name: str) -> None:
    said = re.search(r"^why: (.*)$", shown[name], re.MULTILINE)
    assert said is not None or name == "wrong type in a batch"
    if said is not None:
        assert said.group(1).startswith(f"{SEARCHED}{CASES[name]}")
        assert "SQLSTATE" not in said.group(1)
        assert said.group(1).endswith((".", ")"))


@pytest.mark.parametrize("name", CASES)
def test_no_traceback_leads_through_files_of_penstock(shown: dict[str, str], name: str) -> None:
    own = [line for line in shown[name].splitlines() if OWN_FILE.search(line)]
    # What Spark calls in the user's program keeps one frame, where the error is shortened.
    assert [line for line in own if "/process/short_errors.py" not in line] == []


def test_a_misspelt_topic_is_named_with_the_one_that_is_meant(shown: dict[str, str]) -> None:
    assert f"Did you mean '{shown['topic']}'? Nothing was read" in shown["misspelt topic"]


def test_lines_of_the_planning_process_have_time_level_and_logger(shown: dict[str, str]) -> None:
    lines = shown["no broker"].splitlines()
    said = [line for line in lines if "Cannot reach 127.0.0.1" in line and "trying" in line]
    assert said, shown["no broker"]
    for line in said:
        assert re.match(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN penstock\.client: Cannot reach 127", line), line
