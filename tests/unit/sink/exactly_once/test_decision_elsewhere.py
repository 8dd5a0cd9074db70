"""One query, several prefixes: changed, changed back, and written side by side in foreachBatch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.producer import InitProducerIdRequest

from penstock.client.net.error_codes import TOPIC_AUTHORIZATION_FAILED
from penstock.errors import DecisionLogError, ExactlyOnceError, PrefixChangedError, PrefixTakenError
from penstock.sink.exactly_once import _commit
from penstock.sink.exactly_once import log as decision_log
from penstock.sink.exactly_once._elsewhere import BatchElsewhere
from penstock.sink.exactly_once._log_records import LogLocation, encode_back
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TargetTopic, TaskReport
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.names import LOG_SUFFIX
from penstock.testing.fake.control import Action, LoseRequest, Refuse, SeenRequest
from tests.deaths import Death, die_at
from tests.examples import examples
from tests.unit.fake_driver import driver, expected, run_task, run_tasks
from tests.unit.sink_cluster import LOG, SinkCluster, decision_topic


def run_batch(
    side: DriverSide, cluster: SinkCluster, batch_id: int, *, topic: str | None = None, dies: bool = False
) -> None:
    reports = run_tasks(cluster, side.recover(), batch_id)
    if topic is not None:
        reports = [replace(each, topics=(TargetTopic(topic),)) for each in reports]
    if dies:
        die_at(Step.DECIDED)
    try:
        side.commit(reports)
    except PrefixChangedError:
        side.abort(reports)
        raise


@pytest.mark.parametrize("is_one_process", [True, False])
def test_prefix_that_is_changed_there_and_back_doubles_nothing(is_one_process: bool) -> None:
    cluster = SinkCluster()
    kept = {name: driver(cluster, name) for name in "ab"}

    def side(name: str) -> DriverSide:
        return kept[name] if is_one_process else driver(cluster, name)

    for batch_id in range(2):
        run_batch(side("a"), cluster, batch_id)
    with pytest.raises(Death):
        run_batch(side("b"), cluster, 2, dies=True)
    for _ in range(2):
        with pytest.raises(PrefixChangedError, match=r"batch 2 .*decided under .*=b .*prefix a") as raised:
            run_batch(side("a"), cluster, 2)
    assert raised.value.facts["previous_prefix"] == "b"
    run_batch(side("b"), cluster, 2)
    for batch_id, name in enumerate("aabbab", start=3):
        run_batch(side(name), cluster, batch_id)
    assert Counter(cluster.committed) == expected(range(9))
    assert not cluster.open_ids()


def test_other_logs_are_looked_through_once_in_the_life_of_prefix_and_query() -> None:
    cluster = SinkCluster()
    for batch_id in range(4):
        run_batch(driver(cluster, "a"), cluster, batch_id)
    assert cluster.metadata_count(None) == 1
    for batch_id in range(4, 8):
        run_batch(driver(cluster, "b" if batch_id % 2 else "a"), cluster, batch_id)
    assert cluster.metadata_count(None) == 2


def test_copy_of_a_checkpoint_may_write_to_another_target() -> None:
    cluster = SinkCluster()
    for batch_id in range(4):
        run_batch(driver(cluster, "a"), cluster, batch_id, topic="first")
        run_batch(driver(cluster, "b"), cluster, batch_id, topic="second")
    with pytest.raises(PrefixChangedError, match=r"copy of the checkpoint.*do not start it with"):
        run_batch(driver(cluster, "c"), cluster, 3, topic="first")
    assert not any(b"/moved" in (record.key or b"") for record in cluster.log), "another target is not a move"


def test_prefix_whose_successor_lost_its_log_says_so() -> None:
    cluster = SinkCluster()
    log_of_b = f"b{LOG_SUFFIX}"
    run_batch(driver(cluster, "a"), cluster, 0)
    run_batch(driver(cluster, "b", log_of_b), cluster, 1)
    cluster.kafka.delete_topic(log_of_b)
    with pytest.raises(DecisionLogError, match=r"left the prefix a for .*=b before, .* no longer exists"):
        run_batch(driver(cluster, "a"), cluster, 2)
    assert Counter(cluster.committed) == expected(range(2))


LOG_OF_A = f"a{LOG_SUFFIX}"


def is_about_log_of_a(seen: SeenRequest) -> bool:
    return LOG_OF_A in [each.name for each in seen.body.topics]


def lose_reads(cluster: SinkCluster) -> Callable[[], None]:
    """Let no answer come about the log of a; return what ends that."""
    return cluster.kafka.control(
        "ListOffsets", lambda seen: LoseRequest() if is_about_log_of_a(seen) else None, times=None
    ).end


def take_leader_away(cluster: SinkCluster) -> Callable[[], None]:
    """Let no broker lead the log of a; return what ends that."""
    cluster.kafka.move_leader(LOG_OF_A, 0, -1)
    return partial(cluster.kafka.move_leader, LOG_OF_A, 0, 1)


@pytest.mark.parametrize("disturb", [lose_reads, take_leader_away])
def test_other_log_that_cannot_be_read_now_doubles_nothing(
    disturb: Callable[[SinkCluster], Callable[[], None]],
) -> None:
    """The batch is written by what it holds."""
    cluster = SinkCluster()
    run_batch(driver(cluster, "a", LOG_OF_A), cluster, 0)
    end = disturb(cluster)
    with pytest.raises(DecisionLogError, match=rf"topic {LOG_OF_A} cannot be looked .* Nothing was written"):
        run_batch(driver(cluster, "b"), cluster, 0)
    end()
    with pytest.raises(PrefixChangedError, match="prefix b"):
        run_batch(driver(cluster, "b"), cluster, 0)
    assert Counter(cluster.committed) == expected(range(1))


def test_topic_that_this_user_may_not_read_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SinkCluster()
    run_batch(driver(cluster, "a", LOG_OF_A), cluster, 0)
    asked: list[str] = []

    def refuse(seen: SeenRequest) -> Action | None:
        asked.extend(each.name for each in seen.body.topics)
        return Refuse(TOPIC_AUTHORIZATION_FAILED) if is_about_log_of_a(seen) else None

    cluster.kafka.control("ListOffsets", refuse, times=None)
    run_batch(driver(cluster, "b"), cluster, 1)
    assert f"cannot look for decisions in topic {LOG_OF_A}: " in caplog.text
    assert Counter(cluster.committed) == expected(range(2))
    assert set(asked) == {LOG, LOG_OF_A}, "the target is not asked about"


def test_log_that_is_mirrored_from_another_cluster_is_no_other_prefix() -> None:
    """Taking the prefix that it names would be taking it from oneself, again at each start."""
    mirrored, cluster = SinkCluster(), SinkCluster()
    run_batch(driver(mirrored, "a"), mirrored, 0)
    mirror = decision_topic(cluster.client, f"us.{LOG}")
    mirror.create()
    for record in mirrored.log:
        assert record.key is not None
        mirror.append_plainly(record.key, record.value)
    with pytest.raises(
        PrefixChangedError, match=r"batch 0 .*finished under .*=a .*would go under the prefix a"
    ):
        run_batch(driver(cluster, "a"), cluster, 0)
    for batch_id in (1, 2):
        run_batch(driver(cluster, "a"), cluster, batch_id)
    assert Counter(cluster.committed) == expected(range(3)) - expected(range(1))


def test_decision_of_a_newer_version_in_another_log_is_told() -> None:
    cluster = SinkCluster()
    run_batch(driver(cluster, "a"), cluster, 0)
    for record in cluster.log:
        assert record.key is not None
        newer = (record.value or b"").replace(b'"version":1', b'"version":2')
        cluster.log_store.append_plainly(record.key, newer)
    with pytest.raises(DecisionLogError, match="version 2, while this is version 1"):
        run_batch(driver(cluster, "b"), cluster, 1)
    # A record about another query does not matter here.
    other = driver(cluster, "b")
    other.commit([run_task(cluster, other.recover(), 0, 0, query_id="other", rows=["of another"])])
    assert cluster.committed[-1] == "of another"


class Function:
    """A function of foreachBatch: one prefix for each of its sinks, which may be changed between two runs."""

    def __init__(self, seed: int, sinks: int) -> None:
        self.random = random.Random(seed)
        self.cluster = SinkCluster()
        self.names = [f"p{sink}-0" for sink in range(sinks)]
        self.kept: dict[str, DriverSide] = {}

    def side(self, name: str) -> DriverSide:
        if name not in self.kept or self.random.random() < 0.5:
            self.kept[name] = driver(self.cluster, name)
        return self.kept[name]

    def rename_one(self) -> None:
        sink = self.random.randrange(len(self.names))
        self.names[sink] = f"p{sink}-{self.random.randrange(3)}"

    def run(self, batch_id: int, *, is_calm: bool = False) -> bool:
        """One try at a batch; whether Spark goes on to the next."""
        written: list[str] = []
        for sink, name in enumerate(self.names):
            try:
                self.write(sink, name, batch_id, written, is_calm=is_calm)
            except PrefixChangedError as error:
                previous = error.facts["previous_prefixes"]
                (self.names[sink],) = {each for each in previous if each.startswith(f"p{sink}-")}
                return False
            except Death:
                return False
            written.append(name)
        return is_calm or self.random.random() < 0.8

    def write(self, sink: int, name: str, batch_id: int, siblings: list[str], *, is_calm: bool) -> None:
        mandate = self.side(name).recover()
        reports = [run_task(self.cluster, mandate, batch_id, 0, rows=[f"{batch_id}/{sink}"])]
        steps = (Step.BEFORE_DECISION, Step.DECIDED, Step.FINISHED, Step.MARKED)
        if not is_calm and self.random.random() < 0.3:
            die_at(self.random.choice(steps))
        try:
            self.side(name).commit(reports, siblings)
        except PrefixChangedError:
            with suppress(Death):
                self.side(name).abort(reports)
            raise
        finally:
            observe(None)


@settings(max_examples=examples(5), deadline=None)
@given(seed=st.integers(0, 2**32), sinks=st.integers(1, 3), snapshot_every=st.sampled_from([3, 10, 200]))
def test_every_row_once_whatever_prefixes_a_query_has(seed: int, sinks: int, snapshot_every: int) -> None:
    function = Function(seed, sinks)
    batch_id = 0
    with patch.object(decision_log, "SNAPSHOT_EVERY_OFFSETS", snapshot_every):
        for _ in range(40):
            if function.random.random() < 0.4:
                function.rename_one()
            batch_id += function.run(batch_id)
        while not function.run(batch_id, is_calm=True):
            pass
    wanted = Counter(f"{each}/{sink}" for each in range(batch_id + 1) for sink in range(sinks))
    assert Counter(function.cluster.committed) == wanted


def test_copy_that_turns_to_the_target_of_the_first_doubles_nothing() -> None:
    cluster = SinkCluster()
    for batch_id in range(3):
        run_batch(driver(cluster, "a"), cluster, batch_id, topic="first")
    for batch_id in range(2):
        run_batch(driver(cluster, "b"), cluster, batch_id, topic="second")
    with pytest.raises(PrefixChangedError, match=r"batch 2 .*finished under .*=a "):
        run_batch(driver(cluster, "b"), cluster, 2, topic="first")


def test_prefix_that_comes_back_after_another_target_doubles_nothing() -> None:
    cluster = SinkCluster()
    run_batch(driver(cluster, "a"), cluster, 0, topic="first")
    run_batch(driver(cluster, "b"), cluster, 1, topic="second")
    with pytest.raises(Death):
        run_batch(driver(cluster, "b"), cluster, 2, topic="first", dies=True)
    with pytest.raises(PrefixChangedError, match=r"batch 2 .*decided under .*=b "):
        run_batch(driver(cluster, "a"), cluster, 2, topic="first")


def test_query_whose_batches_go_to_other_topics_each_time_looks_once_for_each() -> None:
    cluster = SinkCluster()
    side = driver(cluster, "a")
    for batch_id in range(6):
        run_batch(side, cluster, batch_id, topic=f"topic-{batch_id % 2}")
    assert cluster.metadata_count(None) == 2, "for each topic"
    for batch_id in range(6, 9):
        run_batch(driver(cluster, "a"), cluster, batch_id, topic="topic-0")
    assert cluster.metadata_count(None) == 3


class SwappingFunction:
    """A function of foreachBatch whose sinks trade their prefixes between two runs.

    After an error the user does what it says: the function is as it was before.
    """

    POOL = ("p0", "p1", "p2", "p3")

    def __init__(self, seed: int, sinks: int) -> None:
        self.random = random.Random(seed)
        self.cluster = SinkCluster()
        self.sinks = sinks
        self.tried = [self.shuffled()]
        """How the sinks' prefixes were while this batch was tried."""

    def shuffled(self) -> list[str]:
        return self.random.sample(self.POOL, self.sinks)

    def run(self, batch_id: int, *, is_calm: bool) -> bool:
        """One try at a batch; whether it is written."""
        if not is_calm and self.random.random() < 0.4:
            self.tried.append(self.shuffled())
        written: list[str] = []
        for sink, name in enumerate(self.tried[-1]):
            try:
                self.write(sink, name, batch_id, written, is_calm=is_calm)
            except Death:
                return False
            except ExactlyOnceError:
                assert len(self.tried) > 1, "the function that wrote the batch can go on with it"
                self.tried.pop()
                return False
            written.append(name)
        if is_calm or self.random.random() < 0.8:
            self.tried = self.tried[-1:]
            return True
        return False

    def write(self, sink: int, name: str, batch_id: int, siblings: list[str], *, is_calm: bool) -> None:
        side = driver(self.cluster, name)
        reports = [run_task(self.cluster, side.recover(), batch_id, 0, rows=[f"{batch_id}/{sink}"])]
        if not is_calm and self.random.random() < 0.4:
            die_at(self.random.choice((Step.BEFORE_DECISION, Step.DECIDED, Step.FINISHED, Step.MARKED)))
        try:
            side.commit(reports, siblings)
        except ExactlyOnceError:
            with suppress(Death):
                side.abort(reports)
            raise
        finally:
            observe(None)


