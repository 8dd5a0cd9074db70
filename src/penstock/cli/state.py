"""`penstock state`: look at the state that operators over changelogs keep, and check it.

Runs on any machine that reaches the folder. Invariant: nothing is changed.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

state_app = typer.Typer(
    help="The state of operators over changelogs: inspect, verify.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)

_Place = Annotated[str, typer.Argument(help="The folder of the state, as a path or URI.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@state_app.command()
def inspect(place: _Place, as_json: _Json = False) -> None:
    """Show which query and operator a state belongs to, and its partitions."""
    from penstock.state import tools  # noqa: PLC0415 - lazy
    from penstock.state.files import open_files  # noqa: PLC0415 - lazy

    found = tools.inspect(open_files(place))
    identity = found.identity
    if as_json:
        partitions = [vars(each) for each in found.partitions]
        shown = {**json.loads(identity.to_json()), "batch_id": found.batch_id, "partitions": partitions}
        del shown["arrow_schema"]
        typer.echo(json.dumps(shown))
        return
    typer.echo(f"operator    {identity.operator} {identity.arguments}")
    typer.echo(f"query id    {identity.query_id}")
    typer.echo(f"last batch  {found.batch_id}")
    typer.echo(f"columns     {', '.join(f'{field.name} {field.type}' for field in identity.columns)}")
    typer.echo("partition  batch  runs  rows  bytes")
    for each in found.partitions:
        typer.echo(
            f"{each.number:9}  {each.version:5}  {each.run_count:4}  {each.row_count:,}  {each.size_bytes:,}"
        )


@state_app.command()
def verify(place: _Place) -> None:
    """Read all files of a state and compare checksums and order. Exit status: 0 all good, 1 problems."""
    from penstock.state import tools  # noqa: PLC0415 - lazy
    from penstock.state.files import open_files  # noqa: PLC0415 - lazy

    problems = list(tools.verify(open_files(place)))
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)
    typer.echo("No problem was found.")
