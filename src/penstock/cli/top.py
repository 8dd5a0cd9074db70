"""`penstock top`: queries and consumer groups on one screen, looked at again and again.

Runs on any machine that reaches the brokers. Invariants: nothing is changed, in Kafka or in a checkpoint; a
reader that cannot be looked at now is shown with its error, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connecting import CommandConfig, OptionalServers, client_properties, connected
from penstock.cli.lag import (
    BlockedAfter,
    ReadsUncommitted,
    StalledAfter,
    find_reader,
    health_rules,
    make_observer,
)
from penstock.errors import MissingOptionError, PenstockError

if TYPE_CHECKING:
    from penstock.cli.top_shown import Shown
    from penstock.client.net.connection import KafkaConnections
    from penstock.observe.health import HealthRules
    from penstock.observe.look import Observer


def top(  # noqa: PLR0913, PLR0917 - each is an option of the command
    checkpoint: Annotated[
        list[Path] | None, typer.Option(help="The checkpointLocation of a query; may be repeated.")
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
    command_config: CommandConfig = None,
) -> None:
    """Show the lag, health and rates of queries (--checkpoint) and groups (--group), until Ctrl-C."""
    from rich.console import Console  # noqa: PLC0415 - lazy
    from rich.live import Live  # noqa: PLC0415 - lazy

    from penstock.cli.top_shown import screen  # noqa: PLC0415 - lazy

    named: list[Path | str] = [*(checkpoint or ()), *(group or ())]
    if not named:
        raise MissingOptionError(
            "Name what to watch: --checkpoint PATH or --group NAME, each as often as you like.",
            option="--checkpoint",
        )
    rules = health_rules(stalled_after, blocked_after, read_uncommitted=read_uncommitted)
    properties = client_properties(bootstrap_server, command_config)
    console = Console()
    with connected(properties) as connections:
        watched = [
            Watched(each, connections, make_observer(connections, properties), rules) for each in named
        ]
        frames = _frames(watched, interval, looks)
        with suppress(KeyboardInterrupt):
            if not console.is_terminal:
                for shown in frames:
                    console.print(screen(shown, partitions))
                return
            with Live(console=console, auto_refresh=False, screen=looks == 0) as live:
                for shown in frames:
                    live.update(screen(shown, partitions), refresh=True)


def _frames(watched: Sequence[Watched], interval_s: float, looks: int) -> Iterator[list[Shown]]:
    """Yield what to show; sleep between."""
    count = 0
    while True:
        yield [each.look() for each in watched]
        count += 1
        if count == looks:
            return
        time.sleep(interval_s)


class Watched:
    """One reader on the screen.

    Args:
        who: a checkpoint folder, or (a text) a group.
        connections: to the cluster.
        observer: of the cluster.
        rules: of the health.
    """

    def __init__(
        self, who: Path | str, connections: KafkaConnections, observer: Observer, rules: HealthRules
    ) -> None:
        from penstock.observe.monitor import Monitor  # noqa: PLC0415 - lazy

        self._checkpoint = who if isinstance(who, Path) else None
        self._group = None if isinstance(who, Path) else who
        self._connections = connections
        self._observer = observer
        self._rules = rules
        self._monitor: Monitor | None = None

    def look(self) -> Shown:
        """Look once. An error becomes what is shown."""
        from penstock.cli.top_shown import Shown  # noqa: PLC0415 - lazy
        from penstock.observe.monitor import Monitor  # noqa: PLC0415 - lazy

        name = str(self._checkpoint or self._group)
        try:
            reader = find_reader(self._connections, self._checkpoint, self._group, None)
        except PenstockError as error:
            return Shown(name, None, None, error.message)
        if self._monitor is None:
            self._monitor = Monitor(self._rules, reader.history)
        found = self._observer.look(reader.positions)
        report = self._monitor.add(found.partitions, found.errors)
        return Shown(name, reader.named.get("batch_id"), report, None)
