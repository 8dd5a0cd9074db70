"""What batches read, by Spark's checkpoint, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.spark.ranges_read import query_id_of, ranges_between, ranges_read
from penstock.types import OffsetRange, TopicPartition
from tests.checkpoint_files import write_checkpoint

_A, _B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _checkpoint(tmp_path: Path) -> str:
    positions = [{"0": 2}, {"0": 5}, {"0": 5, "1": 0}, {"0": 9, "1": 4}, {"0": 9, "1": 7}]
    folder = write_checkpoint(tmp_path / "checkpoint", *({"orders": each} for each in positions))
    (folder / "metadata").write_text(json.dumps({"id": "query"}))
    return str(folder)


def test_the_ranges_of_several_batches_are_joined(tmp_path: Path) -> None:
    location = _checkpoint(tmp_path)
    assert ranges_between(location, "query", 0, 2) == (OffsetRange(_A, 2, 5),)
    assert ranges_between(location, "query", 2, 5) == (OffsetRange(_A, 5, 9), OffsetRange(_B, 0, 7))
    assert ranges_between(location, "query", 3, 4) == ()
    for written in (f"file:{location}", f"file://{location}"):
        assert ranges_between(written, "query", 0, 2) == (OffsetRange(_A, 2, 5),)
        assert query_id_of(written) == "query"


def test_they_are_unknown_if_one_of_them_is(tmp_path: Path) -> None:
    location = _checkpoint(tmp_path)
    assert ranges_between(location, "query", 1, 3) is None, "batch 2 does not say where orders-1 begins"
    assert ranges_between(location, "another", 0, 2) is None
    assert ranges_between("s3://bucket/checkpoint", "query", 0, 2) is None
    (Path(location) / "offsets" / "3").unlink()
    assert ranges_read(location, "query", 4) is None
    assert ranges_between(location, "query", 2, 5) is None
