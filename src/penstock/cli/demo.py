"""`penstock demo`. Runs on the driver; imports Spark only when asked to run."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Demo(str, Enum):
    """The demos."""

    FLIGHTS = "flights"
    CDC = "cdc"


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
