"""A query that is a shadow writes neither under the prefix of the other query nor into its topics."""

from __future__ import annotations

import json

import pytest

from penstock.errors import DecisionLogError, PrefixTakenError, QueryEndedError
from penstock.sink.exactly_once._log_records import NEVER_REACHED, decode, encode, key_of
from penstock.sink.exactly_once.by_hand import TransactionTools
from penstock.sink.exactly_once.decision import EndReason, shadow
from penstock.sink.exactly_once.log import SNAPSHOT_EVERY_OFFSETS, DecisionLog
from penstock.sink.exactly_once.names import TransactionNames
from tests.unit.fake_driver import PREFIX, QUERY, driver, expected, run_task, run_tasks
from tests.unit.sink_cluster import TARGET, SinkCluster

SHADOW = "shadow-1"


def _tools(cluster: SinkCluster) -> TransactionTools:
    return TransactionTools(TransactionNames(PREFIX), cluster.transactions, cluster.log_store)


def _with_shadow() -> SinkCluster:
    cluster = SinkCluster()
    driver(cluster).commit(run_tasks(cluster, driver(cluster).recover(), 0))
    _tools(cluster).refuse_shadow(SHADOW, QUERY, "/checkpoints/shadow", [TARGET.topic])
    return cluster


def test_a_shadow_is_refused_before_it_takes_the_prefix_and_the_running_query_is_not_disturbed() -> None:
    cluster = _with_shadow()
    running = driver(cluster)
    reports = run_tasks(cluster, running.recover(), 1)
    for known in ({"stream_id": SHADOW}, {"query_id": SHADOW}):
        with pytest.raises(
            QueryEndedError, match=r"shadow of query query-1: its checkpoint /checkpoints/shadow"
        ):
            driver(cluster).recover(**known)
    running.commit(reports)
    assert not set(expected(range(2))) - set(cluster.committed)


def test_a_shadow_whose_id_only_its_tasks_know_is_refused_there() -> None:
    cluster = _with_shadow()
    mandate = driver(cluster).recover()
    with pytest.raises(QueryEndedError, match="Nothing was written") as caught:
        run_task(cluster, mandate, 1, 0, query_id=SHADOW)
    assert caught.value.facts["reason"] == "shadow"
    # Whatever its tasks have written before, nothing of it is decided.
    reports = [run_task(cluster, mandate, 1, 0)]
    _tools(cluster).refuse_shadow(QUERY, "another", "/checkpoints/late", [TARGET.topic])
    with pytest.raises(QueryEndedError):
        driver(cluster).commit(reports)
    assert sorted(cluster.committed) == sorted(expected(range(1)).elements())


def test_a_shadow_is_refused_under_another_prefix_in_the_same_topics_alone() -> None:
    cluster = _with_shadow()
    side = driver(cluster, "other")
    report = run_task(cluster, side.recover(), 1, 0, query_id=SHADOW)
    with pytest.raises(QueryEndedError, match="may write neither under"):
        side.commit([report])
    (topic,) = report.topics
    assert topic.name == TARGET.topic
    assert sorted(cluster.committed) == sorted(expected(range(1)).elements())


def test_a_shadow_of_an_unknown_prefix_is_refused() -> None:
    with pytest.raises(DecisionLogError, match="has no decision about query query-1"):
        _tools(SinkCluster()).refuse_shadow(SHADOW, QUERY, "/checkpoints/shadow", [TARGET.topic])


def test_it_stays_refused_when_a_start_reads_the_snapshot_alone() -> None:
    cluster = _with_shadow()
    for batch_id in range(1, SNAPSHOT_EVERY_OFFSETS // 4 + 2):
        side = driver(cluster)
        side.commit([run_task(cluster, side.recover(), batch_id, 0)])
    log = DecisionLog(cluster.log_store, PREFIX)
    log.open(create=False)
    assert log.catch_up()[SHADOW].ended is not None
    assert log._contents.through > 0
    with pytest.raises(QueryEndedError):
        driver(cluster).recover(stream_id=SHADOW)
    with pytest.raises(PrefixTakenError):
        cluster_two_drivers(cluster)


def cluster_two_drivers(cluster: SinkCluster) -> None:
    """A newer driver of the running query still fences an older one."""
    older = driver(cluster)
    reports = [run_task(cluster, older.recover(), 99, 0)]
    driver(cluster).recover()
    older.commit(reports)


def test_older_versions_take_an_ended_query_for_one_with_an_older_checkpoint() -> None:
    ended = shadow(SHADOW, QUERY, "/checkpoints/shadow", [TARGET.topic])
    stored = json.loads(encode(ended))
    assert (stored["version"], stored["batch_id"], stored["status"]) == (1, NEVER_REACHED, "finished")
    assert decode(SHADOW, encode(ended)) == ended
    assert ended.ended is not None
    assert ended.ended.reason is EndReason.SHADOW
    assert (
        key_of(PREFIX, SHADOW) == json.dumps({"prefix": PREFIX, "query_id": SHADOW}, sort_keys=True).encode()
    )
