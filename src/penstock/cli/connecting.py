"""The command-line options that name a Kafka, and the client properties made of them.

Runs on any machine that reaches the brokers. Invariant: a command that changes something connects only to the
brokers that the user named, or to the development broker that `penstock broker start` started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.errors import MissingOptionError, OptionError

if TYPE_CHECKING:
    from penstock.client.net.connection import KafkaConnections
    from penstock.options.config import KafkaProperties

_CLIENT_ID = "penstock-cli"

OptionalServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "-b",
        help="The brokers, host:port,host:port; by default the one that `penstock broker start` started.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="A file of Kafka client properties (key=value), for TLS and logins.",
        exists=True,
        dir_okay=False,
    ),
]


def client_properties(bootstrap_server: str | None, command_config: Path | None) -> KafkaProperties:
    """Make the properties of a command's client.

    Raises:
        MissingOptionError: no brokers are named, and no development broker runs.
    """
    from penstock.options.config import KafkaProperties  # noqa: PLC0415 - lazy

    given = {} if command_config is None else read_properties(command_config)
    given["bootstrap.servers"] = bootstrap_server or given.get("bootstrap.servers") or _development_broker()
    return KafkaProperties(tuple(sorted(given.items())))


def _development_broker() -> str:
    from penstock.devbroker.state import StateFolder  # noqa: PLC0415 - lazy

    state = StateFolder().running()
    if state is None:
        raise MissingOptionError(
            "No broker is named, and no development broker runs (name: default). Give --bootstrap-server "
            "host:port, or run `penstock broker start` first.",
            option="--bootstrap-server",
        )
    return state.bootstrap_servers


@contextmanager
def connected(properties: KafkaProperties) -> Iterator[KafkaConnections]:
    """Open connections for one command; close them at its end."""
    from penstock.client.net.connection import KafkaConnections  # noqa: PLC0415 - lazy
    from penstock.client.settings import connection_settings  # noqa: PLC0415 - lazy

    connections = KafkaConnections(connection_settings(properties, client_id=_CLIENT_ID))
    try:
        yield connections
    finally:
        connections.close()


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
