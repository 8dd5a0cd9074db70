"""`penstock demo`. Runs on the driver; imports Spark only when asked to run."""

from __future__ import annotations

import typer


def demo() -> None:
    """Run a real streaming job from Kafka through Spark to Kafka and check its result."""
    from penstock.demo.run import run_demo  # noqa: PLC0415 - keeps `penstock --help` fast
    from penstock.errors import PenstockError  # noqa: PLC0415 - as above

    try:
        run_demo()
    except PenstockError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from error
