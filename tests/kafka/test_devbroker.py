"""The development broker for real: it answers, keeps data, says why it failed, and never stays behind."""

from __future__ import annotations

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic


def test_what_is_written_is_read(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    wanted = [
        judge.Record(b"v", b"k", [("h", b"1"), ("h", None)], partition=2, timestamp_ms=1_700_000_000_000),
        judge.Record(None, b"", partition=0),
        judge.Record(b"", None, partition=2),
    ]
    written = judge.produce(bootstrap, topic, *wanted)
    read = judge.consume_all(bootstrap, topic)
    assert read == sorted(written, key=lambda record: (record.partition or 0, record.offset or 0))
    assert read[1] == judge.Record(b"v", b"k", (("h", b"1"), ("h", None)), 2, 0, 1_700_000_000_000, 0, topic)
    assert (read[0].value, read[0].key) == (None, b"")
    assert judge.offsets_of(bootstrap, topic) == {0: (0, 1), 1: (0, 0), 2: (0, 2)}


def test_aborted_transactions_are_left_out(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    judge.produce_in_transaction(bootstrap, topic, b"a", transactional_id=topic, is_committed=False)
    judge.produce_in_transaction(bootstrap, topic, b"b", transactional_id=topic)
    assert [record.value for record in judge.consume_all(bootstrap, topic)] == [b"b"]
    uncommitted = judge.consume_all(bootstrap, topic, "read_uncommitted")
    assert [record.value for record in uncommitted] == [b"a", b"b"]


def test_three_brokers_replicate(cluster3: DevCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(3, cluster=cluster3)
    described = judge.admin(cluster3.bootstrap_servers).list_topics(topic, timeout=10).topics[topic]
    assert {tuple(sorted(part.replicas)) for part in described.partitions.values()} == {(1, 2, 3)}
    records = [judge.Record(b"%d" % number, partition=number % 3) for number in range(9)]
    judge.produce(cluster3.bootstrap_servers, topic, *records)
    assert len(judge.consume_all(cluster3.bootstrap_servers, topic)) == 9
