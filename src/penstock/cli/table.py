"""`penstock table`: tables that a query keeps equal to a changelog.

Runs on any machine that reaches the table; with a checkpoint, on the driver's machine. Invariant: without
--yes nothing is changed in a table that a query keeps.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli._state_options import NewState, State, state_line
from penstock.cli._table_named import (
    Delta,
    Iceberg,
    Postgresql,
    Sqlite,
    any_table,
    errors_of_drivers,
    errors_of_rights,
    sql_table,
)
from penstock.cli.verify import DIFFERS, NOT_ALL_PROVABLE, PROVEN, errors_as_exit_codes

if TYPE_CHECKING:
    from penstock.cli._table_hand_over import Wanted
    from penstock.cli._table_shadow import Compared, Side
    from penstock.targets import DeltaTable, IcebergTable, SqlTable

table_app = typer.Typer(
    help="Tables that a query keeps equal to a changelog: forget, shadow, compare, promote, rollback.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)
_HANDED = "handed over: {}. Either all of it was done or nothing"

Table = Annotated[
    str, typer.Argument(help="The name of the table: of a database, a path or URI, or namespace.table.")
]
Shadow = Annotated[str, typer.Argument(metavar="SHADOW", help="The name of the shadow, of the same kind.")]
Live = Annotated[str, typer.Option("--live-checkpoint", help="The checkpointLocation of the running job.")]
Beside = Annotated[str, typer.Option("--shadow-checkpoint", help="The checkpointLocation of the shadow.")]
Checkpoint = Annotated[
    str, typer.Option("--checkpoint", help="The checkpointLocation of the job that stops, a local folder.")
]
To = Annotated[
    str, typer.Option("--to", help="The checkpointLocation of the job that continues, a new folder.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without it the table is looked at.")]
NoState = Annotated[
    bool,
    typer.Option(
        "--no-state",
        help="No function of penstock.changelog in the job keeps a state. Required with --yes, if --state is "
        "not given: a state stays with the old checkpoint, and neither job could continue.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", help="Compare only these columns beside the keys, e.g. name,city. By default all."
    ),
]
FromBatch = Annotated[
    int | None,
    typer.Option(
        "--from-batch",
        help="The first batch to repeat. By default the last but nine, and with --state the last but one.",
    ),
]
ToBatch = Annotated[
    int | None, typer.Option("--to-batch", help="The last batch to repeat. By default the newest one.")
]


@table_app.command()
def forget(
    table: Annotated[str, typer.Argument(help="The name of the table, or schema.table.")],
    sqlite: Sqlite = None,
    postgresql: Postgresql = None,
    is_wanted: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
) -> None:
    """Delete the rows of a table and the marker of its query, so that a new query can build the table again.

    The query that keeps the table stops with an error at its next batch. Without --yes it only says what it
    would do. Of a Parquet, Delta or Iceberg table the marker is in the table itself: drop it.
    """
    from penstock.targets.forget import forget as forget_table  # noqa: PLC0415 - lazy

    what = (
        "looked at or freed: {}. Rows and marker are deleted in one transaction: both are there, or both "
        "are gone"
    )
    target, command = sql_table(table, sqlite, postgresql), "forget --yes" if is_wanted else "forget"
    with errors_of_drivers(table, what), errors_of_rights(target, command, "Nothing was changed."):
        kept = forget_table(target, is_wanted=is_wanted)
    rows = "all of its rows" if kept.has_rows else "nothing else, because it is missing or empty"
    typer.echo(f"Table {table} is kept by query {kept.query_id}, whose last batch is {kept.batch_id}.")
    if is_wanted:
        typer.echo(
            f"The marker was deleted, and {rows}. Start the new query with a new checkpoint and new folders "
            "for its states. If its columns are others, drop the table first."
        )
    else:
        typer.echo(
            f"With --yes the marker is deleted, and {rows}. Query {kept.query_id} stops with an error at its "
            "next batch. Nothing was changed."
        )


@table_app.command()
def shadow(  # noqa: PLR0913, PLR0917 - each is an option of the command
    table: Table,
    shadow: Shadow,
    live_checkpoint: Live,
    shadow_checkpoint: Beside,
    delta: Delta = False,
    iceberg: Iceberg = None,
    sqlite: Sqlite = None,
    postgresql: Postgresql = None,
    from_batch: FromBatch = None,
    to_batch: ToBatch = None,
    state: State = None,
    new_state: NewState = None,
) -> None:
    """Make a copy of a table and a checkpoint with which a changed job repeats batches of the running one."""
    from penstock.cli import _table_shadow as work  # noqa: PLC0415 - lazy
    from penstock.state.carried import carried_state  # noqa: PLC0415 - lazy

    carried = carried_state(state, new_state)
    live = _side(any_table(table, delta, iceberg, sqlite, postgresql), table, live_checkpoint)
    beside = _side(any_table(shadow, delta, iceberg, sqlite, postgresql), shadow, shadow_checkpoint)
    made = work.create(live, beside, from_batch, to_batch, carried)
    typer.echo(
        f"Made table {shadow} with the rows after batch {made.first - 1} of query {made.query_id}, and "
        f"{shadow_checkpoint}. The first batch there repeats the batches {made.first} to {made.last}."
    )
    typer.echo(
        "Start the changed job with this checkpointLocation, this table and another group id, and for a "
        "short run with the trigger availableNow=True. With the table of the running job it stops."
    )
    for line in state_line(new_state):
        typer.echo(line)
    typer.echo("Then run penstock table compare with both tables and both checkpoints.")


@table_app.command("compare")
def compare_(  # noqa: PLR0913, PLR0917 - each is an option of the command
    table: Table,
    shadow: Shadow,
    live_checkpoint: Live,
    shadow_checkpoint: Beside,
    delta: Delta = False,
    iceberg: Iceberg = None,
    sqlite: Sqlite = None,
    postgresql: Postgresql = None,
    columns: Columns = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two tables after batches of both jobs that have ended at the same offsets.

    Exit codes: 0 equal, 1 something differs, 2 wrong options, 3 no batches of both have ended at the same
    offsets, 4 the command failed.
    """
    from penstock.cli import _table_shadow as work  # noqa: PLC0415 - lazy

    with errors_as_exit_codes("table compare", "Nothing was compared."):
        live = _side(any_table(table, delta, iceberg, sqlite, postgresql), table, live_checkpoint)
        beside = _side(any_table(shadow, delta, iceberg, sqlite, postgresql), shadow, shadow_checkpoint)
        found = work.compare(live, beside, None if columns is None else columns.split(","))
    for line in [json.dumps(found.to_json())] if as_json else _lines(found):
        typer.echo(line)
    if found.found is None:
        raise typer.Exit(NOT_ALL_PROVABLE)
    raise typer.Exit(PROVEN if found.found.is_equal else DIFFERS)


