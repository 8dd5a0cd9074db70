"""A continuous query and a stream with micro-batches take over from each other, on the real broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import (
    CheckpointError,
    ClientError,
    OffsetOutOfRangeError,
    OptionError,
    TopicPartitionsRemovedError,
)
from penstock.options.continuous import parse_continuous
from penstock.relay.driver import PlanDriver
from penstock.relay.settings import QuerySettings, query_settings
from tests import judge
from tests.checkpoint_files import write_checkpoint
from tests.continuous_copy import PARTITIONS, Copy, writing
from tests.fix_broker import MakeTopic
from tests.kafka.source_runs import Query, Row
from tests.printed import Here
from tests.unit.relay.thread_job import ThreadJob
from tests.waiting import wait_until

SESSION_MS = 6_000
"""The shortest that brokers allow."""


@pytest.fixture
def copy(bootstrap: str, make_topic: MakeTopic) -> Iterator[Copy]:
    made = Copy(bootstrap, make_topic)
    yield made
    made.connections.close()


def settings_of(copy: Copy) -> QuerySettings:
    config = parse_continuous(copy.options(), {"topic": copy.target})
    return query_settings(config, lanes=1, commit_interval_ms=20, maker=None)


def stream_of(copy: Copy, **more: str) -> Query:
    return Query({
        "topic": copy.source, "properties.bootstrap.servers": copy.bootstrap,
        "properties.group.id": copy.source, **more,
    })  # fmt: skip


def command(copy: Copy, folder: Path, *more: str) -> str:
    arguments = [
        "take-over",
        "-b",
        copy.bootstrap,
        "--checkpoint",
        str(folder),
        "--group",
        copy.source,
        *more,
    ]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_stream_starts_where_a_killed_continuous_query_has_ended(copy: Copy) -> None:
    """Its driver is dead, and its tasks go on until the group drops it. Until then no stream starts there."""
    driver = PlanDriver(settings_of(copy), SESSION_MS)
    try:
        job = ThreadJob(driver.new_plan(None), lambda: None)
    finally:
        driver.close()  # and does not leave the group, as if its process was killed
    stream = stream_of(copy, **{"scan.startup.mode": "group-offsets"})
    rows: list[Row] = []

    def takes_over() -> bool:
        with suppress(ClientError):
            rows.extend(stream.run())
            return True
        return False

    with writing(copy):
        copy.await_each()
        with (
            pytest.raises(ClientError, match="was killed less than a minute ago"),
            stream.running() as reader,
        ):
            reader.initialOffset()
        wait_until(takes_over, "the group has dropped the dead driver")
    rows += stream.run()
    assert job.wait(60)
    found = [each.value for each in judge.consume_all(copy.bootstrap, copy.target)]
    assert found
    assert Counter([*found, *(row.value for row in rows)]) == Counter(each.value for each in copy.written)


@contextmanager
def planning(copy: Copy) -> Iterator[PlanDriver]:
    driver = PlanDriver(settings_of(copy))
    try:
        yield driver
    finally:
        driver.leave()
        driver.close()


def test_a_group_gets_the_offsets_of_a_finished_checkpoint(copy: Copy, tmp_path: Path) -> None:
    copy.write()
    stream = stream_of(copy, **{"scan.max-records-per-batch": "30"})
    stream.run()
    assert copy.offset_sum > 0, "the stream has committed"
    write_checkpoint(tmp_path, *stream.checkpoint)
    done = tmp_path / "commits" / str(len(stream.checkpoint) - 1)
    done.rename(tmp_path / "kept")
    with pytest.raises(CheckpointError, match="was planned and is not finished"):
        command(copy, tmp_path)
    (tmp_path / "kept").rename(done)
    with planning(copy) as driver:
        with pytest.raises(OptionError, match=f"take-over --checkpoint FOLDER --group {copy.source} --yes"):
            driver.new_plan(None)
        with pytest.raises(ClientError, match="is the member of the consumer group"):
            command(copy, tmp_path, "--yes")
        driver.leave()
        here = Here(tmp_path, {"FOLDER": str(tmp_path), "GROUP": copy.source, "BROKERS": copy.bootstrap})
        assert "add --yes" in here.run("continuous-take-over.md", "penstock take-over")
        with pytest.raises(OptionError, match="take-over"):
            driver.new_plan(None)
        driver.leave()
        assert "They are committed" in here.run("continuous-take-over.md", "penstock take-over", "--yes")
        assert sum(driver.new_plan(None).positions.values()) == len(copy.written)


def test_a_checkpoint_that_a_continuous_query_has_left_behind_is_refused(copy: Copy, tmp_path: Path) -> None:
    copy.write()
    stream = stream_of(copy)
    stream.run()
    write_checkpoint(tmp_path, *stream.checkpoint)
    command(copy, tmp_path, "--yes")
    assert stream.run() == [], "nothing was taken over yet, so the stream may go on"
    command(copy, tmp_path, "--yes")
    with planning(copy) as driver:
        job = ThreadJob(driver.new_plan(None), lambda: None)
        copy.write()
        copy.await_all()
    assert job.wait(60)
    with pytest.raises(OffsetOutOfRangeError, match="would be written a second time"):
        command(copy, tmp_path, "--yes")
    with pytest.raises(OffsetOutOfRangeError, match="but a continuous query has read on"):
        stream.run()
    assert len(judge.consume_all(copy.bootstrap, copy.target)) == len(copy.written) / 2


def test_a_topic_that_was_created_again_is_not_taken_over(copy: Copy, tmp_path: Path) -> None:
    copy.write()
    stream = stream_of(copy)
    stream.run()
    write_checkpoint(tmp_path, *stream.checkpoint)
    judge.delete_topic(copy.bootstrap, copy.source)
    judge.create_topic(copy.bootstrap, copy.source, partitions=PARTITIONS)
    with pytest.raises(TopicPartitionsRemovedError, match="created again after the checkpoint"):
        command(copy, tmp_path, "--yes")
