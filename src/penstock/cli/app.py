"""The commands of `penstock`, with the extra `cli`.

Runs on the driver's machine. Invariant: `penstock --help` imports typer and nothing heavy; each command
imports its modules when it runs. An error of penstock is shown as its message, without a traceback.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

import penstock
from penstock._one_package import TwoPackagesError
from penstock._pyspark import UnfitPackageError, explain_import_error
from penstock.cli.broker import broker_app
from penstock.cli.connecting import ASKED_CLUSTER
from penstock.cli.dead_letters import dead_letters_app
from penstock.cli.doctor import doctor
from penstock.cli.lag import lag
from penstock.cli.promote import promote, rollback
from penstock.cli.receipts import receipts
from penstock.cli.records import cat, produce
from penstock.cli.shadow import shadow_app
from penstock.cli.sql import sql
from penstock.cli.state import state_app
from penstock.cli.table import table_app
from penstock.cli.take_over import take_over
from penstock.cli.top import top
from penstock.cli.topics import topics_app
from penstock.cli.transactions import transactions_app
from penstock.cli.verify import verify
from penstock.errors import MissingExtraError, PenstockError
from penstock.extras import MISSING_EXTRA, overview

app = typer.Typer(
    name="penstock",
    help="Reads and writes Kafka from PySpark: exactly-once, typed columns, CDC, lag and metrics.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # it would show <bool> behind flags
    pretty_exceptions_show_locals=False,  # locals hold passwords
)
app.add_typer(broker_app, name="broker")
app.add_typer(topics_app, name="topics")
app.add_typer(transactions_app, name="transactions")
app.add_typer(dead_letters_app, name="dead-letters")
app.add_typer(shadow_app, name="shadow")
app.add_typer(state_app, name="state")
app.add_typer(table_app, name="table")
app.command()(produce)
app.command()(cat)
app.command()(sql)
app.command()(lag)
app.command()(top)
app.command("take-over")(take_over)
app.command()(receipts)
app.command()(verify)
app.command()(promote)
app.command()(rollback)


@app.command()
def dashboard(
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Print Prometheus alert rules (YAML) instead.")
    ] = False,
) -> None:
    """Print a Grafana dashboard (JSON), or alert rules, for queries with metrics.http.port."""
    from penstock.observe.grafana.dashboard import alert_rules  # noqa: PLC0415 - lazy
    from penstock.observe.grafana.dashboard import dashboard as made  # noqa: PLC0415 - lazy

    typer.echo(alert_rules().rstrip("\n") if alerts else json.dumps(made(), indent=2))


class Demo(str, Enum):
    """The demos."""

    FLIGHTS = "flights"
    CDC = "cdc"


@app.command()
def demo(
    name: Annotated[
        Demo,
        typer.Argument(help="flights: a stream from topic to topic. cdc: a database's changes into tables."),
    ] = Demo.FLIGHTS,
) -> None:
    """Run a real streaming job on a real Kafka and a real Spark, and check its result."""
    if name is Demo.CDC:
        from penstock.demo.cdc.run import run_cdc_demo  # noqa: PLC0415 - keeps `penstock --help` fast

        run_cdc_demo()
        return
    from penstock.demo.run import run_demo  # noqa: PLC0415 - keeps `penstock --help` fast

    run_demo()


app.command()(doctor)


@app.command()
def extras() -> None:
    """Show which extras of penstock this Python has, what each is for, and how to get the others."""
    typer.echo(overview())


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command of this process."""
    try:
        app()
    except PenstockError as error:
        typer.secho(f"penstock: {error}", fg="red", err=True)
        if (asked := error.facts.get(ASKED_CLUSTER)) is not None:
            typer.secho(f"The cluster that was asked: {asked}", fg="red", err=True)
        raise SystemExit(MISSING_EXTRA if isinstance(error, MissingExtraError) else 1) from error
    except ImportError as error:
        _end_if_unfit(error)
        raise


def _end_if_unfit(error: ImportError) -> None:
    """End the process with a sentence if PySpark, pandas or kafka-python is not what penstock needs."""
    try:
        explain_import_error(error)
        if isinstance(error, (UnfitPackageError, TwoPackagesError)):
            raise error
    except (UnfitPackageError, TwoPackagesError) as explained:
        typer.secho(f"penstock: {explained}", fg="red", err=True)
        raise SystemExit(MISSING_EXTRA) from error
