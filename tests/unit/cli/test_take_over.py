"""`penstock take-over`: what it refuses before it asks a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import CheckpointError, MissingOptionError
from penstock.observe.checkpoint import read_checkpoint
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.testing import FakeKafka
from penstock.testing.fake.control import SeenRequest
from penstock.types import TopicPartition
from tests.checkpoint_files import write_checkpoint

TP = TopicPartition("orders", 0)
WAITING = TopicPartition("orders", 1)


def take_over(folder: Path) -> None:
    arguments = ["take-over", "--checkpoint", str(folder), "--group", "copier", "-b", "unknown.invalid:1"]
    CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_topic_partition_without_a_position_would_be_read_from_its_first_record(tmp_path: Path) -> None:
    markers = Markers(waiting=frozenset((WAITING,)), topic_ids={"orders": "an id"})
    write_checkpoint(tmp_path, SourceOffset({TP: 3}, markers).to_json())
    state = read_checkpoint(tmp_path)
    assert state.waiting == {WAITING}
    assert state.topic_ids == {"orders": "an id"}
    with pytest.raises(CheckpointError, match="where it begins to read orders-1: no broker has answered"):
        take_over(tmp_path)


def test_a_first_batch_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    first = SourceOffset({TP: 3}, Markers(whole_start={TP: 0}))
    write_checkpoint(tmp_path, first.to_json())
    (tmp_path / "commits" / "0").unlink()
    with pytest.raises(CheckpointError, match="Batch 0 of the checkpoint was planned and is not finished"):
        take_over(tmp_path)


def test_a_folder_that_is_not_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="found no batch"):
        take_over(tmp_path)


def test_the_cluster_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint does not say which one it is of."""
    write_checkpoint(tmp_path, json.loads('{"orders": {"0": 3}}'))
    monkeypatch.setattr("penstock.cli.connecting._development_servers", lambda _: "localhost:9092")
    arguments = ["take-over", "--checkpoint", str(tmp_path), "--group", "copier"]
    with pytest.raises(MissingOptionError, match="does not say which cluster"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize("has_finished", [False, True])
def test_a_stream_that_runs_is_noticed_after_the_commit(tmp_path: Path, *, has_finished: bool) -> None:
    """Its group is behind it then."""
    write_checkpoint(tmp_path, json.loads('{"orders": {"0": 3}}'))

    def goes_on(_: SeenRequest) -> None:
        (tmp_path / "offsets" / "1").write_text('v1\n{}\n{"orders": {"0": 5}}')
        if has_finished:
            (tmp_path / "commits" / "1").write_text("v1\n{}")

    with FakeKafka() as fake:
        fake.create_topic("orders")
        arguments = [
            "--checkpoint",
            str(tmp_path),
            "--group",
            "copier",
            "-b",
            fake.bootstrap_servers,
            "--yes",
        ]
        command = ["take-over", *arguments]
        with (
            fake.control("OffsetCommit", goes_on),
            pytest.raises(
                CheckpointError, match="stream runs: its checkpoint was at batch 0, and had batch 1"
            ),
        ):
            CliRunner().invoke(app, command, catch_exceptions=False)
        if has_finished:
            result = CliRunner().invoke(app, command, catch_exceptions=False)
            assert "orders-0  5  (committed before: 3)" in result.output
