"""Make the tables of docs/metrics.md and docs/continuous-reference.md from the declared metrics and options.

Run `make docs` after you change one. People write the rest of both pages. Invariant: the pages have what is
declared, and what is declared is served (tests/unit/observe/test_metrics_page.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from penstock.observe.serve import declared
from penstock.observe.serve.declared import Declared
from penstock.observe.serve.flink import FLINK_NAMES
from penstock.options.metrics import METRICS_OPTIONS
from tests.options_page import shown_default
from tests.page_regions import code, filled, table

DOCS = Path(__file__).parents[1] / "docs"
METRICS, CONTINUOUS = DOCS / "metrics.md", DOCS / "continuous-reference.md"
_ONLY_CONTINUOUS = (
    *(each for each in declared.ALL if each.name.startswith("penstock_continuous_")),
    declared.SINK_TRANSACTIONS,
)


def tables() -> dict[Path, dict[str, str]]:
    """Return the tables of each page, by the names of their regions."""
    return {
        METRICS: {
            "options": _options(),
            "source-metrics": _metrics(_beginning("penstock_source_")),
            "sink-metrics": _metrics(_beginning("penstock_sink_")),
            "flink-metrics": _flink(),
            "kafka-lag-exporter-metrics": _metrics(_beginning("kafka_consumergroup_")),
        },
        CONTINUOUS: {"continuous-metrics": _metrics(_ONLY_CONTINUOUS)},
    }


def pages() -> dict[Path, str]:
    """Return both pages with the tables of now."""
    return {page: filled(page.read_text(encoding="utf-8"), found) for page, found in tables().items()}


def _beginning(prefix: str) -> list[Declared]:
    return [each for each in declared.ALL if each.name.startswith(prefix) and each not in _ONLY_CONTINUOUS]


def _metrics(metrics: Iterable[Declared]) -> str:
    return table(
        ("metric", "type", "labels", "meaning"),
        (
            (
                code(each.shown),
                "counter" if each.is_counter else "gauge",
                ", ".join(map(code, each.labels)),
                each.help,
            )
            for each in metrics
        ),
    )


def _options() -> str:
    shown = (each for each in METRICS_OPTIONS if each.key.startswith("metrics."))
    return table(
        ("option", "allowed", "default", "what it does"),
        (
            (code(each.key), each.type.allowed, shown_default(each), each.doc.removesuffix(" (Ours.)"))
            for each in shown
        ),
    )


def _flink() -> str:
    return table(
        ("Flink", "here", "meaning"),
        (
            (code(each.flink), "-" if each.served is None else code(each.served), each.meaning)
            for each in FLINK_NAMES
        ),
    )


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{page}\n")
