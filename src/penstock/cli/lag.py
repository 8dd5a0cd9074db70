"""`penstock lag`: how far a query or a consumer group is behind, from outside.

Runs on any machine that reaches the brokers. Invariants: nothing is changed, in Kafka or in a checkpoint; the
command needs no Spark and no running query; stdout of --json is one JSON object.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.connecting import (
    Cluster,
    ClusterName,
    CommandConfig,
    OptionalServers,
    by_hand_of,
    connected,
    find_cluster,
)
from penstock.cli.lag_shown import report_as_text
from penstock.errors import CheckpointError, MissingOptionError, OptionError

if TYPE_CHECKING:
    from penstock.client.net.connection import KafkaConnections
    from penstock.observe.health import HealthRules, Sample
    from penstock.observe.look import Observer
    from penstock.observe.monitor import Report
    from penstock.options.config import KafkaProperties
    from penstock.types import TopicPartition

NOT_OK_STATUS = 3
_LOOK_EVERY_S = 1.0
_LOOK_TIMEOUT_MS = 5_000
"""How long a look waits for a topic partition that does not answer."""

Checkpoint = Annotated[
    str | None,
    typer.Option(
        help="The checkpointLocation of a query, running or not: a path of this machine, s3://, hdfs:// ..."
    ),
]
Group = Annotated[str | None, typer.Option(help="A consumer group, of any consumer.")]
Source = Annotated[
    int | None,
    typer.Option(
        min=0, help="With --checkpoint: the number of the source in the query, from 0; all by default."
    ),
]
StalledAfter = Annotated[
    float,
    typer.Option(
        "--stalled-after", min=0, help="STALLED: seconds without movement while there are records to read."
    ),
]
BlockedAfter = Annotated[
    float,
    typer.Option(
        "--blocked-after", min=0, help="BLOCKED_BY_TRANSACTION: seconds that the transaction has been open."
    ),
]
ReadsUncommitted = Annotated[
    bool,
    typer.Option(
        "--read-uncommitted", help="The reader reads uncommitted records: transactions do not block it."
    ),
]


@dataclass(frozen=True)
class Reader:
    """The reader that is asked about: where it stands now, and where it stood before."""

    named: dict[str, Any]
    positions: Mapping[TopicPartition, int]
    history: Mapping[TopicPartition, list[Sample]] = field(default_factory=dict)


def lag(  # noqa: PLR0913, PLR0917 - each is an option of the command
    checkpoint: Checkpoint = None,
    group: Group = None,
    source: Source = None,
    watch: Annotated[
        float,
        typer.Option(
            min=0,
            help="Look once a second for so many seconds, then answer. One look shows no rates, and cannot "
            "find FALLING_BEHIND.",
        ),
    ] = 0.0,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show every topic partition, not only those that are not OK.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help=f"Exit with status {NOT_OK_STATUS} unless the health is OK.")
    ] = False,
    stalled_after: StalledAfter = 60.0,
    blocked_after: BlockedAfter = 10.0,
    read_uncommitted: ReadsUncommitted = False,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every topic partition.")] = False,
) -> None:
    """Show how far a query (--checkpoint) or a consumer group (--group) is behind, and its health."""
    from penstock.observe.monitor import report_to_json  # noqa: PLC0415 - lazy

    check_named(checkpoint, group)
    rules = health_rules(stalled_after, blocked_after, read_uncommitted=read_uncommitted)
    cluster = find_cluster(bootstrap_server, name, command_config)
    if checkpoint is not None:
        check_chosen(cluster, name)
    with connected(cluster) as connections:
        who = (checkpoint, group, source)
        reader, report = _watch(connections, cluster.properties, who, rules, watch)
    if as_json:
        typer.echo(json.dumps({**reader.named, **report_to_json(report)}))
    else:
        typer.echo(
            report_as_text(
                reader.named,
                str(cluster),
                report,
                by_hand_of(cluster),
                with_all=partitions,
                reads_committed=not read_uncommitted,
            )
        )
    if check and (report.health.value != "OK" or report.errors):
        raise typer.Exit(NOT_OK_STATUS)


def _watch(
    connections: KafkaConnections,
    properties: KafkaProperties,
    who: tuple[str | None, str | None, int | None],
    rules: HealthRules,
    seconds: float,
) -> tuple[Reader, Report]:
    """Return the newest report after looking for so long. The time begins after the first look."""
    from penstock.observe.monitor import Monitor  # noqa: PLC0415 - lazy

    observer = make_observer(connections, properties)
    reader = find_reader(connections, *who)
    monitor = Monitor(rules, reader.history)

    def look() -> Report:
        found = observer.look(reader.positions)
        return monitor.add(found.partitions, found.errors)

    report = look()
    ends_at_s = time.monotonic() + seconds
    while (left_s := ends_at_s - time.monotonic()) > 0:
        time.sleep(min(_LOOK_EVERY_S, left_s))
        reader = find_reader(connections, *who)
        report = look()
    return reader, report


def check_named(checkpoint: str | None, group: str | None) -> None:
    """Raise unless exactly one reader is named."""
    if (checkpoint is None) == (group is None):
        raise MissingOptionError(
            "Name one reader: --checkpoint PATH (the checkpointLocation of a query) or --group NAME.",
            option="--checkpoint",
        )


def check_chosen(cluster: Cluster, name: str | None) -> None:
    """Raise unless the user has named the cluster that a checkpoint's query reads.

    A checkpoint does not name its cluster. Another one may have topics with the same names.
    """
    if cluster.name is not None and name is None:
        raise MissingOptionError(
            "A checkpoint does not say which cluster its query reads, so the lag could be that of another "
            f"cluster. No cluster was asked. Give --bootstrap-server host:port, or --name {cluster.name} for "
            f"the development cluster at {cluster.servers}.",
            option="--bootstrap-server",
        )


def health_rules(stalled_after_s: float, blocked_after_s: float, *, read_uncommitted: bool) -> HealthRules:
    """Return the rules with the limits of the command line."""
    from penstock.observe.health import HealthRules  # noqa: PLC0415 - lazy

    return HealthRules(
        stalled_after_ms=int(stalled_after_s * 1000),
        blocked_after_ms=int(blocked_after_s * 1000),
        reads_committed=not read_uncommitted,
    )


def make_observer(connections: KafkaConnections, properties: KafkaProperties) -> Observer:
    """Return an observer of the cluster."""
    from penstock.observe.look import Observer  # noqa: PLC0415 - lazy
    from penstock.options.config import SourceConfig, TopicList  # noqa: PLC0415 - lazy

    return Observer(connections, SourceConfig(properties, TopicList(())), _LOOK_TIMEOUT_MS)


def find_reader(
    connections: KafkaConnections, checkpoint: str | Path | None, group: str | None, source: int | None
) -> Reader:
    """Read where the reader stands.

    Raises:
        CheckpointError: the folder cannot be read as a checkpoint.
        OptionError: the group has no committed offsets, or the source does not exist.
    """
    if checkpoint is not None:
        return _of_checkpoint(checkpoint, source)
    from penstock.client.cluster.log_offsets import committed_offsets  # noqa: PLC0415 - lazy

    positions = committed_offsets(connections, str(group), None)
    if not positions:
        raise OptionError(
            f"Group {group!r} has no committed offsets in this cluster. It does not exist, it has not "
            "committed yet, or this user lacks the right DESCRIBE on its topics: Kafka leaves these out.",
            option="--group",
            value=group,
        )
    return Reader({"group": group}, positions)


def _of_checkpoint(folder: str | Path, source: int | None) -> Reader:
    from penstock.observe.checkpoint import read_checkpoint  # noqa: PLC0415 - lazy
    from penstock.security.location import without_secrets  # noqa: PLC0415 - lazy

    try:
        state = read_checkpoint(folder, source)
    except CheckpointError:
        # Spark removes old batches while it runs. The second time this finds the newer ones.
        state = read_checkpoint(folder, source)
    named = {
        "checkpoint": without_secrets(str(folder)),
        "query_id": state.query_id,
        "batch_id": state.batch_id,
        "planned_batch_id": state.planned_batch_id,
        "committed_at_ms": state.committed_at_ms,
        "batch_ms": state.batch_ms,
    }
    return Reader(named, state.positions, {tp: list(of) for tp, of in state.history.items()})
