"""`penstock take-over`: let a continuous query continue where a stream with micro-batches has stopped.

Runs on any machine that reaches the brokers and the checkpoint. Invariants: without --yes nothing is changed;
the checkpoint is never changed; a stream with an unfinished batch is refused, and one that is found to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connecting import ClusterName, CommandConfig, OptionalServers, connected, find_cluster
from penstock.cli.lag import Source, check_chosen
from penstock.errors import CheckpointError

if TYPE_CHECKING:
    from penstock.observe.checkpoint import CheckpointState

_NOTHING = "No offset was committed."


def take_over(
    checkpoint: Annotated[str, typer.Option(help="The checkpointLocation of the stream that has stopped.")],
    group: Annotated[str, typer.Option(help="The consumer group of the continuous query.")],
    source: Source = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without it the offsets are shown.")] = False,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Commit the offsets of a stream's checkpoint to the group of a continuous query: it continues there."""
    from penstock.observe.checkpoint import read_checkpoint  # noqa: PLC0415 - lazy
    from penstock.relay.take_over import TakeOver  # noqa: PLC0415 - lazy

    state = read_checkpoint(checkpoint, source)
    _check_finished(state)
    wanted = TakeOver(group, state.positions, state.topic_ids)
    cluster = find_cluster(bootstrap_server, name, command_config)
    check_chosen(cluster, name)
    with connected(cluster) as connections:
        before = wanted.check(connections)
        if yes:
            wanted.commit(connections)
            _check_stopped(state, read_checkpoint(checkpoint, source))
    typer.echo(f"Batch {state.batch_id} of the stream ends at these offsets (group {group} at {cluster}):")
    for topic_partition, offset in sorted(state.positions.items()):
        known = before.get(topic_partition)
        was = "none" if known is None else str(known.offset)
        typer.echo(f"  {topic_partition}  {offset}  (committed before: {was})")
    if yes:
        typer.echo(
            "They are committed. Do not start the stream with this checkpoint again: it would write the"
        )
        typer.echo("records after these offsets a second time.")
    else:
        typer.echo(f"{_NOTHING} If the stream has stopped, add --yes.")


def _check_finished(state: CheckpointState) -> None:
    """Raise unless the position of the checkpoint is the end of what the stream has written."""
    if state.planned_batch_id is not None:
        raise CheckpointError(
            f"Batch {state.planned_batch_id} of the checkpoint was planned and is not finished, so a part of "
            f"it may be written. {_NOTHING} If the stream runs, stop it after its batch. If it was killed, "
            "start it once with the trigger availableNow=True: it finishes the batch and ends by itself. "
            "Then run this command again.",
            batch_id=state.planned_batch_id,
        )
    if state.waiting:
        names = ", ".join(str(each) for each in sorted(state.waiting)[:10])
        raise CheckpointError(
            f"The stream has not found out yet where it begins to read {names}: no broker has answered. "
            f"{_NOTHING} Start the stream once with the trigger availableNow=True. Then run this command "
            "again.",
            topic_partitions=tuple(sorted(state.waiting)),
        )


def _check_stopped(before: CheckpointState, after: CheckpointState) -> None:
    """Raise if the checkpoint moved while its offsets were committed."""
    if (before.batch_id, before.planned_batch_id) == (after.batch_id, after.planned_batch_id):
        return
    newest = after.batch_id if after.planned_batch_id is None else after.planned_batch_id
    raise CheckpointError(
        f"The stream runs: its checkpoint was at batch {before.batch_id}, and had batch {newest} after the "
        "offsets were committed. The group is behind the stream now, so a continuous query would write the "
        "records of the newer batches a second time. Do not start it yet. Stop the stream after its batch, "
        "and run this command again.",
        batch_id=newest,
    )
