"""`penstock demo`. Runs on the driver; imports Spark only when asked to run."""

from __future__ import annotations


def demo() -> None:
    """Run a real streaming job from Kafka through Spark to Kafka and check its result."""
    from penstock.demo.run import run_demo  # noqa: PLC0415 - keeps `penstock --help` fast

    run_demo()
