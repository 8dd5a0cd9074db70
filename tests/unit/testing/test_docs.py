"""The examples of docs/testing.md that need no broker are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
EXAMPLES = [each for each in BLOCKS if "DevCluster" not in each and "run_sql" not in each]


def test_the_example_of_the_fake_kafka_runs() -> None:
    (code,) = [each for each in EXAMPLES if "def test_" not in each]
    exec(compile(code, "example", "exec"), {})  # noqa: S102 - running the examples is the point


def test_the_example_for_pytest_passes(tmp_path: Path) -> None:
    """Run it in a folder of its own. The plugin is named: the environment may be older than its entry."""
    (code,) = [each for each in EXAMPLES if "def test_" in each]
    (tmp_path / "test_example.py").write_text(code)
    plugins = ["-p", "penstock.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error::pytest.PytestWarning", *plugins, "."]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in told.stdout, told.stdout + told.stderr