def _side(target: DeltaTable | IcebergTable | SqlTable, name: str, checkpoint: str) -> Side:
    from penstock.cli._table_shadow import Side  # noqa: PLC0415 - lazy
    from penstock.targets.kept import kept  # noqa: PLC0415 - lazy

    return Side(kept(target), name, checkpoint)


def _lines(compared: Compared) -> list[str]:
    found = compared.found
    if found is None or compared.batches is None:
        live, shadow = (
            ", ".join(f"{at} {offset}" for at, offset in sorted(each.items())) or "unknown"
            for each in compared.positions
        )
        return [
            "Nothing was compared: no batches of both jobs have ended at the same offsets.",
            f"The newest batch of the running job has ended at {live}.",
            f"The newest batch of the shadow has ended at {shadow}.",
        ]
    head = (
        f"After batch {compared.batches[0]} of the running job and batch {compared.batches[1]} of the "
        "shadow, which have ended at the same offsets: "
    )
    counts = f"{found.counts[0]:,} and {found.counts[1]:,} rows"
    if found.is_equal:
        return [f"{head}equal, {counts}. Compared: {', '.join(found.columns)}."]
    lines = [f"{head}differ, {counts}, digests {' and '.join(found.digests)}."]
    lines += [f"  {each}" for each in found.not_compared]
    lines += [f"  {each.text}" for each in found.rows]
    return [*lines, "  More rows differ."] if found.has_more else lines


