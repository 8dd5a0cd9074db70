"""Outcomes of SQL's scripts on another PySpark stay beside the kept ones."""

from __future__ import annotations

from pathlib import Path

from tests.judges.sql import outcomes
from tests.judges.sql.beside import Beside
from tests.judges.sql.corpus import SCRIPTS
from tests.judges.sql.outcomes import Outcome


def test_a_run_continues_and_shows_what_is_another_than_the_kept(tmp_path: Path) -> None:
    before = outcomes.FILE.read_bytes()
    script = SCRIPTS["aggregate_filter"]
    file = Beside(tmp_path / "beside.json")
    assert not file.has((script, "batch"))
    file.keep(script, "batch", Outcome.DIFFERENT, "one row less")
    again = Beside(tmp_path / "beside.json")
    assert again.has((script, "batch"))
    assert not again.has((script, "streaming"))
    assert again.text() == (
        "batch: 1 scripts: 1 different\n"
        "  aggregate_filter: different, and kept is equal: one row less\n"
        "streaming: 0 scripts: none\n"
    )
    assert outcomes.FILE.read_bytes() == before
