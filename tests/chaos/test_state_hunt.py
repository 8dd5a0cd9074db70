"""A few random SIGKILLs at a query with keyed state. `python -m tests.chaos.state_hunt` does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.state_hunt import StateHunt


@pytest.mark.long
def test_the_rows_are_those_of_the_reference_whatever_is_killed(tmp_path: Path) -> None:
    hunt = StateHunt(tmp_path, batches=12, rows=200, seed=2)
    hunt.run(2)
    assert hunt.kills.total() == 2
