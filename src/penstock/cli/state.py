"""`penstock state`: look at the state that operators over changelogs keep, check it, and divide it again.

Runs on any machine that reaches the folder. Invariant: an existing state is not changed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.state.files import Files

state_app = typer.Typer(
    help="The state of operators over changelogs: inspect, verify, repartition.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)

_Folder = Annotated[str, typer.Argument(help="The folder of the state, as a path or URI.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _open(folder: str) -> Files:
    from penstock.errors import OptionError  # noqa: PLC0415 - lazy
    from penstock.security.location import without_secrets  # noqa: PLC0415 - lazy
    from penstock.state.files import open_files  # noqa: PLC0415 - lazy

    try:
        return open_files(folder)
    except ValueError as error:
        shown = without_secrets(folder)
        raise OptionError(f"{shown!r} is not a folder that can be opened: {error}.", value=shown) from None


@contextlib.contextmanager
def _reached(*folders: str) -> Iterator[None]:
    """Raise StateError if a store cannot be reached or refuses a request."""
    from penstock.errors import StateError  # noqa: PLC0415 - lazy
    from penstock.security.location import without_secrets  # noqa: PLC0415 - lazy

    try:
        yield
    except OSError as error:
        shown = " or ".join(map(without_secrets, folders))
        raise StateError(
            f"{shown} cannot be read or written: {error}. No existing state was changed. Check the address, "
            "the credentials, and whether the machine reaches it.",
            path=shown,
        ) from None


@state_app.command()
def inspect(folder: _Folder, as_json: _Json = False) -> None:
    """Show which query and operator a state belongs to, and its partitions."""
    from penstock.state import tools  # noqa: PLC0415 - lazy

    with _reached(folder):
        found = tools.inspect(_open(folder))
    identity = found.identity
    if as_json:
        partitions = [vars(each) for each in found.partitions]
        batches = {"batch_id": found.batch_id, "begun_batch_id": found.begun_batch_id}
        shown = {**json.loads(identity.to_json()), **batches, "partitions": partitions}
        shown["columns"] = [f"{field.name} {field.type}" for field in found.columns]
        del shown["arrow_schema"]
        typer.echo(json.dumps(shown))
        return
    typer.echo(f"operator    {identity.operator} {identity.arguments}")
    typer.echo(f"query id    {identity.query_id}")
    part = f", and a part of batch {found.begun_batch_id}" if found.begun_batch_id > found.batch_id else ""
    typer.echo(f"last batch  {found.batch_id}{part}")
    typer.echo(f"columns     {', '.join(f'{field.name} {field.type}' for field in found.columns)}")
    typer.echo("partition  batch  runs  rows  bytes")
    for each in found.partitions:
        typer.echo(
            f"{each.number:9}  {each.version:5}  {each.run_count:4}  {each.row_count:,}  {each.size_bytes:,}"
        )


@state_app.command()
def verify(folder: _Folder) -> None:
    """Read all files of a state and compare checksums and order. Exit status: 0 all good, 1 problems."""
    from penstock.state import tools  # noqa: PLC0415 - lazy

    with _reached(folder):
        problems = list(tools.verify(_open(folder)))
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)
    typer.echo("No problem was found.")


@state_app.command()
def repartition(
    folder: _Folder,
    target: Annotated[str, typer.Argument(help="A new folder for the copy, as a path or URI.")],
    partitions: Annotated[int, typer.Option(min=1, help="The number of partitions of the copy.")],
    checkpoint: Annotated[str, typer.Option(help="The checkpoint of the query, as a path or URI.")],
) -> None:
    """Copy a state into a new folder with another number of partitions. The query must be stopped.

    It starts a local Spark, which computes the partition of each key.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    from penstock.security.location import without_secrets  # noqa: PLC0415 - lazy
    from penstock.spark.partition_numbers import partition_numbers  # noqa: PLC0415 - lazy
    from penstock.state import tools  # noqa: PLC0415 - lazy
    from penstock.state.repartition import committed_batch  # noqa: PLC0415 - lazy
    from penstock.state.repartition import repartition as copy  # noqa: PLC0415 - lazy

    source = _open(folder)
    with _reached(folder, target, checkpoint):
        batch_id = committed_batch(_open(checkpoint), tools.inspect(source).identity.query_id)
        spark = SparkSession.builder.getOrCreate()
        copy(
            source,
            _open(target),
            batch_id,
            partitions,
            lambda keys, count: partition_numbers(spark, keys, count),
        )
    typer.echo(
        f"Copied batch {batch_id} into {partitions} partitions. Start the query with "
        f"state={without_secrets(target)!r} and partitions={partitions}."
    )
