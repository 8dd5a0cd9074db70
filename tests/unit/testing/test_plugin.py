"""The plugin for pytest: its fixtures work in a stranger's tests, and it costs other runs nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.testing import FakeKafka

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


def test_it_is_not_an_entry_point_of_pytest() -> None:
    """Because of one, pytest would rewrite the whole package in the runs of all users."""
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert "pytest11" not in text


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
