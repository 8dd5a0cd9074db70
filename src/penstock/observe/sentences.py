"""Say in a few sentences what is wrong with a reader, for screens that have room for a few.

Runs where a report is shown. Pure. Invariants: topic partitions without an answer come first, because nothing
is known of them; if sentences are left out, the last one says how many.
"""

from __future__ import annotations

from penstock.observe.monitor import Report
from penstock.types import TopicPartition

_NAMED = 3
"""How many topic partitions with the same error are named."""


def sentences(report: Report, most: int) -> list[str]:
    """Return at most `most` sentences, and one more that counts the rest."""
    said = [*_errors(report), *report.reasons]
    left_out = len(said) - most
    return said if left_out <= 0 else [*said[:most], f"... and {left_out} more"]


def _errors(report: Report) -> list[str]:
    """Return one sentence for all topic partitions with the same error."""
    same: dict[str, list[TopicPartition]] = {}
    for topic_partition, error in sorted(report.errors.items()):
        same.setdefault(error.message, []).append(topic_partition)
    return [f"no answer for {_names(found)}: {message}" for message, found in same.items()]


def _names(found: list[TopicPartition]) -> str:
    named = ", ".join(str(each) for each in found[:_NAMED])
    left_out = len(found) - _NAMED
    return named if left_out <= 0 else f"{named} and {left_out} more"
