"""Ask Docker Compose about examples/compose, and write its answer: `python -m tests.judges.compose`.

The answer is tests/data/compose.json. Runs by hand where `docker compose` or `docker-compose` is. Its
`config` needs no daemon. It also writes the dashboard that Grafana gets there. Invariant: the answer is
written together with a digest of what was asked.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

from penstock.observe.grafana.dashboard import dashboard

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "compose"
FILE = FOLDER / "compose.yaml"
DASHBOARD = FOLDER / "grafana" / "penstock.json"
ANSWER = ROOT / "tests" / "data" / "compose.json"


def find_compose() -> list[str] | None:
    """Return the command; None if there is none. `docker` alone may lack its part for Compose."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    if shutil.which("docker") is None:
        return None
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False, timeout=60)
    return ["docker", "compose"] if done.returncode == 0 else None


def ask() -> tuple[int, str]:
    """Return the status of `config`, and what it complains about."""
    compose = find_compose()
    assert compose is not None
    command = [*compose, "--file", str(FILE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, (done.stdout + done.stderr).strip()


def digest() -> str:
    """Return what stands for the file in the answer."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def dashboard_text() -> str:
    """Return what `penstock dashboard` prints."""
    return json.dumps(dashboard(), indent=2) + "\n"


def main() -> None:
    """Write the dashboard and the answer."""
    DASHBOARD.write_text(dashboard_text(), encoding="utf-8")
    compose = find_compose()
    if compose is None:
        raise SystemExit(
            f"{DASHBOARD} is written. Docker Compose is not installed, so {ANSWER} is as it was."
        )
    status, said = ask()
    version = subprocess.run(
        [*compose, "version", "--short"], capture_output=True, text=True, check=True, timeout=60
    )
    answer = {"compose": version.stdout.strip(), "sha256": digest(), "status": status, "said": said}
    ANSWER.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
