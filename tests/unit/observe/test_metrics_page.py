"""docs/metrics.md and docs/continuous-reference.md have each metric that penstock serves, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily

from penstock.observe.serve import prometheus, sinks

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
CONTINUOUS = (ROOT / "docs" / "continuous-reference.md").read_text(encoding="utf-8")
TOTALS = (*prometheus._TOTALS, *prometheus._MORE_TOTALS)
PREFIXES = {"Of the source": "penstock_source_", "Of the sink": "penstock_sink_"}


def names_in_code() -> set[str]:
    """Return the names as Prometheus shows them."""
    code = Path(str(prometheus.__file__)).read_text(encoding="utf-8")
    found = {
        f"penstock_{each.name}{'_total' if each.family is CounterMetricFamily else ''}" for each in TOTALS
    }
    names = re.findall(r'_gauge\(\s*"(\w+)"', code) + re.findall(r'"(topic_partition_\w+)",', code)
    found |= {f"penstock_source_{name}" for name in names}
    for kind, name in re.findall(r'(Counter|Gauge)MetricFamily\(\s*f"\{_SOURCE\}(\w+)"', code):
        found.add(f"penstock_source_{name}{'_total' if kind == 'Counter' else ''}")
    found |= {f"penstock_sink_{name}_total" for name, _, _ in sinks._TOTALS}
    return found | {f"penstock_sink_{name}" for name, _, _ in sinks._GAUGES}


def names_in_pages() -> set[str]:
    """Return the names in the tables of both pages."""
    found = set()
    for title, prefix in PREFIXES.items():
        table = re.split(r"^## ", PAGE.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]
        for row in re.findall(r"^\| (`.*?) \| ", table, re.MULTILINE):
            names = re.findall(r"`([\w.]+)(?:\{[^`]*\})?`", row)
            first = names[0].rpartition("_position")[0] + "_" if "_position" in names[0] else ""
            found |= {prefix + each.replace("..._", first) for each in names}
    table = re.findall(r"^\| (`penstock_.*?) \| ", CONTINUOUS, re.MULTILINE)
    return found | {name for row in table for name in re.findall(r"`(\w+)`", row)}


def test_each_metric_is_on_a_page_and_each_name_of_a_page_is_served() -> None:
    served = names_in_code()
    assert len(served) > 35
    assert names_in_pages() == served


@pytest.mark.parametrize(
    "name", ["penstock_source_health", "penstock_sink_commit_seconds", "penstock_continuous_plan"]
)
def test_a_metric_of_each_kind_is_found_in_the_code(name: str) -> None:
    assert name in names_in_code()
