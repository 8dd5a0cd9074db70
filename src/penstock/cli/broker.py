"""`penstock broker`: a real Kafka for experiments, as a child process, without Docker.

Runs on the developer's machine. Invariant: every command has text for people and JSON for programs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.errors import DevBrokerError

if TYPE_CHECKING:
    from penstock.devbroker.state import ClusterState, StateFolder

broker_app = typer.Typer(
    help="A real Apache Kafka for development: start, stop, status.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)

_Name = Annotated[str, typer.Option(help="Name of the cluster, where there are several.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@broker_app.command()
def start(
    brokers: Annotated[int, typer.Option(help="How many brokers: 1 or 3.")] = 1,
    port: Annotated[int | None, typer.Option(help="Port of the first broker; a free one by default.")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep data here; by default in a temporary folder, which `stop` removes."),
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", help="A server property, as key=value; may be repeated.")
    ] = None,
    name: _Name = "default",
    as_json: _Json = False,
) -> None:
    """Start Kafka in the background and print its address. Kafka runs until `penstock broker stop`."""
    from penstock.devbroker.background import ClusterRequest, start_in_background  # noqa: PLC0415 - lazy
    from penstock.devbroker.state import StateFolder  # noqa: PLC0415 - lazy

    request = ClusterRequest(
        brokers=brokers,
        properties=_parse_properties(properties or []),
        data_dir=str(data_dir.absolute()) if data_dir is not None else None,
        port=port,
    )
    state, is_new = start_in_background(request, StateFolder(name))
    if as_json:
        typer.echo(json.dumps({**_described(state), "started": is_new}))
    else:
        typer.echo(f"Kafka {'runs' if is_new else 'ran already'} at {state.bootstrap_servers}")
        typer.echo(f"  data and logs: {state.folder}")


@broker_app.command()
def stop(name: _Name = "default", as_json: _Json = False) -> None:
    """Stop the Kafka that `penstock broker start` started, and nothing else."""
    from penstock.devbroker.background import stop_in_background  # noqa: PLC0415 - lazy
    from penstock.devbroker.state import StateFolder  # noqa: PLC0415 - lazy

    folder = StateFolder(name)
    stopped = stop_in_background(folder)
    if as_json:
        typer.echo(json.dumps({"stopped": stopped is not None}))
    else:
        typer.echo(_none_runs(folder) if stopped is None else f"Stopped Kafka at {stopped.bootstrap_servers}")


@broker_app.command()
def status(name: _Name = "default", as_json: _Json = False) -> None:
    """Show whether Kafka runs and answers. Exit status: 0 yes, 3 not running, 4 a broker does not answer."""
    from penstock.devbroker.probe import ask_cluster  # noqa: PLC0415 - lazy
    from penstock.devbroker.state import StateFolder  # noqa: PLC0415 - lazy

    folder = StateFolder(name)
    state = folder.running()
    if state is None:
        typer.echo(json.dumps({"running": False}) if as_json else _none_runs(folder))
        raise typer.Exit(3)
    silent = []
    for server in state.bootstrap_servers.split(","):
        host, port = server.rsplit(":", 1)
        if ask_cluster(host, int(port), timeout_s=5.0) is None:
            silent.append(server)
    if as_json:
        typer.echo(json.dumps({**_described(state), "running": True, "not_answering": silent}))
    else:
        typer.echo(f"Kafka runs at {state.bootstrap_servers}")
        typer.echo(f"  data and logs: {state.folder}")
        for server in silent:
            typer.echo(f"  {server} does not answer; its log is one of {', '.join(state.log_files)}")
    if silent:
        raise typer.Exit(4)


def _described(state: ClusterState) -> dict[str, Any]:
    return {
        "bootstrap_servers": state.bootstrap_servers,
        "folder": state.folder,
        "log_files": list(state.log_files),
        "pid": next(iter(state.broker_pids), None),
        "broker_pids": list(state.broker_pids),
        "supervisor_pid": state.pid,
    }


def _none_runs(folder: StateFolder) -> str:
    return f"No broker is running (name: {folder.name}).{folder.others_running()}"


def _parse_properties(pairs: list[str]) -> dict[str, str]:
    parsed = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            # Only the key: a value may be a password.
            raise DevBrokerError(
                f"expected --property key=value, got {key!r} and no value", option="--property"
            )
        parsed[key.strip()] = value
    return parsed