@table_app.command()
def promote(  # noqa: PLR0913, PLR0917 - each is an option of the command
    table: Table,
    checkpoint: Checkpoint,
    to: To,
    delta: Delta = False,
    iceberg: Iceberg = None,
    sqlite: Sqlite = None,
    postgresql: Postgresql = None,
    yes: Yes = False,
    no_state: NoState = False,
    state: State = None,
    new_state: NewState = None,
) -> None:
    """Let a changed job continue with the table where the running one has stopped, in one commit."""
    _check_state(yes, no_state, state)
    with errors_of_drivers(table, _HANDED):
        target = any_table(table, delta, iceberg, sqlite, postgresql)
        _hand_over(
            target, _wanted(table, checkpoint, to, (state, new_state), is_rollback=False), yes, new_state
        )


@table_app.command()
def rollback(  # noqa: PLR0913, PLR0917 - each is an option of the command
    table: Table,
    checkpoint: Checkpoint,
    to: To,
    delta: Delta = False,
    iceberg: Iceberg = None,
    sqlite: Sqlite = None,
    postgresql: Postgresql = None,
    yes: Yes = False,
    no_state: NoState = False,
    state: State = None,
    new_state: NewState = None,
) -> None:
    """Let the old job continue with the table where the promoted one has stopped, in one commit."""
    _check_state(yes, no_state, state)
    with errors_of_drivers(table, _HANDED):
        target = any_table(table, delta, iceberg, sqlite, postgresql)
        _hand_over(
            target, _wanted(table, checkpoint, to, (state, new_state), is_rollback=True), yes, new_state
        )


def _check_state(yes: bool, no_state: bool, state: str | None) -> None:
    """Raise OptionError unless the options say what this command cannot see."""
    from penstock.errors import OptionError  # noqa: PLC0415 - lazy

    if no_state and state is not None:
        raise OptionError(
            "Expected --state or --no-state, got both. Nothing was handed over. Leave --no-state out if a "
            "function of penstock.changelog in the job keeps a state.",
            option="--no-state",
        )
    if yes and not no_state and state is None:
        raise OptionError(
            "Expected --state and --new-state, or --no-state, with --yes. A function of penstock.changelog "
            "(normalize, join and others) keeps a state in a folder of yours, which belongs to the query of "
            "the old checkpoint. Without it neither the changed nor the old job could continue. Nothing was "
            "handed over. Give --no-state if the job has no such function. Otherwise see "
            "docs/promote-table.md, 'A job with a state'.",
            option="--no-state",
        )


def _wanted(
    table: str, checkpoint: str, to: str, states: tuple[str | None, str | None], *, is_rollback: bool
) -> Wanted:
    from penstock.cli._table_hand_over import Wanted  # noqa: PLC0415 - lazy
    from penstock.state.carried import carried_state  # noqa: PLC0415 - lazy

    return Wanted(table, checkpoint, to, is_rollback, carried_state(*states))


def _hand_over(
    target: DeltaTable | IcebergTable | SqlTable, wanted: Wanted, yes: bool, new_state: str | None
) -> None:
    from penstock.cli._table_hand_over import hand_over  # noqa: PLC0415 - lazy
    from penstock.targets.kept import kept  # noqa: PLC0415 - lazy

    command = ("rollback" if wanted.is_rollback else "promote") + (" --yes" if yes else "")
    with errors_of_rights(target, command, "Nothing was handed over."):
        found = hand_over(kept(target), wanted, is_sure=yes)
    table = wanted.shown
    how = "--yes" if new_state is not None else "--yes --no-state"
    is_ready = "" if new_state is not None else " and keeps no state of penstock.changelog"
    job = "old" if wanted.is_rollback else "changed"
    if not yes and not found.was_done:
        typer.echo(
            f"Would hand table {table} over from query {found.query_id}, after its batch {found.after}, to "
            f"the {job} job. Nothing was changed. If the job has stopped{is_ready}, add {how}."
        )
        return
    if found.was_done:
        typer.echo(f"Query {found.query_id} has handed over table {table} before.")
    if not found.folder.exists():
        typer.echo(f"The checkpoint {found.folder} does not exist yet: add {how}.")
        return
    typer.echo(f"Query {found.heir} has table {table}, and continues after batch {found.after}.")
    typer.echo(f"Start the {job} job with checkpointLocation = {found.folder} and the same table.")
    for line in state_line(new_state):
        typer.echo(line)
    typer.echo("The job that has stopped does not write it any more: it ends with QueryEndedError.")
