"""Several queries under one prefix: the warning before the first batch, and who is named in the error."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from penstock.errors import NewQueryError, PrefixChangedError, PrefixTakenError
from penstock.sink.exactly_once._prefix_users import taken_error
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX, DecisionStatus
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.mandate import KnownBatch
from tests.deaths import Death, die_at
from tests.unit.fake_driver import PREFIX, driver, run_task
from tests.unit.sink_cluster import SinkCluster

FINISHED = DecisionStatus.FINISHED


def run_batch(
    cluster: SinkCluster,
    query_id: str,
    batch_id: int,
    *,
    prefix: str = PREFIX,
    side: DriverSide | None = None,
) -> None:
    side = side or driver(cluster, prefix)
    is_write = query_id.startswith((BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX))
    mandate = side.recover(query_id if is_write else None)
    side.commit([run_task(cluster, mandate, batch_id, 0, query_id=query_id)])


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_new_checkpoint_under_a_known_prefix_is_told_once_before_it_is_visible(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SinkCluster()
    for batch_id in range(3):
        run_batch(cluster, "older", batch_id)
    assert not warnings_of(caplog)
    visible: list[int] = []
    seen = logging.Handler()
    seen.handle = lambda record: visible.append(len(cluster.committed)) or True  # type: ignore[method-assign, func-returns-value]
    logging.getLogger("penstock").addHandler(seen)
    try:
        run_batch(cluster, "newer", 0)
    finally:
        logging.getLogger("penstock").removeHandler(seen)
    assert visible == [3], "before the first batch can be seen"
    for batch_id in range(3):
        run_batch(cluster, "newer", batch_id)
    run_batch(cluster, "older", 3)
    (warning,) = warnings_of(caplog)
    for part in ("Query newer", f"prefix={PREFIX}", "older, whose batch 2 is finished since 20", "+00:00"):
        assert part in warning
    assert "startup mode's offsets and may write again what the older query wrote" in warning


def test_warning_names_the_newest_of_several_older_queries(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SinkCluster()
    for at, query_id in enumerate(["b", "c", "a"]):
        run_batch(cluster, query_id, 10 + at)
    assert "another query has written under it: c, whose batch 11 is finished" in warnings_of(caplog)[-1]
    assert warnings_of(caplog)[-1].count(", and 1 more before") == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"{BATCH_WRITE_PREFIX}1", "stream"),
        (f"{NAMED_WRITE_PREFIX}1", "stream"),
        ("stream", f"{BATCH_WRITE_PREFIX}1"),
        ("stream", f"{NAMED_WRITE_PREFIX}1"),
        (f"{NAMED_WRITE_PREFIX}1", f"{NAMED_WRITE_PREFIX}2"),
    ],
)
def test_batch_writes_neither_warn_nor_count_as_older_queries(
    caplog: pytest.LogCaptureFixture, first: str, second: str
) -> None:
    cluster = SinkCluster()
    run_batch(cluster, first, 0)
    run_batch(cluster, second, 0)
    assert not warnings_of(caplog)


def test_query_that_comes_from_another_prefix_is_not_new(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SinkCluster()
    run_batch(cluster, "older", 0, prefix="b")
    run_batch(cluster, "moving", 0, prefix="a")
    run_batch(cluster, "moving", 1, prefix="b")
    assert not warnings_of(caplog)


def test_batch_of_a_changed_prefix_is_refused_and_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SinkCluster()
    run_batch(cluster, "older", 0, prefix="b")
    run_batch(cluster, "moving", 0, prefix="a")
    with pytest.raises(PrefixChangedError):
        run_batch(cluster, "moving", 0, prefix="b")
    assert not warnings_of(caplog)


def strict(cluster: SinkCluster) -> DriverSide:
    return driver(cluster, fails_on_new_query=True)


def test_a_new_query_on_a_known_prefix_may_fail_each_time_and_writes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SinkCluster()
    run_batch(cluster, "older", 0, side=strict(cluster))
    written = len(cluster.committed)
    for _ in range(2):
        side = strict(cluster)
        reports = [run_task(cluster, side.recover(), 0, 0, query_id="newer")]
        with pytest.raises(
            NewQueryError, match=r"^Not written, because sink.on-new-query = fail\..*older, whose"
        ):
            side.commit(reports)
        side.abort(reports)
        assert len(cluster.committed) == written
    run_batch(cluster, "older", 1, side=strict(cluster))
    run_batch(cluster, "newer", 0)
    run_batch(cluster, "newer", 1, side=strict(cluster))
    assert len(warnings_of(caplog)) == 1, "of the batch that was allowed"


def test_a_start_that_failed_under_another_prefix_makes_no_query_known() -> None:
    """It leaves a trace in its log, because it searches for the query. A trace does not count."""
    cluster = SinkCluster()
    run_batch(cluster, "older", 0)
    run_batch(cluster, "other", 0, prefix="b")
    for prefix in ("b", PREFIX, "b"):
        side = driver(cluster, prefix, fails_on_new_query=True)
        reports = [run_task(cluster, side.recover(), 0, 0, query_id="newer")]
        with pytest.raises(NewQueryError):
            side.commit(reports)
        side.abort(reports)
    assert len(cluster.committed) == 2


def test_what_does_not_warn_does_not_fail() -> None:
    cluster = SinkCluster()
    run_batch(cluster, f"{BATCH_WRITE_PREFIX}1", 0, side=strict(cluster))
    run_batch(cluster, "stream", 0, side=strict(cluster))
    run_batch(cluster, f"{NAMED_WRITE_PREFIX}1", 0, side=strict(cluster))
    run_batch(cluster, "moving", 0, prefix="a")
    run_batch(cluster, "moving", 1, side=strict(cluster))


# ----- who has taken the prefix


def taken(cluster: SinkCluster, query_id: str, batch_id: int, *, by: str, its_batch: int) -> PrefixTakenError:
    """A batch that another writer overtakes between its tasks and its commit."""
    side = driver(cluster)
    reports = [run_task(cluster, side.recover(), batch_id, 0, query_id=query_id)]
    run_batch(cluster, by, its_batch)
    with pytest.raises(PrefixTakenError) as raised:
        side.commit(reports)
    return raised.value


def test_other_query_is_named_by_the_one_that_it_stops() -> None:
    cluster = SinkCluster()
    run_batch(cluster, "mine", 0)
    error = taken(cluster, "mine", 1, by="other", its_batch=7)
    assert (
        "two queries use the same sink.transactional-id-prefix: query other, whose batch 7" in error.message
    )
    assert "older driver" not in error.message
    assert error.facts["other_query_id"] == "other"
    assert error.facts["query_id"] == "mine"


def test_other_query_is_named_in_the_first_batch_too() -> None:
    error = taken(SinkCluster(), "mine", 0, by="other", its_batch=7)
    assert "Either two queries use the same sink.transactional-id-prefix: query other, whose batch 7" in str(
        error
    )
    assert "older driver" in error.message, "the other query may have ended long ago"


@pytest.mark.parametrize("its_batch", [1, 2])
def test_another_driver_of_the_query_is_told_from_another_query(its_batch: int) -> None:
    cluster = SinkCluster()
    run_batch(cluster, "mine", 0)
    run_batch(cluster, "older", 5)
    error = taken(cluster, "mine", 1, by="mine", its_batch=its_batch)
    assert f"It is another driver of the same query: batch {its_batch} is finished since" in error.message
    assert "two queries" not in error.message
    assert "other_query_id" not in error.facts


def test_own_decision_is_not_taken_for_another_drivers() -> None:
    cluster = SinkCluster()
    side = driver(cluster)
    reports = [run_task(cluster, side.recover(), 0, 0, query_id="mine")]

    def overtake(step: Step) -> None:
        if step is Step.DECIDED:
            observe(None)
            driver(cluster).recover()

    observe(overtake)
    with pytest.raises(PrefixTakenError, match="It was decided before") as raised:
        side.commit(reports)
    assert "another driver of the same query:" not in raised.value.message
    assert "two queries use the same" in raised.value.message


def test_start_that_is_overtaken_tells_who_wrote_last() -> None:
    cluster = SinkCluster()
    run_batch(cluster, "other", 0)
    die_at(Step.DECIDED)
    with pytest.raises(Death):
        run_batch(cluster, "other", 1)
    observe(lambda step: _recover(cluster) if step is Step.BEFORE_FINISHING_OLD else None)
    with pytest.raises(
        PrefixTakenError, match=r"The last query that wrote under it was other, whose batch 1 is"
    ):
        driver(cluster).recover()


def _recover(cluster: SinkCluster) -> None:
    observe(None)
    driver(cluster).recover()


def test_task_names_the_other_query_from_what_recovery_has_read() -> None:
    known = {"mine": KnownBatch(4, FINISHED, at_ms=1_000), "other": KnownBatch(7, FINISHED, at_ms=2_000)}
    error = taken_error("app", "it wrote", "Nothing.", known=known, query_id="mine", batch_id=5)
    assert "query other, whose batch 7 is finished since 1970-01-01T00:00:02+00:00" in error.message
    # A replay of a decided batch does not show another driver.
    error = taken_error("app", "it wrote", "Nothing.", known=known, query_id="mine", batch_id=4)
    assert "another driver of the same query:" not in error.message
    # Nor is a batch that was withdrawn, when it is written again.
    known = {"mine": replace(known["mine"], status=DecisionStatus.WITHDRAWN)}
    error = taken_error(
        "app", "it wrote", "Nothing.", known=known, query_id="mine", batch_id=4, is_written=True
    )
    assert "Either this is an older driver" in error.message
