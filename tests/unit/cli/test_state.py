"""`penstock state`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from penstock.cli import app
from penstock.state.files import LocalFiles
from tests.unit.state.rows import run_batch, store_in


def test_inspect_and_verify(tmp_path: Path) -> None:
    run_batch(store_in(LocalFiles(str(tmp_path))), "a", 0, {0: "a", 1: "b"})
    shown = CliRunner().invoke(app, ["state", "inspect", str(tmp_path)])
    assert shown.exit_code == 0
    assert "query id    query-1" in shown.output
    as_json = json.loads(CliRunner().invoke(app, ["state", "inspect", str(tmp_path), "--json"]).output)
    assert [each["row_count"] for each in as_json["partitions"]] == [1, 1]
    good = CliRunner().invoke(app, ["state", "verify", str(tmp_path)])
    assert (good.exit_code, good.output) == (0, "No problem was found.\n")
    (run,) = (tmp_path / "0").glob("*.arrow")
    run.write_bytes(run.read_bytes()[:-1])
    bad = CliRunner().invoke(app, ["state", "verify", str(tmp_path)])
    assert bad.exit_code == 1
    assert "partition 0, batch 0: The state is damaged" in bad.output
