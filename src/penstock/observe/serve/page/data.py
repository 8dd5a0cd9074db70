"""What the page gets: its files, and its JSON with what the query promises from end to end.

Runs in the process that plans a stream. Invariants: values of secret properties never appear; at most
`topic_partitions_max` topic partitions are sent, those with the largest lag; only the files in `_KINDS` are
served, whatever the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any

from penstock.observe.monitor import Report, report_to_json, sentences
from penstock.observe.serve.view import SourceView
from penstock.observe.sink_reports import SinkState
from penstock.options.config import (
    DiscoveryInterval,
    IsolationLevel,
    KafkaProperties,
    OffsetsSpec,
    SourceConfig,
    Subscription,
    TopicList,
    TopicPartitionSet,
    TopicPattern,
)
from penstock.options.properties import PROPERTIES
from penstock.types import Where

HIDDEN = "(hidden)"
_DATA_VERSION = 1
_SENTENCES_SHOWN = 5


def page_data(
    view: SourceView, config: SourceConfig, topic_partitions_max: int, now_ms: int
) -> dict[str, Any]:
    """Return everything that the page shows."""
    report, sinks = view.report(), view.sinks()
    return {
        "version": _DATA_VERSION,
        "now_ms": now_ms,
        "title": title_of(config.subscription),
        "group": config.group_id,
        "report": None if report is None else _report(report, topic_partitions_max),
        "sentences": [] if report is None else sentences(report, _SENTENCES_SHOWN),
        "totals": view.totals(),
        "history": view.history(),
        "batches": [asdict(each) for each in view.batch_times()],
        "sinks": sinks_to_json(sinks, now_ms),
        "promise": promise(sinks),
        "warnings": [*warnings(config, sinks), *view.query_warnings()],
        "options": resolved_options(config),
    }


def title_of(subscription: Subscription) -> str:
    """Return what the source reads, in a few words."""
    if isinstance(subscription, TopicList):
        return ", ".join(subscription.topics)
    if isinstance(subscription, TopicPattern):
        return f"topics like {subscription.pattern}"
    return ", ".join(str(each) for each in subscription.topic_partitions)


def _report(report: Report, most: int) -> dict[str, Any]:
    shown = report_to_json(report)
    rows = shown["topic_partitions"]
    if len(rows) > most:
        kept = sorted(rows, key=lambda row: -row["lag_records"])[:most]
        shown["topic_partitions"] = sorted(kept, key=lambda row: (row["topic"], row["partition"]))
    shown["topic_partitions_left_out"] = max(0, len(rows) - most)
    return shown


def sinks_to_json(sinks: Mapping[str, SinkState], now_ms: int) -> list[dict[str, Any]]:
    """Return the sinks for programs: totals and gauges by their names, times in milliseconds."""
    return [
        {
            **asdict(state),
            "name": name,
            "compression_ratio": state.compression_ratio,
            "oldest_transaction_ms": state.oldest_transaction_ms(now_ms),
        }
        for name, state in sinks.items()
    ]


def resolved_options(config: SourceConfig) -> list[tuple[str, str]]:
    """Return the settings of a source as names and texts, Kafka's properties last. Secrets are hidden."""
    shown = [
        (each.name.replace("_", " "), _text(getattr(config, each.name)))
        for each in fields(config)
        if each.name not in ("properties", "metrics", "progress_to")
    ]
    return [*shown, *_properties(config.properties)]


def _properties(properties: KafkaProperties) -> list[tuple[str, str]]:
    """Return the properties. An unknown one may be a secret, so its value is hidden, too."""
    return [
        (name, HIDDEN if name not in PROPERTIES or PROPERTIES[name].is_secret else text)
        for name, text in properties.items
    ]


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, OffsetsSpec):
        return _offsets_text(value)
    if isinstance(value, DiscoveryInterval):
        return "once" if value.after_ms is None else f"every {value.after_ms} ms"
    if isinstance(value, TopicList | TopicPattern | TopicPartitionSet):
        return title_of(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value.value) if isinstance(value, Enum) else str(value)


def _offsets_text(spec: OffsetsSpec) -> str:
    """Return a starting or stopping point in words."""
    if spec.initializer:
        return "chosen by an object of the user"
    if spec.before_now_ms is not None:
        return f"{spec.before_now_ms} ms before now"
    words = [] if spec.others is None else [_where(spec.others)]
    if spec.each:
        words.append(f"{len(spec.each)} named topic partitions")
    return ", ".join(words)


def _where(where: Where) -> str:
    return where.name.lower() if isinstance(where, Enum) else str(where)


_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "parts.js": "text/javascript; charset=utf-8",
    "uplot.css": "text/css; charset=utf-8",
    "uplot.js": "text/javascript; charset=utf-8",
    "uplot.LICENSE": "text/plain; charset=utf-8",
}

CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"  # noqa: E501 - one header
"""The page loads nothing from other servers and runs no script in texts, e.g. in the name of a topic."""


@cache
def page_file(path: str) -> tuple[str, bytes] | None:
    """Return the content type and the bytes of a file of the page; None for any other path."""
    name = path.removeprefix("/") or "index.html"
    kind = _KINDS.get(name)
    return None if kind is None else (kind, files(__package__).joinpath(name).read_bytes())


_SINK_WARNINGS = {
    "at-least-once": "Sink {name} is at-least-once: rows that are repeated after a failure are doubled. "
    "Set sink.delivery-guarantee = exactly-once.",
    "none": "Sink {name} promises nothing: rows can be lost or doubled. Set sink.delivery-guarantee.",
}


def promise(sinks: Mapping[str, SinkState]) -> str:
    """Return the promise in one sentence."""
    if not sinks:
        return (
            "The source gives each record to Spark once for each batch, and a repeated batch holds the same "
            "records. No sink of penstock reports here, so the promise ends there."
        )
    guarantees = {state.guarantee for state in sinks.values()}
    if guarantees == {"exactly-once"}:
        return "Exactly once from end to end, for readers with isolation.level = read_committed."
    if "none" in guarantees:
        return "None from end to end: a sink may lose rows."
    return "At least once from end to end: a failure can double rows."


def warnings(config: SourceConfig, sinks: Mapping[str, SinkState]) -> list[str]:
    """Return what weakens the promise, or keeps an operator from seeing it."""
    found = [
        _SINK_WARNINGS[state.guarantee].format(name=name)
        for name, state in sinks.items()
        if state.guarantee in _SINK_WARNINGS
    ]
    if config.isolation_level is not IsolationLevel.READ_COMMITTED:
        found.append(
            "The source reads records of open and aborted transactions. Set isolation.level = read_committed "
            "if a producer of its topics uses transactions."
        )
    if not config.fail_on_data_loss:
        found.append("The source continues if records were deleted before it read them.")
    if config.stopping is None and config.group_id and not config.commits_offsets:
        found.append(
            f"Offsets are not committed to group {config.group_id}: Kafka's tools show no lag of this query."
        )
    return found