@settings(max_examples=examples(5), deadline=None)
@given(seed=st.integers(0, 2**32), sinks=st.integers(1, 4), snapshot_every=st.sampled_from([3, 200]))
def test_every_row_once_though_the_sinks_of_a_function_trade_their_prefixes(
    seed: int, sinks: int, snapshot_every: int
) -> None:
    function = SwappingFunction(seed, sinks)
    batch_id = 0
    with patch.object(decision_log, "SNAPSHOT_EVERY_OFFSETS", snapshot_every):
        for _ in range(15):
            batch_id += function.run(batch_id, is_calm=False)
        while not function.run(batch_id, is_calm=True):
            pass
    wanted = Counter(f"{each}/{sink}" for each in range(batch_id + 1) for sink in range(sinks))
    assert Counter(function.cluster.committed) == wanted


def test_driver_that_stands_still_while_its_query_moves_decides_nothing() -> None:
    cluster = SinkCluster()
    run_batch(driver(cluster, "a"), cluster, 0)
    still = driver(cluster, "a")
    reports = run_tasks(cluster, still.recover(), 1)
    moved: list[int] = []

    def move(step: Step) -> None:
        if step is Step.BEFORE_DECISION and not moved:
            moved.append(1)
            run_batch(driver(cluster, "b"), cluster, 1)

    observe(move)
    with pytest.raises(PrefixTakenError, match="prefix a "):
        still.commit(reports)
    observe(None)
    still.abort(reports)
    run_batch(driver(cluster, "b"), cluster, 2)
    assert Counter(cluster.committed) == expected(range(3))


