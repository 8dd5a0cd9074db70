"""The doctor compares the Python of Spark's workers with its own."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.doctor.facts import Facts
from penstock.doctor.findings import Level
from penstock.doctor.gather import python_facts, worker_facts
from penstock.doctor.judge import judge

NOW = datetime(2026, 5, 1, tzinfo=UTC)
PLATFORMS = Path(__file__).parents[2] / "docs" / "platforms.md"


@pytest.mark.parametrize("kind", ["spark", "connect_spark"])
def test_workers_of_this_machine_have_the_same_packages(request: pytest.FixtureRequest, kind: str) -> None:
    session: SparkSession | Any = request.getfixturevalue(kind)
    workers = worker_facts(session, task_count=4)
    assert len(workers) == 1
    here = python_facts(workers[0].where)
    assert workers == (here,)
    findings = judge(Facts(NOW, "b", "u", driver=here, workers=workers))
    assert {each.level for each in findings} == {Level.GOOD}
    older = replace(here, packages=dict(here.packages) | {"pyarrow": "1.0"})
    findings = judge(Facts(NOW, "b", "u", driver=here, workers=(older,)))
    assert [each.level for each in findings if "pyarrow 1.0" in each.text] == [Level.BAD]


@pytest.mark.parametrize("kind", ["spark", "connect_spark"])
def test_the_page_of_platforms_shows_where_penstock_is(
    request: pytest.FixtureRequest, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"```python\n(.*?)```", PLATFORMS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    session = request.getfixturevalue(kind)
    exec(found[1], {"spark": session})  # noqa: S102 - the page's own lines
    assert re.search(r"python[\d.]*: penstock \d\S+, PySpark \d", capfd.readouterr().out)
    if kind == "spark":  # Spark Connect asks the server later
        with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers"):
            session.read.format("penstock").load()
