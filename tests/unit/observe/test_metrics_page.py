"""docs/metrics.md and docs/continuous-reference.md have each metric that is served, as it is declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from penstock.observe.serve import declared
from penstock.observe.serve.prometheus import source_metrics
from penstock.observe.serve.sinks import sink_metrics
from penstock.observe.sink_reports import SinkState
from penstock.options.metrics import ALIAS_SETS
from tests import metrics_page
from tests.page_regions import filled
from tests.unit.observe.test_serve import Served

PAGE = "a\n<!-- x: made by y -->\n\n| old |\n\n<!-- end of x -->\nb\n"


def served() -> Iterator[Metric]:
    """Yield each metric of a stream, of its sink and of a continuous query, but those with Flink's names."""
    stream = Served()
    stream.have_everything()
    continuous = SinkState("exactly-once", {"transactions": 1}, has_batches=False)
    for each in (*source_metrics(stream.view, 10, ALIAS_SETS), *sink_metrics({"x": continuous})):
        if each.samples and not each.name.startswith("flink_"):
            yield each


def test_what_is_served_is_what_is_declared() -> None:
    kinds = {each.name: "counter" if each.is_counter else "gauge" for each in declared.ALL}
    assert len(kinds) == len(declared.ALL) > 45
    assert {each.name: each.type for each in served()} == kinds


def test_each_metric_has_the_text_and_the_labels_of_its_declaration() -> None:
    of = {each.name: each for each in declared.ALL}
    for metric in served():
        assert metric.documentation == of[metric.name].help
        for sample in metric.samples:
            assert sample.name == of[metric.name].shown
            assert tuple(sample.labels) == of[metric.name].labels


@pytest.mark.parametrize("page", [metrics_page.METRICS, metrics_page.CONTINUOUS], ids=lambda each: each.name)
def test_the_page_is_that_of_the_declarations(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == metrics_page.pages()[page], "run `make docs`"


def test_each_metric_stands_on_one_of_the_pages() -> None:
    tables = "".join(text for found in metrics_page.tables().values() for text in found.values())
    assert [each.shown for each in declared.ALL if tables.count(f"| `{each.shown}` |") != 1] == []


def test_another_text_of_a_metric_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = (replace(declared.ALL[0], help="Something else."), *declared.ALL[1:])
    monkeypatch.setattr(declared, "ALL", changed)
    page = metrics_page.METRICS
    assert "| Something else. |" in metrics_page.pages()[page]
    assert page.read_text(encoding="utf-8") != metrics_page.pages()[page]


def test_only_the_table_of_a_region_is_replaced() -> None:
    assert filled(PAGE, {"x": "| new |\n"}) == PAGE.replace("old", "new")
    assert filled(filled(PAGE, {"x": "| new |\n"}), {"x": "| old |\n"}) == PAGE


@pytest.mark.parametrize(
    ("page", "names"), [(PAGE, ""), (PAGE, "xy"), (PAGE + PAGE, "x"), (PAGE.replace("end of", "end"), "x")]
)
def test_a_table_without_a_region_is_an_error(page: str, names: str) -> None:
    with pytest.raises(ValueError, match="has the regions"):
        filled(page, dict.fromkeys(names, "| new |\n"))
