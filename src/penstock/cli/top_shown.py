"""The screen of `penstock top`.

Runs on the machine of the command. Invariant: nothing here asks the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from penstock.cli.lag_shown import duration
from penstock.observe.health import Health
from penstock.observe.monitor import Report, Row, sentences

_REASONS_SHOWN = 5
_COLUMNS = ("batch", "took", "lag", "seconds", "readable", "reads/s", "arriving/s", "caught up in")
_NARROW_COLUMNS = ("lag", "seconds", "reads/s", "arriving/s")
_WIDE = 120
_NAME_CHARS = 18
_STYLES = {
    Health.OK: "green",
    Health.UNKNOWN: "yellow",
    Health.FALLING_BEHIND: "yellow",
    Health.BLOCKED_BY_TRANSACTION: "magenta",
    Health.STALLED: "bold red",
    Health.REWOUND: "bold red",
}


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """What is known of one reader: a report, or the error why there is none.

    Attributes:
        name: the checkpoint, the group or the URL.
        batch_id: the last batch that is done; None if unknown.
        report: None with an error.
        error: why there is no report.
        sinks: a sentence about each sink that reports to the query.
        batch_ms: of the last batch; None if unknown. By a URL it includes the wait for the trigger.
    """

    name: str
    batch_id: int | None
    report: Report | None
    error: str | None
    sinks: tuple[str, ...] = ()
    batch_ms: int | None = None


def screen(readers: Sequence[ReaderStatus], cluster: str | None, partitions: int) -> RenderableType:
    """Return the screen: the readers, what is wrong with them, and some of their topic partitions.

    Args:
        readers: of which each gets a line.
        cluster: that was asked about checkpoints and groups; None without them.
        partitions: how many topic partitions of each reader are shown, the worst first.
    """
    parts: list[RenderableType] = [] if cluster is None else [Text(f"Cluster: {cluster}")]
    parts.append(_Readers(readers))
    for reader in readers:
        parts += [Text(f"{reader.name}: {line}", style="yellow") for line in _sentences(reader)]
        parts += [Text(f"{reader.name}: {line}") for line in reader.sinks]
    if partitions:
        parts += [_partitions(each.name, each.report, partitions) for each in readers if each.report]
    return Group(*parts)


class _Readers:
    """A line for each reader. A narrow terminal gets fewer columns, because broken ones cannot be read."""

    def __init__(self, readers: Sequence[ReaderStatus]) -> None:
        self._readers = readers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for this width."""
        is_narrow = options.max_width < _WIDE
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("query or group", overflow="fold")
        table.add_column("health")
        shown = _NARROW_COLUMNS if is_narrow else _COLUMNS
        for heading in shown:
            table.add_column(heading, justify="right")
        for reader in self._readers:
            health, *cells = _cells(reader)
            of_column = dict(zip(_COLUMNS, cells, strict=False))
            name = _shortened(reader.name) if is_narrow else reader.name
            table.add_row(Text(name), health, *(of_column.get(heading, "") for heading in shown))
        yield table


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"...{name[3 - _NAME_CHARS :]}"


def _cells(reader: ReaderStatus) -> list[Text | str]:
    batch = "-" if reader.batch_id is None else str(reader.batch_id)
    took = "-" if reader.batch_ms is None else duration(reader.batch_ms / 1000)
    report = reader.report
    if report is None:
        return [Text("no answer", style="red"), batch, took]
    totals, rates = report.totals, report.rates
    has_lag = report.has_lag
    caught_up = "-" if rates is None or rates.catch_up_s is None else duration(rates.catch_up_s)
    return [
        Text(report.health.value, style=_STYLES[report.health]),
        batch,
        took,
        f"{totals.records:,}" if has_lag else "-",
        "-" if totals.age_ms is None else f"{totals.age_ms / 1000:,.1f}",
        f"{totals.readable_records:,}" if has_lag else "-",
        "-" if rates is None else f"{rates.read_per_s:,.0f}",
        "-" if rates is None else f"{rates.written_per_s:,.0f}",
        caught_up,
    ]


def _sentences(reader: ReaderStatus) -> list[str]:
    if reader.report is None:
        return [reader.error or ""]
    return sentences(reader.report, _REASONS_SHOWN)


def _partitions(name: str, report: Report, count: int) -> Table:
    order = list(Health)
    worst: list[Row] = sorted(
        report.rows,
        key=lambda row: (-order.index(row.verdict.health), -row.look.records, row.topic_partition),
    )[:count]
    table = Table(box=None, pad_edge=False, header_style="bold", title=Text(name), title_justify="left")
    table.add_column("topic partition", overflow="fold")
    for heading in ("position", "log end", "lag", "seconds"):
        table.add_column(heading, justify="right")
    table.add_column("health")
    table.add_column("open transaction", overflow="fold")
    for row in worst:
        look = row.look
        table.add_row(
            Text(str(row.topic_partition)),
            f"{look.position:,}",
            f"{look.high_watermark:,}",
            f"{look.records:,}",
            "-" if look.age_ms is None else f"{look.age_ms / 1000:,.1f}",
            Text(row.verdict.health.value, style=_STYLES[row.verdict.health]),
            "-" if look.holder is None else Text(str(look.holder)),
        )
    return table
