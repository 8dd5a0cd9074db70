"""`penstock promote` and `rollback`: hand the prefix of a job over to a changed one, and back.

Runs on the driver's machine. Invariants: without --yes nothing is changed; a command that was killed is run
again and ends in the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli._state_options import NewState, State, state_line
from penstock.cli.connecting import ClusterName, CommandConfig, OptionalServers, connected, find_cluster
from penstock.cli.receipts import LogTopic, Prefix

if TYPE_CHECKING:
    from penstock.cli._hand_over import Wanted

Checkpoint = Annotated[
    str, typer.Option("--checkpoint", help="The checkpointLocation of the job that stops, a local folder.")
]
To = Annotated[
    str, typer.Option("--to", help="The checkpointLocation of the job that continues, a new folder.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without it the positions are looked at.")]


def promote(  # noqa: PLR0913, PLR0917 - each is an option of the command
    prefix: Prefix,
    checkpoint: Checkpoint,
    to: To,
    yes: Yes = False,
    state: State = None,
    new_state: NewState = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: LogTopic = None,
) -> None:
    """Let a changed job continue where the running one has stopped, under its prefix, in one step."""
    wanted = _wanted(prefix, checkpoint, to, log_topic, (state, new_state), is_rollback=False)
    _run(wanted, (bootstrap_server, name, command_config), yes, new_state)


def rollback(  # noqa: PLR0913, PLR0917 - each is an option of the command
    prefix: Prefix,
    checkpoint: Checkpoint,
    to: To,
    yes: Yes = False,
    state: State = None,
    new_state: NewState = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: LogTopic = None,
) -> None:
    """Let the old job continue where the promoted one has stopped, under its prefix, in one step."""
    wanted = _wanted(prefix, checkpoint, to, log_topic, (state, new_state), is_rollback=True)
    _run(wanted, (bootstrap_server, name, command_config), yes, new_state)


def _wanted(
    prefix: str,
    checkpoint: str,
    to: str,
    log_topic: str | None,
    states: tuple[str | None, str | None],
    *,
    is_rollback: bool,
) -> Wanted:
    from penstock.cli._hand_over import Wanted  # noqa: PLC0415 - lazy
    from penstock.state.carried import carried_state  # noqa: PLC0415 - lazy

    return Wanted(prefix, checkpoint, to, log_topic, is_rollback, carried_state(*states))


def _run(
    wanted: Wanted,
    place: tuple[OptionalServers, ClusterName, CommandConfig],
    yes: bool,
    new_state: str | None,
) -> None:
    from penstock.cli._hand_over import hand_over  # noqa: PLC0415 - lazy

    cluster, prefix = find_cluster(*place), wanted.prefix
    typer.echo(f"Cluster: {cluster}", err=True)
    with connected(cluster) as connections:
        found = hand_over(connections, wanted, is_sure=yes)
    who, code = ("the old", "old") if wanted.is_rollback else ("the changed", "changed")
    if not yes and not found.was_done:
        typer.echo(
            f"Would hand the prefix {prefix} over from query {found.query_id}, after its batch "
            f"{found.after}, to {who} job. Nothing was changed. If the job has stopped, add --yes."
        )
        return
    if found.was_done:
        typer.echo(f"Query {found.query_id} has handed the prefix {prefix} over before.")
    if not found.folder.exists():
        typer.echo(f"The checkpoint {found.folder} does not exist yet: add --yes.")
        return
    after = "" if found.after is None else f" after batch {found.after} of query {found.query_id}"
    typer.echo(f"Query {found.heir} has the prefix {prefix}, and continues{after}.")
    typer.echo(
        f"Start the {code} job with checkpointLocation = {found.folder}, this prefix and the same topic."
    )
    for line in state_line(new_state):
        typer.echo(line)
    typer.echo(
        "The job that has stopped does not write any more: it ends with QueryEndedError if it is started."
    )
