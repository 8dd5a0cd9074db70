"""Reading Spark's checkpoint folder without Spark."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from penstock.errors import CheckpointError, OptionError
from penstock.observe.checkpoint import read_checkpoint, read_ranges
from penstock.observe.health import Sample
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.types import OffsetRange, TopicPartition
from tests.checkpoint_files import write_checkpoint

RELEASED = Path(__file__).parents[2] / "compat" / "0.1.0" / "checkpoint"
TP = TopicPartition("t", 0)


def write_batch(
    folder: Path, batch_id: int, *sources: str, version: str = "v1", done_at_s: float | None = None
) -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "offsets" / str(batch_id)).write_text("\n".join([version, "{}", *sources]))
    (folder / "offsets" / f".{batch_id}.crc").write_bytes(b"\xff")
    if done_at_s is not None:
        commit = folder / "commits" / str(batch_id)
        commit.write_text('v1\n{"nextBatchWatermarkMs":0}')
        os.utime(commit, (done_at_s, done_at_s))


def at(offset: int, topic: str = "t") -> str:
    return json.dumps({topic: {"0": offset}})


def test_a_checkpoint_of_a_release_is_read(tmp_path: Path) -> None:
    shutil.copytree(RELEASED, tmp_path / "checkpoint")
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    state = read_checkpoint(tmp_path / "checkpoint")
    assert (state.batch_id, state.planned_batch_id) == (1, 2)
    assert state.positions == {TopicPartition("compat", 0): 7, TopicPartition("compat", 1): 7}
    assert state.query_id == json.loads((RELEASED / "metadata").read_text())["id"]
    assert {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")} == before


def test_the_position_is_of_the_last_batch_that_is_done(tmp_path: Path) -> None:
    write_batch(tmp_path, 9, at(3), done_at_s=100.0)
    write_batch(tmp_path, 10, at(5), done_at_s=200.5)
    write_batch(tmp_path, 11, at(8))
    os.utime(tmp_path / "offsets" / "10", (197.3, 197.3))
    os.utime(tmp_path / "offsets" / "11", (201.0, 201.0))
    state = read_checkpoint(tmp_path)
    assert state.batch_ms == 3_200
    assert (state.batch_id, state.planned_batch_id, state.committed_at_ms) == (10, 11, 200_500)
    assert state.positions == {TP: 5}
    assert state.history[TP] == [
        Sample(100_000, 3),
        Sample(200_500, 5),
        Sample(201_000, 5, has_unread=True),  # batch 11 found records
    ]
    assert state.query_id is None


def test_before_the_first_commit_the_position_is_where_the_batch_starts(tmp_path: Path) -> None:
    planned = SourceOffset({TP: 8}, Markers(whole_start={TP: 2}))
    write_batch(tmp_path, 0, json.dumps(planned.to_json()))
    os.utime(tmp_path / "offsets" / "0", (7.0, 7.0))
    state = read_checkpoint(tmp_path)
    assert (state.batch_id, state.planned_batch_id, state.committed_at_ms) == (None, 0, None)
    assert state.batch_ms is None
    assert (state.positions, state.history) == ({TP: 2}, {TP: [Sample(7_000, 2, has_unread=True)]})


def test_a_planned_batch_says_nothing_of_a_topic_partition_without_records(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, json.dumps({"t": {"0": 5, "1": 7}}), done_at_s=1.0)
    write_batch(tmp_path, 1, json.dumps({"t": {"0": 5, "1": 8, "2": 9}}))
    history = read_checkpoint(tmp_path).history
    assert [tp.partition for tp, of in history.items() if any(each.has_unread for each in of)] == [1]


def test_sparks_own_source_does_not_say_where_the_first_batch_starts(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, at(8))
    with pytest.raises(CheckpointError, match="has not finished its first batch"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_other_sources_of_the_query_are_left_out(tmp_path: Path, version: str) -> None:
    lines = ['{"logOffset":3}', "17", "-", at(5), at(6, "u")]
    named = [f"source{number}:{line}" if version == "v2" else line for number, line in enumerate(lines)]
    write_batch(tmp_path, 0, *named, version=version, done_at_s=1.0)
    assert read_checkpoint(tmp_path).positions == {TP: 5, TopicPartition("u", 0): 6}
    assert read_checkpoint(tmp_path, 4).positions == {TopicPartition("u", 0): 6}
    assert read_checkpoint(tmp_path, 2).positions == {}
    with pytest.raises(CheckpointError):
        read_checkpoint(tmp_path, 1)
    with pytest.raises(OptionError, match="has 5 sources"):
        read_checkpoint(tmp_path, 5)


def test_two_sources_of_one_topic_have_to_be_told_apart(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, at(5), at(6), done_at_s=1.0)
    with pytest.raises(OptionError, match="Several sources of this query read t-0"):
        read_checkpoint(tmp_path)
    assert read_checkpoint(tmp_path, 1).positions == {TP: 6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v3\n{}\n{}", "version v1 or v2 of Spark's offset log"),
        ("", "version v1 or v2"),
        ('v1\n{}\n{"logOffset":3}', "has the offsets of Kafka topics"),
        ('v1\n{}\n{"t":{"0":-3}}', "expected a number of at least 0"),
        ("v1", "Expected a line for each source in offsets/0"),
    ],
)
def test_a_file_of_another_form_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    write_batch(tmp_path, 0, at(1), done_at_s=1.0)
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(tmp_path)


def test_a_folder_without_batches_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Expected the checkpoint of a query"):
        read_checkpoint(tmp_path / "missing")
    with pytest.raises(CheckpointError, match="found no batch"):
        read_checkpoint(tmp_path)


def test_the_ranges_of_a_batch_are_those_between_two_files(tmp_path: Path) -> None:
    first = {"a": {"0": 3, "1": 4}, '$penstock/1 start {"a":{"0":1,"1":4}}': {}}
    second = {"a": {"0": 3, "1": 9, "2": 7}, '$penstock/1 from {"a":{"2":2}}': {}}
    folder = write_checkpoint(tmp_path / "checkpoint", first, second)
    (folder / "metadata").write_text('{"id": "q"}')
    assert read_ranges(folder, 0) == ("q", [OffsetRange(TopicPartition("a", 0), 1, 3)])
    expected = [OffsetRange(TopicPartition("a", 1), 4, 9), OffsetRange(TopicPartition("a", 2), 2, 7)]
    assert read_ranges(folder, 1) == ("q", expected)


def test_each_source_of_a_batch_has_ranges_of_its_own(tmp_path: Path) -> None:
    start_a, start_b = (f'$penstock/1 start {{"{topic}":{{"0":0}}}}' for topic in "ab")
    new_of_b = '$penstock/1 from {"b":{"1":2}}'
    write_batch(tmp_path, 0, *map(json.dumps, [{start_a: {}, "a": {"0": 5}}, {start_b: {}, "b": {"0": 7}}]))
    write_batch(tmp_path, 1, at(9, "a"), at(8, "b"))
    write_batch(tmp_path, 2, at(9, "a"), json.dumps({"b": {"0": 8, "1": 3}, new_of_b: {}}))
    found = [read_ranges(tmp_path, batch_id)[1] for batch_id in range(3)]
    a, b, new = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)
    assert found == [
        [OffsetRange(a, 0, 5), OffsetRange(b, 0, 7)],
        [OffsetRange(a, 5, 9), OffsetRange(b, 7, 8)],
        [OffsetRange(new, 2, 3)],
    ]
    write_batch(tmp_path, 3, at(10, "a"), at(11, "a"))
    with pytest.raises(OptionError, match="Several sources of this query read a-0"):
        read_ranges(tmp_path, 3)


def test_the_ranges_of_a_batch_are_not_guessed(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", {"a": {"0": 3}}, {"a": {"0": 3, "1": 9}})
    with pytest.raises(CheckpointError, match="begins to read a-0"):
        read_ranges(folder, 0)
    with pytest.raises(CheckpointError, match="begins to read a-1"):
        read_ranges(folder, 1)
    with pytest.raises(CheckpointError, match="Cannot read offsets/2"):
        read_ranges(folder, 2)
