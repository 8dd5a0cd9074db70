"""`penstock dashboard`: a Grafana dashboard and alert rules.

Runs on any machine. Invariant: stdout is the file and nothing else; no cluster is asked.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer


def dashboard(
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Print Prometheus alert rules (YAML) instead.")
    ] = False,
) -> None:
    """Print a Grafana dashboard (JSON), or alert rules, for queries with metrics.http.port."""
    from penstock.observe.grafana.dashboard import alert_rules  # noqa: PLC0415 - lazy
    from penstock.observe.grafana.dashboard import dashboard as made  # noqa: PLC0415 - lazy

    typer.echo(alert_rules().rstrip("\n") if alerts else json.dumps(made(), indent=2))
