"""SIGKILL at each step of `penstock promote` and `rollback`, on the real broker: each row once, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import QueryEndedError
from penstock.observe.new_checkpoint import OldCheckpoint
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.receipt import Facts
from penstock.types import OffsetRange, TopicPartition
from tests.deaths import Death, die_at
from tests.fix_broker import MakeTopic
from tests.kafka.promote_job import AFTER, BEFORE, LAST, killed_at
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open, assert_seen, expected, rows_of

SOURCE = TopicPartition("source", 0)


@pytest.fixture
def sink(bootstrap: str, make_topic: MakeTopic) -> Iterator[SinkUnderTest]:
    topic = make_topic(3)
    settings = ConnectionSettings((bootstrap,), "test-promote")
    connections = KafkaConnections(settings)
    yield SinkUnderTest(settings, connections, topic, topic)
    connections.close()
    observe(None)


class Query:
    """A query with Spark's checkpoint. Its batch n, counted from `first`, writes the rows of `rows_of`."""

    def __init__(self, sink: SinkUnderTest, folder: Path) -> None:
        self.sink, self.folder = sink, folder

    def begin(self, query_id: str) -> None:
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "metadata").write_text(json.dumps({"id": query_id}))

    def run(self, rows: int, *, is_noted: bool = True) -> None:
        """Run its next batch, which writes the rows with this number."""
        old = OldCheckpoint(self.folder)
        done = old.done()
        batch_id = done[-1] + 1 if done else 0
        start = "" if batch_id else '"$penstock/1 start {\\"source\\":{\\"0\\":0}}": {}, '
        (self.folder / "offsets" / str(batch_id)).write_text(
            f'v1\n{{}}\n{{{start}"source": {{"0": {rows + 1}}}}}'
        )
        self.sink.query_id = old.query_id
        with self.sink.driver() as side:
            mandate = side.recover(stream_id=old.query_id)
            reports = [self.sink.task(mandate, batch_id, at, values=rows_of(rows, at)) for at in range(3)]
            side.commit(reports, facts=Facts("0.1.0", "4.2.1", (OffsetRange(SOURCE, rows, rows + 1),)))
        if is_noted:
            (self.folder / "commits" / str(batch_id)).write_text("v1\n{}")

    @property
    def position(self) -> int:
        old = OldCheckpoint(self.folder)
        return next(iter(old.end_of(old.done()[-1]).values()))


def _run(bootstrap: str, command: str, prefix: str, old: Query, new: Query) -> str:
    arguments = ["--prefix", prefix, "--checkpoint", str(old.folder), "--to", str(new.folder)]
    result = CliRunner().invoke(app, [command, *arguments, "--yes", "-b", bootstrap], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.promise
def test_promote_and_rollback_killed_at_each_step(
    bootstrap: str, sink: SinkUnderTest, tmp_path: Path
) -> None:
    old, new, back = (Query(sink, tmp_path / name) for name in ("old", "new", "back"))
    old.begin("old-query")
    rows = 0

    def more(query: Query) -> None:
        nonlocal rows
        query.run(rows)
        rows += 1

    def is_ended(query: Query) -> None:
        with pytest.raises(QueryEndedError, match="has handed over"):
            query.run(rows)

    for command, running, heir in (("promote", old, new), ("rollback", new, back)):
        more(running)
        place = bootstrap, sink.prefix, str(running.folder), str(heir.folder), command
        for step in BEFORE:
            killed_at(step, *place)
            assert not heir.folder.exists()
            more(running)  # nothing was handed over, so a supervisor may have started it again
        die_at(Step.DECIDED)  # the driver dies after its decision, before Spark's commit log
        with pytest.raises(Death):
            running.run(rows)
        rows += 1
        for step in AFTER:
            killed_at(step, *place)
            assert not heir.folder.exists()
            is_ended(running)
        killed_at(LAST, *place)
        assert heir.position == rows, "it begins after the last decided batch"
        assert "has handed the prefix" in _run(bootstrap, command, sink.prefix, running, heir)
        more(heir)
        is_ended(running)
    more(back)
    is_ended(old)
    is_ended(new)
    assert_seen(bootstrap, sink.topic, expected(rows))
    assert_none_open(sink)
