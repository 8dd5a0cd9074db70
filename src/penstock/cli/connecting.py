"""The command-line options that name a Kafka, and the client properties made of them.

Runs on any machine that reaches the brokers. Invariant: a command that changes something connects only to the
brokers that the user named, or to the development broker that `penstock broker start` started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.errors import MissingOptionError, OptionError, PenstockError

if TYPE_CHECKING:
    from penstock.client.net.connection import KafkaConnections
    from penstock.client.settings import ConnectionSettings
    from penstock.options.by_hand import ByHand
    from penstock.options.config import KafkaProperties

ASKED_CLUSTER = "asked_cluster"
"""The fact of an error that names the cluster that the command asked."""
_CLIENT_ID = "penstock-cli"
_DEFAULT_NAME = "default"

OptionalServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        help="The brokers, host:port,host:port; by default the one that `penstock broker start` started.",
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Instead of --bootstrap-server: the development cluster of this name, which `penstock broker "
        f"start` started with --name. Without both: {_DEFAULT_NAME}.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        "--properties",
        help="A file of Kafka client properties (key=value), for TLS and logins. `bootstrap.servers` may be "
        "in it.",
        exists=True,
        dir_okay=False,
    ),
]


@dataclass(frozen=True)
class Cluster:
    """The cluster that a command talks to.

    Attributes:
        properties: of the command's client, with `bootstrap.servers`.
        servers: the brokers, as the user or the development cluster names them.
        name: of the development cluster; None if the user named the brokers.
    """

    properties: KafkaProperties
    servers: str
    name: str | None = None

    def __str__(self) -> str:
        return self.servers if self.name is None else f"{self.servers} (cluster '{self.name}')"


def find_cluster(bootstrap_server: str | None, name: str | None, command_config: Path | None) -> Cluster:
    """Return the cluster that the user names: brokers, a development cluster, or else the default one.

    Raises:
        OptionError: brokers and a development cluster are named.
        MissingOptionError: no brokers are named, and no development cluster of this name runs.
    """
    from penstock.options.config import KafkaProperties  # noqa: PLC0415 - lazy

    if bootstrap_server and name is not None:
        raise OptionError(
            "Expected --bootstrap-server or --name, got both. Nothing was asked. Give one of them.",
            option="--name",
        )
    given = {} if command_config is None else read_properties(command_config)
    servers = bootstrap_server or (given.get("bootstrap.servers") if name is None else None)
    if servers is None:
        name = name or _DEFAULT_NAME
        servers = _development_servers(name)
    given["bootstrap.servers"] = servers
    return Cluster(KafkaProperties(tuple(sorted(given.items()))), servers, name)


def _development_servers(name: str) -> str:
    from penstock.devbroker.state import StateFolder  # noqa: PLC0415 - lazy

    folder = StateFolder(name)
    state = folder.running()
    if state is not None:
        return state.bootstrap_servers
    if name == _DEFAULT_NAME:
        raise MissingOptionError(
            "No broker is named, and no development broker runs (name: default). Give --bootstrap-server "
            f"host:port, or run `penstock broker start` first.{folder.others_running()}",
            option="--bootstrap-server",
        )
    raise MissingOptionError(
        f"No development cluster {name!r} runs. Give the name of one that runs, or run "
        f"`penstock broker start --name {name}` first.{folder.others_running()}",
        option="--name",
        value=name,
    )


@contextmanager
def naming(cluster: Cluster) -> Iterator[None]:
    """Let an error of the block say which cluster was asked."""
    try:
        yield
    except PenstockError as error:
        error.facts.setdefault(ASKED_CLUSTER, str(cluster))
        raise


@contextmanager
def connected(cluster: Cluster) -> Iterator[KafkaConnections]:
    """Open connections for one command; close them at its end."""
    from penstock.client.net.connection import KafkaConnections  # noqa: PLC0415 - lazy

    with naming(cluster):
        connections = KafkaConnections(connection_of(cluster))
        try:
            yield connections
        finally:
            connections.close()


def connection_of(cluster: Cluster) -> ConnectionSettings:
    """Return the settings of a command's connections."""
    from penstock.client.settings import connection_settings  # noqa: PLC0415 - lazy

    return connection_settings(cluster.properties, client_id=_CLIENT_ID)


def by_hand_of(cluster: Cluster) -> ByHand:
    """Return what makes commands on this cluster, to be shown to people."""
    from penstock.options.by_hand import ByHand  # noqa: PLC0415 - lazy

    return ByHand(cluster.servers, connection_of(cluster).security.protocol != "PLAINTEXT")


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a Java properties file.

    Raises:
        OptionError: the file does not follow the grammar.
    """
    from penstock.security.java_properties import parse_properties  # noqa: PLC0415 - lazy

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except ValueError as error:
        shown = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise OptionError(f"The properties file '{path}' {shown}.", option="--command-config") from None
