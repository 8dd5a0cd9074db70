"""The dashboard and the alert rules name metrics and labels that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.observe.serve.prometheus import prometheus_text
from penstock.observe.serve.sinks import sink_metrics
from penstock.observe.sink_reports import SinkState
from tests.unit.observe.test_serve import Served

_NAME = re.compile(r"penstock_(?:source|sink|continuous)_\w+")


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["dashboard", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def expressions_of_dashboard() -> list[str]:
    made: dict[str, Any] = json.loads(printed())
    return [target["expr"] for panel in made["panels"] for target in panel["targets"]]


def expressions_of_alerts() -> list[str]:
    return re.findall(r"expr: (.*)", printed("--alerts"))


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """Every metric that can exist, with its labels."""
    served = Served()
    served.have_everything()
    text = prometheus_text(served.view, 100, ()).decode()
    found: dict[str, set[str]] = {}
    of_continuous = sink_metrics(
        {"copier": SinkState("exactly-once", {"transactions": 1}, has_batches=False)}
    )
    for family in (*text_string_to_metric_families(text), *of_continuous):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_metric_that_is_named_exists(labels: dict[str, set[str]]) -> None:
    named = {name for text in (printed(), printed("--alerts")) for name in _NAME.findall(text)}
    assert len(named) > 25
    assert named - labels.keys() == set()


def test_every_metric_that_matters_is_shown(labels: dict[str, set[str]]) -> None:
    named = set(_NAME.findall(printed()))
    of_one = {name for name in labels if name.startswith("penstock_source_topic_partition")}
    # Those that say nothing without another metric, or need the page.
    quiet = {
        "penstock_source_ignored_future_timestamps_total",
        "penstock_source_offset_commits_succeeded_total",
        "penstock_source_batches_total",
        "penstock_sink_batches_total",
        "penstock_sink_compression_ratio",
    }
    assert labels.keys() - of_one - quiet - named == set()


@pytest.mark.parametrize("expression", [*expressions_of_dashboard(), *expressions_of_alerts()])
def test_the_labels_of_an_expression_exist(labels: dict[str, set[str]], expression: str) -> None:
    known = {"job", "instance"}.union(*(labels[name] for name in _NAME.findall(expression)))
    used = set(re.findall(r"(\w+)=~?\"", expression))
    for group in re.findall(r"by \(([^)]*)\)", expression):
        used |= {name.strip() for name in group.split(",")}
    assert used <= known
    assert expression.count("(") == expression.count(")")


def test_the_panels_do_not_overlap() -> None:
    grid = [panel["gridPos"] for panel in json.loads(printed())["panels"]]
    cells = [
        (x, y)
        for cell in grid
        for x in range(cell["x"], cell["x"] + cell["w"])
        for y in range(cell["y"], cell["y"] + cell["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
