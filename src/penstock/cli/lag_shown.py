"""The text of `penstock lag`, for people.

Runs on the machine of the command. Invariant: nothing here asks the cluster.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.observe.monitor import Report, Row
    from penstock.options.by_hand import ByHand

_REASONS_SHOWN = 10
_BLOCKED = "BLOCKED_BY_TRANSACTION"
_ISOLATION = (
    "This counts for a reader with isolation.level = read_committed. The default of a source is "
    "read_uncommitted, and such a reader is not held back: add --read-uncommitted for it."
)
_HEADER = ("topic partition", "position", "log end", "lag", "readable", "oldest unread", "health")


def report_as_text(
    named: dict[str, Any],
    cluster: str,
    report: Report,
    by_hand: ByHand,
    *,
    with_all: bool,
    reads_committed: bool,
) -> str:
    """Return the lines of a report: who, on which cluster, totals, what is wrong, the topic partitions."""
    totals = _totals(report, reads_committed=reads_committed)
    lines = [_who(named), f"Cluster: {cluster}", f"{report.health.value}  {totals}"]
    lines += [f"  {reason}" for reason in report.reasons[:_REASONS_SHOWN]]
    if len(report.reasons) > _REASONS_SHOWN:
        lines.append(f"  ... and {len(report.reasons) - _REASONS_SHOWN} more (--partitions shows all)")
    lines += [f"  {line}" for line in _how_to_end(report, by_hand)]
    lines += [f"  no answer for {tp}: {error.message}" for tp, error in sorted(report.errors.items())]
    rows = [row for row in report.rows if with_all or row.verdict.reason]
    return "\n".join(lines + (_table(rows) if rows else []))


def duration(seconds: float | None) -> str:
    """Return a duration for people, e.g. "12.3 s", "4 min", "2.5 h", "3 d"."""
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} d"


def _who(named: dict[str, Any]) -> str:
    if "group" in named:
        return f"Group {named['group']}, by its committed offsets"
    if named["batch_id"] is None:
        return f"Query {named['query_id']}: its first batch is not done"
    at = datetime.fromtimestamp(named["committed_at_ms"] / 1000, UTC)
    took = duration(named["batch_ms"] / 1000)
    done = f"batch {named['batch_id']} was done at {at.isoformat(timespec='seconds')} and took {took}"
    planned = named["planned_batch_id"]
    return f"Query {named['query_id']}: {done}" + ("" if planned is None else f", batch {planned} is planned")


def _totals(report: Report, *, reads_committed: bool) -> str:
    if not report.has_lag:
        return "lag unknown"
    totals, rates = report.totals, report.rates
    age = "unknown" if totals.age_ms is None else duration(totals.age_ms / 1000)
    parts = [f"lag {totals.records:,} records, {age}"]
    if reads_committed and totals.readable_records != totals.records:
        parts.append(f"{totals.readable_records:,} of them can be read now with read_committed")
    if rates is not None:
        parts.append(f"reads {rates.read_per_s:,.0f}/s, writers add {rates.written_per_s:,.0f}/s")
        if rates.catch_up_s:
            parts.append(f"caught up in {duration(rates.catch_up_s)}")
    return "; ".join(parts)


def _how_to_end(report: Report, by_hand: ByHand) -> list[str]:
    """Return for each transaction that blocks the reader how to end it by hand."""
    from penstock.sink.exactly_once.names import how_to_end_open  # noqa: PLC0415 - lazy

    holders = [row.look.holder for row in report.rows if row.verdict.health.value == _BLOCKED]
    lines = [
        how_to_end_open(
            each.topic_partition,
            each.first_offset,
            each.transactional_id,
            by_hand,
            is_looked_up=each.is_looked_up,
        )
        for each in holders
        if each is not None
    ]
    return [_ISOLATION, *list(dict.fromkeys(lines))[:_REASONS_SHOWN]] if lines else []


def _table(rows: list[Row]) -> list[str]:
    cells = [_HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADER))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _cells(row: Row) -> tuple[str, ...]:
    look = row.look
    age = "-" if not look.records else duration(None if look.age_ms is None else look.age_ms / 1000)
    numbers = (look.position, look.high_watermark, look.records, look.readable_records)
    return (str(row.topic_partition), *(f"{each:,}" for each in numbers), age, row.verdict.health.value)
