"""Says why records are bad: each distinct reason with its count and its first record.

Runs on executors. Pure. Invariant: every failure is counted under one reason. Two failures have the same
reason when the same error happened in the same field; bytes and texts of single records make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.table._decode import RecordFailure

_REASONS_SHOWN_MAX = 3
_NEARLY_ALL_SHARE = 0.9
# Field names tell reasons apart. Other quoted texts and numbers (bytes, values) belong to one record.
_OF_ONE_RECORD = re.compile(r"(?P<kept>\b(?:field|column) '[^']*')|'[^']*'|\"[^\"]*\"|\d+")


def record_facts(records: pa.RecordBatch, row: int) -> dict[str, Any]:
    return {name: records.column(name)[row].as_py() for name in ("topic", "partition", "offset")}


def describe(records: pa.RecordBatch, failure: RecordFailure) -> str:
    """Say which record is bad, why, and how the record begins."""
    facts = record_facts(records, failure.record_index)
    return (
        f"topic {facts['topic']}, partition {facts['partition']}, offset {facts['offset']}: {failure.part}: "
        f"{failure.reason}; it begins: {failure.excerpt}"
    )


def by_reason(failures: Sequence[RecordFailure]) -> list[list[RecordFailure]]:
    """Group failures by error and field, the most frequent reason first."""
    groups: dict[tuple[str, str], list[RecordFailure]] = {}
    for one in failures:
        kind = _OF_ONE_RECORD.sub(lambda found: found["kept"] or "?", one.reason)
        groups.setdefault((one.part, kind), []).append(one)
    return sorted(groups.values(), key=len, reverse=True)


def looks_like_a_wrong_schema(bad_count: int, record_count: int) -> bool:
    """Return whether so many records are bad that the schema is more likely wrong than the records."""
    return bad_count > 1 and bad_count >= _NEARLY_ALL_SHARE * record_count


def summarise(records: pa.RecordBatch, failures: Sequence[RecordFailure]) -> str:
    """Say why these records are bad: the most frequent reasons, each with its count and first record."""
    groups = by_reason(failures)
    if len(failures) == 1:
        return f"{describe(records, failures[0])}."
    shown = [f"{_times(len(group))}: {describe(records, group[0])}" for group in groups[:_REASONS_SHOWN_MAX]]
    rest = groups[_REASONS_SHOWN_MAX:]
    if rest:
        others = sum(len(group) for group in rest)
        shown.append(f"{_times(others)}: {len(rest)} other reason{'s' if len(rest) > 1 else ''}")
    return ". ".join(shown) + "."


def _times(count: int) -> str:
    return "Once" if count == 1 else f"{count} times"
