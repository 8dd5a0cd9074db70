"""A new checkpoint begins where a batch of another one has ended, and takes over nothing but positions."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CheckpointError, OptionError
from penstock.observe import new_checkpoint
from penstock.observe.checkpoint import read_checkpoint, read_ranges
from penstock.observe.new_checkpoint import OldCheckpoint, local_folder, make_folder, open_old
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.types import OffsetRange, TopicPartition
from tests.checkpoint_files import write_checkpoint
from tests.deaths import Death

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _old(folder: Path, *offsets: SourceOffset) -> OldCheckpoint:
    write_checkpoint(folder, *(each.to_json() for each in offsets))
    (folder / "metadata").write_text('{"id":"live"}')
    return open_old(str(folder))


def _batches(folder: Path) -> OldCheckpoint:
    """Of three batches. Topic partition 1 appears in batch 1."""
    return _old(
        folder,
        SourceOffset({ONE: 5}, Markers(whole_start={ONE: 2}, topic_ids={"orders": "an id"})),
        SourceOffset({ONE: 5, TWO: 3}, Markers(partial_start={TWO: 1}, topic_ids={"orders": "an id"})),
        SourceOffset({ONE: 9, TWO: 4}, Markers(topic_ids={"orders": "an id"})),
    )


def test_a_query_with_the_new_folder_continues_after_a_batch(tmp_path: Path) -> None:
    old = _batches(tmp_path / "old")
    make_folder(tmp_path / "new", old.beginning("heir", after=1))
    state = read_checkpoint(tmp_path / "new")
    assert (state.query_id, state.batch_id, state.planned_batch_id) == ("heir", 0, None)
    assert (state.positions, state.topic_ids) == ({ONE: 5, TWO: 3}, {"orders": "an id"})
    assert read_ranges(tmp_path / "new", 0) == ("heir", []), "its batch 0 has read nothing"


@pytest.mark.parametrize(("after", "watermark"), [(2, 20), (1, 20), (0, 10), (-1, None)])
def test_the_watermark_is_that_of_the_newest_batch_that_was_done_by_then(
    tmp_path: Path, after: int, watermark: int | None
) -> None:
    old = _batches(tmp_path / "old")
    (tmp_path / "old" / "commits" / "2").unlink()  # decided, and not done
    for batch_id in (0, 1):
        text = f'v1\n{{"nextBatchWatermarkMs":{batch_id * 10 + 10}}}'
        (tmp_path / "old" / "commits" / str(batch_id)).write_text(text)
    _, line = old.beginning("heir", after)["commits/0"].split("\n")
    assert json.loads(line).get("nextBatchWatermarkMs") == watermark


@pytest.mark.parametrize(
    ("first", "starts"), [(0, {ONE: 2, TWO: 1}), (1, {ONE: 5, TWO: 1}), (2, {ONE: 5, TWO: 3})]
)
def test_its_first_batch_reads_what_some_batches_have_read(
    tmp_path: Path, first: int, starts: dict[TopicPartition, int]
) -> None:
    old = _batches(tmp_path / "old")
    make_folder(tmp_path / "new", old.with_batches(old.beginning("shadow", first - 1), first, 2))
    state = read_checkpoint(tmp_path / "new")
    assert (state.batch_id, state.planned_batch_id) == (0, 1)
    _, ranges = read_ranges(tmp_path / "new", 1)
    assert ranges == [OffsetRange(ONE, starts[ONE], 9), OffsetRange(TWO, starts[TWO], 4)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6), st.data())
def test_the_ranges_of_batches_joined_are_their_own_ranges(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(steps) - 1))
    last = data.draw(st.integers(first, len(steps) - 1))
    texts = data.draw(st.sampled_from(["v1", "v2"]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ends, offsets = {ONE: 10, TWO: 20}, []
        for number, (one, two) in enumerate(steps):
            start = Markers(whole_start=dict(ends)) if not number else Markers()
            ends = {ONE: ends[ONE] + one, TWO: ends[TWO] + two}
            offsets.append(SourceOffset(dict(ends), start))
        old = _old(folder / "old", *offsets)
        if texts == "v2":
            for path in (folder / "old" / "offsets").iterdir():
                version, metadata, line = path.read_text().split("\n")
                assert version == "v1"
                path.write_text(f"v2\n{metadata}\nsource0:{line}")
        make_folder(folder / "new", old.with_batches(old.beginning("shadow", first - 1), first, last))
        _, joined = read_ranges(folder / "new", 1)
        expected: dict[TopicPartition, OffsetRange] = {}
        for batch_id in range(first, last + 1):
            for each in read_ranges(folder / "old", batch_id)[1]:
                begin = expected.get(each.topic_partition, each).starting_offset
                expected[each.topic_partition] = OffsetRange(
                    each.topic_partition, begin, each.stopping_offset
                )
        assert joined == [expected[each] for each in sorted(expected)]


def test_what_cannot_be_carried_over_is_refused(tmp_path: Path) -> None:
    old = _batches(tmp_path / "old")
    (tmp_path / "old" / "state" / "0").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="its query keeps a state"):
        open_old(str(old.folder))
    (tmp_path / "old" / "state" / "0").rmdir()
    (tmp_path / "old" / "penstock-sql").mkdir()
    with pytest.raises(CheckpointError, match="a job of penstock sql"):
        open_old(str(old.folder))
    with pytest.raises(CheckpointError, match="found no folder offsets"):
        open_old(str(tmp_path))
    with pytest.raises(OptionError, match="Expected a folder of this machine for --checkpoint"):
        open_old("s3://bucket/checkpoint")
    assert local_folder("file:///a/b", "--checkpoint") == Path("/a/b")
    (tmp_path / "old" / "penstock-sql").rmdir()
    (tmp_path / "old" / "offsets" / "2").write_text('v1\n{}\n{"logOffset":7}')
    with pytest.raises(CheckpointError, match="does not read Kafka"):
        old.beginning("heir", after=2)


def test_a_source_that_has_read_nothing_begins_as_the_options_say(tmp_path: Path) -> None:
    old = _batches(tmp_path / "old")
    path = tmp_path / "old" / "offsets" / "2"
    path.write_text(path.read_text() + "\n-")
    assert old.beginning("heir", after=2)["offsets/0"].split("\n")[3] == "-"


def test_batches_that_have_not_read_one_range_are_refused(tmp_path: Path) -> None:
    recreated = Markers(partial_start={ONE: 0})
    old = _old(
        tmp_path / "old",
        SourceOffset({ONE: 5, TWO: 1}, Markers(whole_start={ONE: 2, TWO: 0})),
        SourceOffset({ONE: 3, TWO: 1}, recreated),
        SourceOffset({ONE: 4}, Markers()),
    )
    for last, why in ((1, "batch 1 begins at 0, expected 5"), (2, "batch 1 begins at 0, expected 5")):
        with pytest.raises(CheckpointError, match=why):
            old.with_batches(old.beginning("shadow", 0), 1, last)
    with pytest.raises(CheckpointError, match="orders-1: a batch has stopped to read it"):
        old.with_batches(old.beginning("shadow", 1), 2, 2)


def test_a_folder_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    files = _batches(tmp_path / "old").beginning("heir", after=1)
    steps: list[str] = []
    make_folder(tmp_path / "first", files, steps.append)
    for number, step in enumerate(steps[:-1]):
        folder = tmp_path / f"dies{number}"

        def dies(reached: str, at: str = step) -> None:
            if reached == at:
                raise Death

        with pytest.raises(Death):
            make_folder(folder, files, dies)
        assert not folder.exists()
        make_folder(folder, files)
        assert json.loads((folder / "metadata").read_text()) == {"id": "heir"}
    with pytest.raises(CheckpointError, match=r"exists\. This call has made no folder"):
        make_folder(tmp_path / "first", files)


def test_a_folder_that_is_there_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _batches(tmp_path / "old").beginning("heir", after=1)

    def flush(folder: Path) -> None:
        if folder == tmp_path:
            raise OSError("no flush of folders here")

    monkeypatch.setattr(new_checkpoint, "_flush", flush)
    with pytest.raises(CheckpointError, match=r"Made the checkpoint .* after a crash of this machine"):
        make_folder(tmp_path / "new", files)
    assert read_checkpoint(tmp_path / "new").query_id == "heir"
