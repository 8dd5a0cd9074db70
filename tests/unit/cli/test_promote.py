"""`penstock promote` and `rollback` die anywhere and are run again: every input is written once, in order."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.cli._hand_over import HandedOver, Wanted, hand_over
from penstock.errors import (
    CheckpointError,
    ExactlyOnceError,
    OptionError,
    PenstockError,
    PrefixTakenError,
    QueryEndedError,
)
from penstock.observe.new_checkpoint import OldCheckpoint
from penstock.sink.exactly_once._log_records import decode, encode
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.by_hand import Resolution, TransactionTools
from penstock.sink.exactly_once.committable import TargetTopic
from penstock.sink.exactly_once.decision import Begun, EndReason
from penstock.sink.exactly_once.decision import hand_over as decided_hand_over
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.receipt import Facts
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.types import OffsetRange, TopicPartition
from tests.deaths import Death, die_at
from tests.unit.fake_driver import PREFIX, driver, run_task, with_spans
from tests.unit.sink_cluster import LOG, SinkClient, SinkCluster
from tests.unit.virtual_time import client_waits_in_virtual_time

SOURCE = TopicPartition("source", 0)
RECORDS = 12
"""Of the source, by their offsets."""
BATCH = 2


@pytest.fixture(autouse=True)
def _virtual_time() -> Iterator[None]:
    with client_waits_in_virtual_time():
        yield
    observe(None)


class Job:
    """A query that copies the source with Spark's order of calls, and keeps Spark's checkpoint."""

    def __init__(self, cluster: SinkCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder

    def begin(self) -> None:
        """Spark makes the folder of a query when it starts."""
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "metadata").exists():
            (self.folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))

    def run(self, batches: int = RECORDS) -> None:
        """Run some batches, or until all is read."""
        self.begin()
        for _ in range(batches):
            if not self._batch():
                return

    def _batch(self) -> bool:
        old = OldCheckpoint(self.folder)
        planned, done = old.planned(), old.done()
        batch_id = done[-1] + 1 if done else 0
        start = old.end_of(done[-1])[SOURCE] if done else 0
        if batch_id not in planned:
            if start >= RECORDS:
                return False
            first = Markers(whole_start={SOURCE: 0}) if not batch_id else Markers()
            offset = SourceOffset({SOURCE: min(start + BATCH, RECORDS)}, first)
            self._log("offsets", batch_id, json.dumps(offset.to_json()))
        end = old.end_of(batch_id)[SOURCE]
        read = (OffsetRange(SOURCE, start, end),)
        self._write(batch_id, read)
        self._log("commits", batch_id, "{}")
        return True

    def _write(self, batch_id: int, read: tuple[OffsetRange, ...]) -> None:
        query_id = OldCheckpoint(self.folder).query_id
        side = driver(self.cluster)
        rows = [str(offset) for each in read for offset in range(each.starting_offset, each.stopping_offset)]
        mandate = side.recover()  # as if the checkpoint was in a store: only tasks know the query
        report = run_task(self.cluster, mandate, batch_id, 0, query_id=query_id, rows=rows)
        reports = with_spans([report]) if report.committable else [report]
        side.commit(reports, facts=Facts("0.1.0", "4.2.1", read))

    def _log(self, name: str, batch_id: int, text: str) -> None:
        (self.folder / name / str(batch_id)).write_text(
            f"v1\n{{}}\n{text}" if name == "offsets" else "v1\n{}"
        )

    def dies(self, step: Step) -> None:
        die_at(step)
        with pytest.raises(Death):
            self.run()


class Command:
    """`penstock promote` or `rollback`, each call a process of its own."""

    def __init__(self, cluster: SinkCluster, old: Job, new: Job, *, is_rollback: bool = False) -> None:
        self._cluster = cluster
        self._wanted = Wanted(PREFIX, str(old.folder), str(new.folder), LOG, is_rollback)

    def run(self, *, is_sure: bool = True, dies_at: Callable[[str], None] | None = None) -> HandedOver:
        """Run it. `dies_at` is called with the name of each step, and of each request before and after it."""
        client = SinkClient(self._cluster.kafka)
        dies = dies_at or (lambda _: None)
        client.moment = lambda request: dies(type(request).__name__)
        return hand_over(client.connections, self._wanted, is_sure=is_sure, reached=dies)

    def dies(self, number: int) -> bool:
        """Kill it at a moment. Return whether it has lived to see that moment."""
        seen: list[str] = []

        def dies(what: str) -> None:
            seen.append(what)
            if len(seen) == number + 1:
                raise Death

        try:
            self.run(dies_at=dies)
        except Death:
            return True
        return False


def _jobs(folder: Path) -> tuple[SinkCluster, Job, Job]:
    cluster = SinkCluster()
    cluster.kafka.create_topic(SOURCE.topic)
    return cluster, Job(cluster, folder / "old"), Job(cluster, folder / "new")


def _check(cluster: SinkCluster, records: int = RECORDS) -> None:
    assert cluster.committed == [str(each) for each in range(records)]
    assert not {each for each in cluster.open_ids() if each.startswith(PREFIX)}


DEATHS = [None, Step.BEFORE_DECISION, Step.DECIDED, Step.FINISHED, Step.MARKED]


@pytest.mark.parametrize("death", DEATHS)
def test_a_changed_job_continues_where_the_old_one_was_killed(tmp_path: Path, death: Step | None) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    if death is not None:
        old.dies(death)
    shown = Command(cluster, old, new).run(is_sure=False)
    assert (shown.heir, new.folder.exists()) == (None, False)
    found = Command(cluster, old, new).run()
    is_written = death not in (None, Step.BEFORE_DECISION)
    assert found.after == (2 if is_written else 1)
    new.run()
    with pytest.raises(QueryEndedError, match=f"handed over .* to query {found.heir}"):
        old.run()
    query_id, other = OldCheckpoint(old.folder).query_id, driver(cluster, "other")
    report = run_task(cluster, other.recover(), 9, 0, query_id=query_id, rows=["under another prefix"])
    with pytest.raises(QueryEndedError):
        other.commit([report])
    with pytest.raises(QueryEndedError):
        driver(cluster).recover(stream_id=query_id)
    new.run()
    _check(cluster)


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("death", [None, Step.DECIDED])
def test_it_is_killed_at_each_moment_and_run_again(
    tmp_path: Path, death: Step | None, *, comes_back: bool
) -> None:
    number, is_killed, kills = 0, True, 0
    while is_killed:
        cluster, old, new = _jobs(tmp_path / str(number))
        old.run(2)
        if death is not None:
            old.dies(death)
        command = Command(cluster, old, new)
        is_killed = command.dies(number)
        kills += is_killed
        if comes_back and is_killed:
            with suppress(QueryEndedError):
                old.run(1)  # a supervisor has started it again
        command.run()
        new.run()
        with pytest.raises(QueryEndedError):
            old.run()
        _check(cluster)
        number += 1
    assert kills > 20


def test_rollback_is_killed_at_each_moment_and_run_again(tmp_path: Path) -> None:
    number, is_killed = 0, True
    while is_killed:
        cluster, old, new = _jobs(tmp_path / str(number))
        third = Job(cluster, tmp_path / str(number) / "third")
        old.run(1)
        Command(cluster, old, new).run()
        new.run(2)
        if number % 2:
            new.dies(Step.DECIDED)
        back = Command(cluster, new, third, is_rollback=True)
        is_killed = back.dies(number)
        back.run()
        third.run()
        for each in (old, new):
            with pytest.raises(QueryEndedError):
                each.run()
        third.run()
        _check(cluster)
        number += 1
    assert number > 20


def test_a_promoted_job_that_has_not_begun_is_rolled_back(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    third = Job(cluster, tmp_path / "third")
    old.run(2)
    with pytest.raises(OptionError, match="was not promoted"):
        Command(cluster, old, new, is_rollback=True).run()
    Command(cluster, old, new).run()
    Command(cluster, new, third, is_rollback=True).run()
    third.run()
    _check(cluster)


def test_a_driver_that_takes_the_prefix_in_between_keeps_it(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    for step in ("taken", "read"):

        def comes_back(reached: str, at: str = step) -> None:
            if reached == at:
                old.run(1)

        with pytest.raises(PrefixTakenError, match="Nothing was handed over"):
            Command(cluster, old, new).run(dies_at=comes_back)
        assert not new.folder.exists()
    Command(cluster, old, new).run()
    new.run()
    _check(cluster)


def test_a_running_driver_is_fenced_by_name(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    query_id = OldCheckpoint(old.folder).query_id
    running = driver(cluster)
    reports = [run_task(cluster, running.recover(), 2, 0, query_id=query_id, rows=["4", "5"])]
    Command(cluster, old, new).run()
    with pytest.raises((PrefixTakenError, QueryEndedError)):
        running.commit(reports)
    new.run()
    _check(cluster)


def test_a_folder_that_is_lost_is_made_again_only_before_its_query_has_written(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    command = Command(cluster, old, new)
    command.run()
    new.folder.rename(tmp_path / "away")
    with pytest.raises(OptionError, match="has handed over its prefix to query"):
        Command(cluster, old, Job(cluster, tmp_path / "elsewhere")).run()
    assert command.run().was_done
    new.run(1)
    new.folder.rename(tmp_path / "away2")
    with pytest.raises(CheckpointError, match="the query has written batches since"):
        command.run()
    (tmp_path / "away2").rename(new.folder)
    assert command.run().was_done
    (new.folder / "metadata").write_text('{"id":"another"}')
    with pytest.raises(CheckpointError, match="that of another query"):
        command.run()


def test_a_folder_that_cannot_be_made_is_made_by_the_next_call(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    new.folder = tmp_path / "file" / "new"
    (tmp_path / "file").write_text("in its way")
    _refused(Command(cluster, old, new), CheckpointError, "the old job writes nothing any more")
    (tmp_path / "file").unlink()
    assert Command(cluster, old, new).run().was_done
    new.run()
    _check(cluster)


def _refused(command: Command, kind: type[PenstockError], match: str) -> None:
    with pytest.raises(kind, match=match):
        command.run()


def test_what_is_not_right_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(3)
    new.folder.mkdir()
    _refused(Command(cluster, old, new), OptionError, "exists. Nothing was handed over")
    new.folder.rmdir()
    other = Job(cluster, tmp_path / "unknown")
    other.begin()
    (other.folder / "offsets" / "0").write_text('v1\n{}\n{"source":{"0":2}}')
    _refused(Command(cluster, other, new), OptionError, "has no batch of query")
    newest = {name: (old.folder / name / "2").read_text() for name in ("offsets", "commits")}
    for name in newest:
        (old.folder / name / "2").unlink()
    _refused(Command(cluster, old, new), CheckpointError, "The checkpoint is older than the target")
    changed = SourceOffset({SOURCE: 5}).to_json()
    (old.folder / "offsets" / "2").write_text(f"v1\n{{}}\n{json.dumps(changed)}")
    _refused(Command(cluster, old, new), CheckpointError, "Its files were changed or restored since")
    for name, text in newest.items():
        (old.folder / name / "2").write_text(text)
    tools = TransactionTools(TransactionNames(PREFIX), cluster.transactions, cluster.log_store)
    query_id = OldCheckpoint(old.folder).query_id
    tools.refuse_shadow("a shadow", query_id, str(other.folder), ["target"])
    (other.folder / "metadata").write_text('{"id":"a shadow"}')
    _refused(Command(cluster, other, new), OptionError, "is that of a shadow")
    old.run()
    _check(cluster)


def test_a_batch_that_lost_a_part_is_finished_by_the_old_job_first(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(1)
    query_id = OldCheckpoint(old.folder).query_id
    old._log("offsets", 1, json.dumps(SourceOffset({SOURCE: 4}).to_json()))
    side = driver(cluster)
    mandate = side.recover()
    reports = [run_task(cluster, mandate, 1, at, query_id=query_id, rows=[str(2 + at)]) for at in range(2)]

    def lose(step: Step) -> None:
        if step is Step.DECIDED:
            observe(None)
            committable = reports[1].committable
            assert committable is not None
            cluster.time_out(committable.identity.transactional_id)

    observe(lose)
    with pytest.raises(ExactlyOnceError):
        side.commit(reports)
    _refused(Command(cluster, old, new), ExactlyOnceError, "is not whole: it is lost")
    assert not new.folder.exists()
    side = driver(cluster)
    mandate = side.recover()
    reports = [run_task(cluster, mandate, 1, at, query_id=query_id, rows=[str(2 + at)]) for at in range(2)]
    side.commit(reports, facts=Facts("0.1.0", "4.2.1", (OffsetRange(SOURCE, 2, 4),)))
    assert Command(cluster, old, new).run().after == 1
    new.run()
    _check(cluster)


def test_a_query_with_two_prefixes_is_refused(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    query_id = OldCheckpoint(old.folder).query_id
    side = driver(cluster, "beside")
    report = run_task(cluster, side.recover(), 1, 0, query_id=query_id, rows=["beside"])
    side.commit([report], [PREFIX])
    _refused(Command(cluster, old, new), OptionError, "under the prefix beside, too")


def test_the_records_of_a_hand_over_are_read_as_they_were_written() -> None:
    cluster = SinkCluster()
    driver(cluster).commit([run_task(cluster, driver(cluster).recover(), 0, 0)])
    log = DecisionLog(cluster.log_store, PREFIX)
    assert log.open(create=False)
    (last,) = log.catch_up().values()
    ended, begun = decided_hand_over(last, "heir", Begun(last.query_id, 0, "/new", {"metadata": "{}"}))
    for each in (ended, begun):
        assert decode(each.query_id, encode(each)) == each
    assert ended.ended is not None
    assert ended.ended.reason is EndReason.HANDED_OVER
    assert _stored(ended)["batch_id"] > last.batch_id


def _stored(decision: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(decision))
    return found


# ----- batches that are not done


def _write_in_function(cluster: SinkCluster, batch_id: int, rows: list[str], query_id: str) -> None:
    """Write a batch as foreachBatch does: its receipt does not say what it has read."""
    side = driver(cluster)
    report = run_task(cluster, side.recover(), batch_id, 0, query_id=query_id, rows=rows)
    side.commit(with_spans([report]), facts=Facts("0.1.0", "4.2.1"))


@pytest.mark.parametrize("is_sure", [False, True])
@pytest.mark.parametrize("is_decided", [False, True])
def test_a_batch_that_is_not_done_in_foreach_batch_is_finished_by_the_old_job_first(
    tmp_path: Path, *, is_decided: bool, is_sure: bool
) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.begin()
    query_id = OldCheckpoint(old.folder).query_id
    first = SourceOffset({SOURCE: 2}, Markers(whole_start={SOURCE: 0}))
    old._log("offsets", 0, json.dumps(first.to_json()))
    _write_in_function(cluster, 0, ["0", "1"], query_id)
    old._log("commits", 0, "{}")
    assert Command(cluster, old, new).run(is_sure=False).after == 0
    old._log("offsets", 1, json.dumps(SourceOffset({SOURCE: 4}).to_json()))
    if is_decided:
        _write_in_function(cluster, 1, ["2", "3"], query_id)  # and then it dies before it writes elsewhere
    with pytest.raises(ExactlyOnceError, match=r"Batch 1 of query .* do not say what it reads.*availableNow"):
        Command(cluster, old, new).run(is_sure=is_sure)
    assert not new.folder.exists()
    old.run(1)
    assert Command(cluster, old, new).run().after == 1
    new.run()
    _check(cluster)


def test_a_promoted_job_that_fails_in_its_first_batch_is_rolled_back(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    third = Job(cluster, tmp_path / "third")
    old.run(2)
    Command(cluster, old, new).run()
    new.dies(Step.BEFORE_DECISION)
    assert Command(cluster, new, third, is_rollback=True).run().after == 0
    third.run()
    _check(cluster)


@pytest.mark.parametrize("is_sure", [False, True])
def test_a_batch_whose_topic_was_created_again_before_it_was_done_is_not_taken_as_written(
    tmp_path: Path, *, is_sure: bool
) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(1)
    old.dies(Step.FINISHED)
    cluster.recreate_target()
    with pytest.raises(ExactlyOnceError, match=r"is written and not done, and since then .* created again"):
        Command(cluster, old, new).run(is_sure=is_sure)
    assert not new.folder.exists()
    with pytest.raises(ExactlyOnceError, match="write-again"):
        old.run(1)
    tools = TransactionTools(TransactionNames(PREFIX), cluster.transactions, cluster.log_store)
    tools.resolve(OldCheckpoint(old.folder).query_id, Resolution.WRITE_AGAIN)
    assert Command(cluster, old, new).run().after == 0
    new.run()
    assert cluster.committed == [str(each) for each in range(BATCH, RECORDS)]


def test_without_yes_it_is_seen_that_the_checkpoint_was_changed(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    (old.folder / "offsets" / "1").write_text(f"v1\n{{}}\n{json.dumps(SourceOffset({SOURCE: 3}).to_json())}")
    with pytest.raises(CheckpointError, match="Its files were changed or restored since"):
        Command(cluster, old, new).run(is_sure=False)


def test_an_old_job_under_another_prefix_writes_no_topic_of_its_earlier_batches(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    cluster.kafka.create_topic("earlier")
    old.run(2)  # the last batch went into `target` alone, as the topic of each row may say
    Command(cluster, old, new).run()
    query_id, side = OldCheckpoint(old.folder).query_id, driver(cluster, "another")
    report = run_task(cluster, side.recover(), 2, 0, query_id=query_id, rows=["4"])
    with pytest.raises(QueryEndedError, match="has handed over"):
        side.commit([replace(report, topics=(TargetTopic("earlier"),))])
    new.run()
    _check(cluster)


def test_the_query_of_a_shadow_was_not_promoted(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    old.run(2)
    tools = TransactionTools(TransactionNames(PREFIX), cluster.transactions, cluster.log_store)
    tools.refuse_shadow("a shadow", OldCheckpoint(old.folder).query_id, "/shadow", ["target"])
    with pytest.raises(OptionError, match="was not promoted"):
        Command(cluster, old, new, is_rollback=True).run()


def test_a_repeated_promote_after_a_rollback_names_the_query_that_has_the_prefix_now(tmp_path: Path) -> None:
    cluster, old, new = _jobs(tmp_path)
    third = Job(cluster, tmp_path / "third")
    old.run(1)
    Command(cluster, old, new).run()
    new.run(1)
    heir = Command(cluster, new, third, is_rollback=True).run().heir
    for is_sure in (False, True):
        for to in (new, Job(cluster, tmp_path / "more")):
            with pytest.raises(OptionError, match=f"Query {heir} has it now, whose checkpoint is .*third"):
                Command(cluster, old, to).run(is_sure=is_sure)
    assert Command(cluster, new, third, is_rollback=True).run().was_done
    third.run()
    _check(cluster)
