"""Ask Prometheus's own checker and write tests/data/promtool.json: `python -m tests.judges.promtool`.

Runs by hand where `promtool` is installed (on Debian in the package prometheus). It checks the alert rules,
the expressions of the dashboard, the configurations in docs/observability.md and examples/compose, and the
text of `/metrics`.
Invariant: an answer is written together with a digest of what was asked, so that a test without promtool
notices a change.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from penstock.observe.grafana.dashboard import alert_rules, dashboard
from penstock.observe.serve.prometheus import prometheus_text
from penstock.options.metrics import ALIAS_SETS
from tests.unit.observe.test_serve import Served

ROOT = Path(__file__).parents[2]
ANSWERS = ROOT / "tests" / "data" / "promtool.json"
_GRAFANAS = {"$job": ".*", "$instance": ".*", "$__rate_interval": "1m"}
"""Variables that Grafana replaces, and a value for each."""
_CONFIG = re.compile(r"cat > prometheus\.yml <<'END'\n(.*?)\n *END\n", re.DOTALL)


def find_promtool() -> str | None:
    """Return the path of promtool; None if it is not installed."""
    return shutil.which("promtool")


def questions() -> dict[str, str]:
    """Return every text that promtool checks, by its kind."""
    served = Served()
    served.have_everything()
    return {
        "rules": alert_rules(),
        "expressions": json.dumps({"groups": [{"name": "dashboard", "rules": _dashboard_as_rules()}]}),
        "config": documented_config(),
        "config of compose": (ROOT / "examples" / "compose" / "prometheus.yml").read_text(),
        "metrics": prometheus_text(served.view, 100, ()).decode(),
        "metrics with aliases": prometheus_text(served.view, 100, ALIAS_SETS).decode(),
    }


def _dashboard_as_rules() -> list[dict[str, str]]:
    """Return each expression of the dashboard as a recording rule."""
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    return [{"record": f"panel_{at}", "expr": without_variables(each)} for at, each in enumerate(found)]


def without_variables(expression: str) -> str:
    """Return an expression of the dashboard as Prometheus gets it."""
    for name, value in _GRAFANAS.items():
        expression = expression.replace(name, value)
    return expression


def documented_config() -> str:
    """Return the configuration of Prometheus in docs/observability.md."""
    text = (ROOT / "docs" / "observability.md").read_text()
    found = _CONFIG.search(text)
    assert found is not None
    return "\n".join(line.strip() if not line.strip() else line[7:] for line in found[1].splitlines()) + "\n"


def digest(kind: str, text: str) -> str:
    """Return what stands for a question in the file of answers: of metrics, the names, types and texts."""
    if kind.startswith("metrics"):
        text = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    return hashlib.sha256(text.encode()).hexdigest()


def ask(kind: str, text: str) -> list[str]:
    """Return promtool's status and the lines that it says, without the names of files."""
    promtool = find_promtool()
    assert promtool is not None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "penstock.yml").write_text(alert_rules())
        (Path(folder) / "asked.yml").write_text(text)
        what = "rules" if kind == "expressions" else kind.partition(" ")[0]
        done = subprocess.run(
            [promtool, "check", what, *(() if what == "metrics" else ("asked.yml",))],
            cwd=folder,
            input=text if what == "metrics" else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    said = (line.strip() for line in (done.stdout + done.stderr).splitlines())
    return [f"status {done.returncode}", *(line for line in said if line)]


def main() -> None:
    """Write the answers."""
    version = subprocess.run(
        [str(find_promtool()), "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split(",")[1]
    answers: dict[str, Any] = {
        kind: {"sha256": digest(kind, text), "answer": ask(kind, text)} for kind, text in questions().items()
    }
    ANSWERS.write_text(json.dumps({"promtool": version.split("(")[0].strip(), **answers}, indent=1) + "\n")


if __name__ == "__main__":
    main()
