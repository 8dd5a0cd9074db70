"""`penstock topics`: create and list topics, for experiments.

Runs on any machine that reaches the brokers. Invariant: a topic that exists is never changed.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from penstock.cli.connecting import (
    ClusterName,
    CommandConfig,
    OptionalServers,
    connected,
    find_cluster,
)

topics_app = typer.Typer(help="Topics: create, list.", no_args_is_help=True)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@topics_app.command()
def create(
    names: Annotated[list[str], typer.Argument(help="The topics to create.", metavar="TOPIC...")],
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of each topic.")] = 1,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic that exists as it is, instead of failing.")
    ] = False,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    as_json: _Json = False,
) -> None:
    """Create topics, with the broker's default replication, and wait until they can be written."""
    from penstock.client.cluster.log_offsets import NewTopic, create_topics, describe_topics  # noqa: PLC0415 - lazy

    cluster = find_cluster(bootstrap_server, name, command_config)
    with connected(cluster) as connections:
        existing = sorted(describe_topics(connections, names)) if if_not_exists else []
        new = [each for each in dict.fromkeys(names) if each not in existing]
        create_topics(connections, {each: NewTopic(partitions) for each in new}, exist_ok=if_not_exists)
    if as_json:
        typer.echo(json.dumps({"created": new, "existing": existing, "partitions": partitions}))
        return
    for each in new:
        typer.echo(f"Created topic {each} with {_counted(partitions)} at {cluster}.")
    for each in existing:
        typer.echo(f"Topic {each} exists at {cluster}; it was left as it is.")


@topics_app.command("list")
def list_topics(
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    as_json: _Json = False,
) -> None:
    """List the topics, without Kafka's internal ones."""
    from penstock.client.cluster.log_offsets import describe_topics  # noqa: PLC0415 - lazy

    cluster = find_cluster(bootstrap_server, name, command_config)
    with connected(cluster) as connections:
        described = describe_topics(connections).values()
    found = {topic.topic: len(list(topic.topic_partitions)) for topic in described if not topic.is_internal}
    if as_json:
        typer.echo(json.dumps([{"topic": each, "partitions": found[each]} for each in sorted(found)]))
        return
    if not found:
        typer.echo(f"There are no topics at {cluster}.")
        return
    typer.echo(f"Topics at {cluster}:", err=True)
    for each in sorted(found):
        typer.echo(f"{each}  {_counted(found[each])}")


def _counted(partitions: int) -> str:
    return f"{partitions} partition{'s' if partitions != 1 else ''}"
