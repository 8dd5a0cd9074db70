"""What `penstock shadow` repeats, and what it tells its user to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli._shadows import _batches
from penstock.cli.shadow import _what_to_do
from penstock.errors import CheckpointError, OptionError
from penstock.observe.new_checkpoint import OldCheckpoint, make_folder
from penstock.observe.shadow_note import ShadowNote
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.types import TopicPartition
from tests.checkpoint_files import write_checkpoint

ONE = TopicPartition("orders", 0)


def test_dead_letters_of_a_shadow_get_a_topic_of_their_own() -> None:
    note = ShadowNote("query", "app", "orders", 3, 5, "app-shadow", "beside", {})
    text = " ".join(_what_to_do(note, "/shadow"))
    assert "If its source has scan.dead-letter.topic, give it another topic" in text
    assert "it writes to beside in place of orders, under the prefix app-shadow" in text
    assert text.endswith("`penstock shadow compare --shadow-checkpoint /shadow`.")


def _old(folder: Path, *ends: int) -> OldCheckpoint:
    first = Markers(whole_start={ONE: 0})
    offsets = [SourceOffset({ONE: end}, Markers() if number else first) for number, end in enumerate(ends)]
    write_checkpoint(folder, *(each.to_json() for each in offsets))
    (folder / "metadata").write_text('{"id":"live"}')
    return OldCheckpoint(folder)


def test_the_batches_of_a_promoted_job_begin_at_1(tmp_path: Path) -> None:
    old = _old(tmp_path / "old", 2, 4)
    assert _batches(old, None, None) == (0, 1)
    make_folder(tmp_path / "new", old.beginning("heir", after=1))
    promoted = OldCheckpoint(tmp_path / "new")
    with pytest.raises(CheckpointError, match="has finished no batch yet that has read something"):
        _batches(promoted, None, None)
    (promoted.folder / "offsets" / "1").write_text(f"v1\n{{}}\n{json.dumps({'orders': {'0': 7}})}")
    (promoted.folder / "commits" / "1").write_text("v1\n{}")
    assert _batches(promoted, None, None) == (1, 1)
    with pytest.raises(OptionError, match=r"\(1 to 1\), got 0 to 1"):
        _batches(promoted, 0, 1)


def test_the_batches_of_sparks_own_source_begin_at_0(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "old", {"orders": {"0": 2}}, {"orders": {"0": 4}})
    assert _batches(OldCheckpoint(tmp_path / "old"), None, None) == (0, 1)


def test_a_job_with_a_state_repeats_one_batch_before_which_the_state_is_there(tmp_path: Path) -> None:
    old = _old(tmp_path / "old", 2, 4, 6, 8, 9)
    kept = {2, 3, 4}
    assert _batches(old, None, None, kept) == (4, 4)
    assert _batches(old, 3, 3, kept) == (3, 3)
    assert _batches(old, None, 3, kept) == (3, 3)
    for first, last in ((2, 2), (None, 2), (5, 5), (4, 3)):
        with pytest.raises(OptionError, match=r"before which .* and the state are still there \(3, 4\), got"):
            _batches(old, first, last, kept)
    with pytest.raises(OptionError, match="Expected one batch for a job with a state"):
        _batches(old, 3, 4, kept)
    with pytest.raises(CheckpointError, match="finished no batch yet before which the state is still there"):
        _batches(old, None, None, {4})
