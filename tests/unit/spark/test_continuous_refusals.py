"""What a continuous query refuses of Spark's settings, before it asks Kafka anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import penstock
from penstock.errors import MissingOptionError, UnsupportedOptionError

SINK = {"topic": "out"}


def session(**settings: str) -> Any:
    """Return what the checks ask of a session of Spark: its settings."""
    return SimpleNamespace(conf=settings)


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_speculation_is_refused(value: str) -> None:
    """A second attempt of a task takes the ids of the first, which runs without an end."""
    with pytest.raises(UnsupportedOptionError) as caught:
        penstock.continuous(session(**{"spark.speculation": value}), {"subscribe": "in"}, None, SINK)
    assert caught.value.facts == {"option": "spark.speculation"}
    assert "Expected 'spark.speculation' = 'false'" in str(caught.value)
    assert "Nothing was read or written" in str(caught.value)


@pytest.mark.parametrize("settings", [{}, {"spark.speculation": "false"}])
def test_without_speculation_the_options_are_looked_at(settings: dict[str, str]) -> None:
    with pytest.raises(MissingOptionError, match=r"group\.id"):
        penstock.continuous(
            session(**settings), {"subscribe": "in", "kafka.bootstrap.servers": "h:1"}, None, SINK
        )
