"""The commands of docs/sql-tutorial.md, "Try it", as printed but for the broker and the names of topics."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from tests.fix_spark import spark_settings

PAGE = (Path(__file__).parents[2] / "docs" / "sql-tutorial.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Try it\n")[2].partition("\n## ")[0]
START = "penstock broker start --port 9092"
WAIT_S = 240


def test_the_commands_of_the_page_show_the_totals(bootstrap: str, tmp_path: Path) -> None:
    """Two orders are produced, and the last change of their group has both. Ctrl-C ends the query."""
    start, *commands, show = re.findall(r"^    (.+)$", SECTION, re.MULTILINE)
    assert start == START, "the test's own broker takes its place"
    assert show == "penstock sql try.sql"
    orders = f"orders-{uuid.uuid4().hex[:8]}"
    [script] = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)
    script = script.replace("'topic' = 'orders'", f"'topic' = '{orders}'").replace(
        "localhost:9092", bootstrap
    )
    (tmp_path / "try.sql").write_text(script)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        own = command.replace(" orders", f" {orders}").replace(" totals", f" {orders}-totals")
        subprocess.run(["bash", "-c", f"{own} -b {bootstrap}"], check=True, env=env, cwd=tmp_path)
    settings = [f"--conf={key}={value}" for key, value in spark_settings(tmp_path).items()]
    with (tmp_path / "errors.txt").open("w") as errors, subprocess.Popen(
        [*show.split(), *settings], stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True,
        cwd=tmp_path, env=env,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        shown = next((line for line in child.stdout if line.endswith("[a, 2, 6.50]\n")), None)
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        assert child.wait(WAIT_S) == 130, (tmp_path / "errors.txt").read_text()
    assert shown is not None, (tmp_path / "errors.txt").read_text()
