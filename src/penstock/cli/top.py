"""`penstock top`: queries and consumer groups on one screen, looked at again and again.

Runs on any machine that reaches the brokers, or the HTTP ends of the queries. Invariants: nothing is changed,
in Kafka or in a checkpoint; a reader that cannot be looked at now is shown with its error, and the others go
on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli._watched import StatusSource, WatchedReader, WatchedUrl
from penstock.cli.connecting import ClusterName, CommandConfig, OptionalServers, connected, find_cluster
from penstock.cli.lag import (
    BlockedAfter,
    ReadsUncommitted,
    StalledAfter,
    check_chosen,
    health_rules,
    make_observer,
)
from penstock.errors import MissingOptionError

if TYPE_CHECKING:
    from penstock.cli.top_shown import ReaderStatus


def top(  # noqa: PLR0913, PLR0917 - each is an option of the command
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="The checkpointLocation of a query (a path, or s3://, hdfs:// ...); may be repeated."
        ),
    ] = None,
    url: Annotated[
        list[str] | None,
        typer.Option(help="The HTTP end of a running query, http://host:port; may be repeated."),
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="A consumer group; may be repeated.")] = None,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    looks: Annotated[
        int, typer.Option("--looks", min=0, help="End after so many looks; 0: run until Ctrl-C.")
    ] = 0,
    partitions: Annotated[
        int, typer.Option(min=0, help="Show so many topic partitions of each reader, the worst first.")
    ] = 0,
    stalled_after: StalledAfter = 60.0,
    blocked_after: BlockedAfter = 10.0,
    read_uncommitted: ReadsUncommitted = False,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Show the lag, health and rates of queries (--url, --checkpoint) and groups (--group), until Ctrl-C."""
    if not (checkpoint or group or url):
        raise MissingOptionError(
            "Name what to watch: --checkpoint PATH, --group NAME or --url http://host:port, each as often as "
            "you like.",
            option="--checkpoint",
        )
    watched: list[StatusSource] = [WatchedUrl(each) for each in url or ()]
    asked = None
    with ExitStack() as stack:
        if checkpoint or group:
            rules = health_rules(stalled_after, blocked_after, read_uncommitted=read_uncommitted)
            cluster = find_cluster(bootstrap_server, name, command_config)
            if checkpoint:
                check_chosen(cluster, name)
            asked = str(cluster)
            connections = stack.enter_context(connected(cluster))
            of_folders: list[tuple[str | None, str | None]] = [(each, None) for each in checkpoint or ()]
            readers = [*of_folders, *((None, each) for each in group or ())]
            watched[:0] = [
                WatchedReader(*each, connections, make_observer(connections, cluster.properties), rules)
                for each in readers
            ]
        _show(_frames(watched, interval, looks), asked, partitions, is_endless=looks == 0)


def _show(
    frames: Iterator[list[ReaderStatus]], cluster: str | None, partitions: int, *, is_endless: bool
) -> None:
    """Draw each frame in place; into a file or a pipe, print one after the other."""
    from rich.console import Console  # noqa: PLC0415 - lazy
    from rich.live import Live  # noqa: PLC0415 - lazy

    from penstock.cli.top_shown import screen  # noqa: PLC0415 - lazy

    console = Console()
    with suppress(KeyboardInterrupt):
        if not console.is_terminal:
            for shown in frames:
                console.print(screen(shown, cluster, partitions))
            return
        with Live(console=console, auto_refresh=False, screen=is_endless) as live:
            for shown in frames:
                live.update(screen(shown, cluster, partitions), refresh=True)


def _frames(watched: Sequence[StatusSource], interval_s: float, looks: int) -> Iterator[list[ReaderStatus]]:
    """Yield what to show; sleep between."""
    count = 0
    while True:
        yield [each.look() for each in watched]
        count += 1
        if count == looks:
            return
        time.sleep(interval_s)
