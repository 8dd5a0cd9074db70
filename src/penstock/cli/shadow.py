"""`penstock shadow`: let a changed job repeat batches of a running one beside it, and compare their records.

Runs on the driver's machine. Invariants: the running job is not disturbed; with --json, stdout is JSON; the
exit code of `compare` says what was found, and no error is taken for an answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli._state_options import NewState, State, state_line
from penstock.cli.connecting import ClusterName, CommandConfig, OptionalServers, connected, find_cluster
from penstock.cli.receipts import Json, LogTopic
from penstock.cli.verify import DIFFERS, NOT_ALL_PROVABLE, PROVEN, columns_of, errors_as_exit_codes

if TYPE_CHECKING:
    from penstock.observe.shadow_note import ShadowNote
    from penstock.observe.verify.shadow.compare import Comparison

shadow_app = typer.Typer(
    help="A changed job beside the running one: create, compare.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)

LivePrefix = Annotated[
    str, typer.Option("--prefix", help="The sink.transactional-id-prefix of the running job.")
]
LiveCheckpoint = Annotated[
    str, typer.Option("--live-checkpoint", help="The checkpointLocation of the running job.")
]
ShadowCheckpoint = Annotated[
    str, typer.Option("--shadow-checkpoint", help="The checkpointLocation of the shadow.")
]
OptionalLive = Annotated[
    str | None,
    typer.Option(
        "--live-checkpoint",
        help="The checkpointLocation of the running job. With it, batches that wrote nothing are known, too.",
    ),
]
ShadowTopic = Annotated[
    str, typer.Option("--topic", help="The topic that the shadow writes. It has to exist.")
]
ShadowPrefix = Annotated[
    str | None,
    typer.Option(
        "--shadow-prefix", help="The prefix of the shadow. By default that of the running job and -shadow."
    ),
]
FromBatch = Annotated[
    int | None,
    typer.Option(
        "--from-batch",
        help="The first batch to repeat. By default the last but nine, and with --state the last one.",
    ),
]
ToBatch = Annotated[
    int | None, typer.Option("--to-batch", help="The last batch to repeat. By default the last one.")
]
Columns = Annotated[
    str, typer.Option("--columns", help="What to compare: key,value,headers or some of them.")
]


@shadow_app.command()
def create(  # noqa: PLR0913, PLR0917 - each is an option of the command
    prefix: LivePrefix,
    live_checkpoint: LiveCheckpoint,
    shadow_checkpoint: ShadowCheckpoint,
    topic: ShadowTopic,
    shadow_prefix: ShadowPrefix = None,
    from_batch: FromBatch = None,
    to_batch: ToBatch = None,
    state: State = None,
    new_state: NewState = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: LogTopic = None,
) -> None:
    """Make a checkpoint with which a changed job repeats batches of a running one, into another topic."""
    from penstock.cli import _shadows  # noqa: PLC0415 - lazy
    from penstock.state.carried import carried_state  # noqa: PLC0415 - lazy

    wanted = _shadows.Wanted(
        prefix,
        live_checkpoint,
        shadow_checkpoint,
        topic,
        shadow_prefix,
        (from_batch, to_batch),
        log_topic,
        carried_state(state, new_state),
    )
    cluster = find_cluster(bootstrap_server, name, command_config)
    typer.echo(f"Cluster: {cluster}", err=True)
    with connected(cluster) as connections:
        note = _shadows.create(connections, wanted)
    typer.echo(
        f"Made {shadow_checkpoint}. Its first batch repeats the batches {note.first_batch} to "
        f"{note.last_batch} of query {note.live_query_id}."
    )
    for line in [*_what_to_do(note, shadow_checkpoint), *state_line(new_state)]:
        typer.echo(line)


def _what_to_do(note: ShadowNote, checkpoint: str) -> list[str]:
    return [
        "Start the changed job with this checkpointLocation, another group id and, for a short run, the",
        "trigger availableNow=True. If its source has scan.dead-letter.topic, give it another topic there:",
        "dead letters of the shadow among those of the running job would be requeued twice.",
        f"Leave its other options as they are: it writes to {note.topic} in place of {note.live_topic},",
        f"under the prefix {note.prefix}. Then run `penstock shadow compare --shadow-checkpoint "
        f"{checkpoint}`.",
    ]


@shadow_app.command("compare")
def compare_(
    shadow_checkpoint: ShadowCheckpoint,
    live_checkpoint: OptionalLive = None,
    columns: Columns = "key,value,headers",
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Compare what a shadow has written with what the running job has written of the same records.

    Exit codes: 0 equal, 1 something differs, 2 wrong options, 3 not all, or nothing, could be compared, 4 the
    command failed.
    """
    from penstock.cli import _shadows  # noqa: PLC0415 - lazy
    from penstock.observe.verify.shadow.compare import Outcome  # noqa: PLC0415 - lazy

    with errors_as_exit_codes("shadow compare", "Nothing was compared."):
        chosen = columns_of(columns, "--columns")
        cluster = find_cluster(bootstrap_server, name, command_config)
        typer.echo(f"Cluster: {cluster}", err=True)
        with connected(cluster) as connections:
            _, found = _shadows.compare_shadow(connections, shadow_checkpoint, live_checkpoint, chosen)
        for line in [json.dumps(found.to_json())] if as_json else _lines(found):
            typer.echo(line)
    codes = {
        Outcome.EQUAL: PROVEN,
        Outcome.DIFFERS: DIFFERS,
        Outcome.NOT_COMPARED: NOT_ALL_PROVABLE,
    }
    raise typer.Exit(codes[found.outcome])


def _lines(found: Comparison) -> list[str]:
    lines = []
    for each in found.groups:
        lines += [each.text, *(f"  {row.text}" for row in each.rows)]
        if each.more_rows:
            lines.append("  More records differ.")
    if not found.groups:
        lines.append(
            "Nothing was compared: the shadow has finished no batch that ends where one of the job does."
        )
    return [*lines, *found.notes]