def test_driver_that_stands_still_in_the_first_batch_of_a_query_that_moves_decides_nothing() -> None:
    """Neither log knows the query then: the newer driver has only the older one's trace to go by."""
    cluster = SinkCluster()
    moved: list[int] = []

    def move(reached: Step) -> None:
        if reached is Step.BEFORE_DECISION and not moved:
            moved.append(1)
            run_batch(driver(cluster, "b"), cluster, 0)

    observe(move)
    still = driver(cluster, "a")
    with pytest.raises(PrefixTakenError, match="prefix a "):
        run_batch(still, cluster, 0)
    observe(None)
    run_batch(driver(cluster, "b"), cluster, 1)
    assert Counter(cluster.committed) == expected(range(2))


def test_driver_that_stands_still_while_it_comes_back_removes_no_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another prefix has decided since, and relies on the marker."""
    cluster = SinkCluster()
    for batch_id in range(2):
        run_batch(driver(cluster, "a"), cluster, batch_id)
    die_at(Step.BEFORE_DECISION)
    with pytest.raises(Death):
        run_batch(driver(cluster, "b"), cluster, 2)  # leaves its marker in the log of a
    observe(None)
    moved: list[int] = []

    def stand_still(location: LogLocation) -> bytes:
        if not moved:
            moved.append(1)
            run_batch(driver(cluster, "b"), cluster, 2)
        return encode_back(location)

    monkeypatch.setattr(decision_log, "encode_back", stand_still)
    with pytest.raises(PrefixTakenError, match="prefix a "):
        run_batch(driver(cluster, "a"), cluster, 2)
    assert moved
    with pytest.raises(PrefixChangedError, match=r"batch 2 .*under .*=b "):
        run_batch(driver(cluster, "a"), cluster, 2)
    for name, batch_id in (("b", 2), ("b", 3), ("a", 4)):
        run_batch(driver(cluster, name), cluster, batch_id)
    assert Counter(cluster.committed) == expected(range(5))


def test_decision_that_is_made_while_its_query_moves_is_seen() -> None:
    """The older driver wakes up after the look of the newer one, and before its prefix is taken."""
    cluster = SinkCluster()
    run_batch(driver(cluster, "a"), cluster, 0)
    still = driver(cluster, "a")
    reports = run_tasks(cluster, still.recover(), 1)
    is_marked: list[bool] = []

    def wake(request: Any) -> None:
        if isinstance(request, InitProducerIdRequest) and request.transactional_id == "a-committer":
            cluster.client.moment = lambda request: None
            is_marked.append(any(b'"to": "b"' in (record.key or b"") for record in cluster.log))
            commit_without_look(still, reports)

    cluster.client.moment = wake
    with pytest.raises(PrefixChangedError, match=r"batch 1 .*under .*=a "):
        run_batch(driver(cluster, "b"), cluster, 1)
    assert is_marked == [True]
    run_batch(driver(cluster, "a"), cluster, 1)
    run_batch(driver(cluster, "a"), cluster, 2)
    run_batch(driver(cluster, "b"), cluster, 3)
    assert Counter(cluster.committed) == expected(range(4))


def commit_without_look(side: DriverSide, reports: list[TaskReport]) -> None:
    """As a driver that has looked before it stood still."""
    with patch.object(_commit, "find_written", lambda *_: BatchElsewhere([], is_known=True)):
        side.commit(reports)
