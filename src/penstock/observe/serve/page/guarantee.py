"""Say what a query promises from end to end, by what a source knows, and what weakens it.

Runs in the process that plans a stream. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.observe.sink_reports import SinkState
from penstock.options.config import IsolationLevel, SourceConfig

_SINK_WARNINGS = {
    "at-least-once": "Sink {name} is at-least-once: rows of a batch that Spark repeats are written again. "
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
