"""The plugin for pytest: its fixtures work in a stranger's tests, and it costs other runs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.testing import FakeKafka

ROOT = Path(__file__).parents[3]

HEAVY = (
    "kafka",
    "pyarrow",
    "numpy",
    "pyspark",
    "confluent_kafka",
    "penstock.testing.fake",
    "penstock.client",
)


def test_loading_it_loads_nothing_heavy() -> None:
    code = f"import sys, penstock.testing.plugin\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


RUN = """
import sys, penstock, pyspark_penstock, pytest

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "."]))
"""
STRANGERS_TEST = """
import sys


def test_nothing_is_loaded():
    assert "penstock.testing.plugin" in sys.modules
    assert not {"pyarrow", "kafka", "confluent_kafka"} & sys.modules.keys()


def test_a_fixture_is_there(unique_topic):
    assert unique_topic("orders")
"""


@pytest.mark.parametrize("conftest", ["", "pytest_plugins = ['penstock.testing.plugin']"])
def test_an_installed_penstock_is_a_plugin_that_disturbs_nobody(tmp_path: Path, conftest: str) -> None:
    """Install the metadata alone. Warnings are errors, and penstock is imported before pytest starts."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        (points,) = tomllib.load(file)["project"]["entry-points"].items()
    site, project = tmp_path / "site", tmp_path / "project"
    info = site / "pyspark_penstock-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark-penstock\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("penstock/__init__.py,,\npyspark_penstock/__init__.py,,\n")
    lines = [f"{name} = {module}" for name, module in points[1].items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{points[0]}]", *lines, ""]))
    project.mkdir()
    (project / "conftest.py").write_text(conftest)
    (project / "test_stranger.py").write_text(STRANGERS_TEST)
    path = os.pathsep.join([str(site), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in told.stdout, told.stdout + told.stderr
    assert "warning" not in told.stdout


def test_each_name_is_another_one(unique_topic: Callable[..., str]) -> None:
    names = [unique_topic(), unique_topic("orders"), unique_topic("orders")]
    assert len(set(names)) == 3
    assert names[1].startswith("orders-test-each-name-is-another-one-")


def test_a_fake_kafka_is_served(fake_kafka: FakeKafka, wait_until: Callable[..., None]) -> None:
    wait_until(lambda: fake_kafka.node_ids == [1], "the fake Kafka")


def test_names_are_loaded_when_they_are_used() -> None:
    import penstock.testing as room  # noqa: PLC0415 - each of its names is asked for

    assert all(getattr(room, name) is not None for name in room.__all__)
    assert not hasattr(room, "no_such_name")
