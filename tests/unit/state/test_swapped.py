"""A file of the state that has the name of another one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.state import store
from penstock.state.files import LocalFiles
from tests.unit.state.rows import contents, run_batch, store_in


def test_the_manifest_of_an_older_batch_is_not_taken_for_the_newest(tmp_path: Path) -> None:
    for batch_id in range(4):
        run_batch(store_in(LocalFiles(str(tmp_path))), "a", batch_id, {0: str(batch_id)})
    store._OPEN.clear()
    (newest,), (older,) = (tmp_path.glob(f"0/{batch_id}-*.json") for batch_id in (3, 2))
    newest.write_bytes(older.read_bytes())
    with pytest.raises(StateError, match=r"the manifest .*/0/3-.* is of batch 2"):
        contents(store_in(LocalFiles(str(tmp_path))), 4, "b")
