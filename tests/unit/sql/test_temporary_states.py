"""The states of queries without a checkpoint: they go with the session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.sql.run._states import TemporaryFolders, beside
from penstock.state.files import open_files


def test_only_a_state_beside_a_checkpoint_is_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    temporary = TemporaryFolders()
    folder = temporary.new()
    for states, is_kept in ((folder, False), (beside(str(tmp_path)), True)):
        synced.clear()
        files = open_files(f"{states}/1-join")
        with files.create("0/1.arrow") as sink:
            sink.write(b"rows")
        assert bytes(files.read("0/1.arrow")) == b"rows"
        assert bool(synced) is is_kept
    temporary.remove()
    assert not Path(folder).exists()
