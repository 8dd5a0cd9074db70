"""The end of a bounded read, the size of a batch, and what read_committed sees, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from penstock.errors import OffsetOutOfRangeError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judge import Record
from tests.kafka.source_cases import collect, flink, positions, produce
from tests.kafka.source_runs import Query, Row, read_batch
from tests.waiting import wait_until


@pytest.mark.parametrize("end", ["a commit marker", "aborted records", "a compaction gap"])
def test_a_bounded_read_ends_by_position_whatever_lies_at_the_end(
    end: str, bootstrap: str, make_topic: MakeTopic
) -> None:
    """TestConsumingTransactionalMessage [FLINK-34470]."""
    topic = make_topic()
    judge.produce_in_transaction(bootstrap, topic, b"a", b"b", transactional_id=f"{topic}-1")
    if end == "aborted records":
        judge.produce_in_transaction(
            bootstrap, topic, b"c", b"d", transactional_id=f"{topic}-2", is_committed=False
        )
    if end == "a compaction gap":
        judge.delete_records(bootstrap, topic, {0: 3})
    options = flink(bootstrap, topic) | {
        "scan.bounded.mode": "latest-offset",
        "properties.isolation.level": "read_committed",
    }
    expected = [] if end == "a compaction gap" else [b"a", b"b"]
    assert [row.value for row in read_batch(options)] == expected
    query = Query(options)
    assert [row.value for row in query.run()] == expected
    assert query.run() == []


def test_a_restored_bounded_query_ends_where_it_would_have(bootstrap: str, make_topic: MakeTopic) -> None:
    """[FLINK-31006] Flink hangs."""
    topic = make_topic(2)
    produce(bootstrap, topic, 10)
    query = Query(flink(bootstrap, topic) | {"scan.bounded.mode": "latest-offset"})
    query.options |= {"scan.max-records-per-batch": "4"}
    with query.running() as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        first = [row for split in reader.partitions(start, end) for row in reader.read(split)]
        assert sum(batch.num_rows for batch in first) == 4
        query.checkpoint.append(end)
    produce(bootstrap, topic, 10)
    produce(bootstrap, topic, 5, partition=1)
    assert positions(query.run()) == {0: [4, 5, 6, 7, 8, 9]}
    assert query.run() == []


def test_a_bounded_query_over_nothing_ends(bootstrap: str, topic_name: str) -> None:
    options = {
        "properties.bootstrap.servers": bootstrap,
        "topic-pattern": f"{topic_name}.*",
        "scan.bounded.mode": "latest-offset",
    }
    assert read_batch(options) == []
    assert Query(options).run() == []


def test_deleted_records_before_the_stop_leave_nothing_to_read(bootstrap: str, make_topic: MakeTopic) -> None:
    """testKafkaSourceEmptyResultOnDeletedOffsets: start 1, stop 3, all below 3 deleted."""
    topic = make_topic()
    produce(bootstrap, topic, 5)
    judge.delete_records(bootstrap, topic, {0: 3})
    options = flink(bootstrap, topic) | {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:0,offset:1",
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": "partition:0,offset:3",
    }
    for read in (read_batch, lambda given: Query(given).run()):
        with pytest.raises(OffsetOutOfRangeError) as raised:
            read(options)
        facts = raised.value.facts
        assert (facts["topic"], facts["partition"], facts["offset"]) == (topic, 0, 1)
        assert facts["log_start_offset"] == 3
        assert read(options | {"scan.on-data-loss": "continue"}) == []


# ----- rate


def test_a_batch_holds_about_as_many_bytes_as_the_user_wants(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    large = [Record(b"x" * 1_000, partition=0) for _ in range(100)]
    small = [Record(b"x" * 100, partition=1) for _ in range(100)]
    judge.produce(bootstrap, topic, *large, *small, config={"linger.ms": 50})
    query = Query(flink(bootstrap, topic) | {"scan.max-bytes-per-batch": "22 kb"})
    assert len(query.run()) == 200
    firsts = query.checkpoint[0][topic]
    assert 15 <= firsts["0"] <= 25, "a fifth of 110 kB"
    assert 15 <= firsts["1"] <= 25
    assert 4 <= len(query.checkpoint) <= 8


# ----- isolation


@pytest.fixture
def open_transaction(bootstrap: str, make_topic: MakeTopic) -> Iterator[tuple[str, Producer]]:
    """A topic with two records, and three more in a transaction that is not decided."""
    topic = make_topic()
    produce(bootstrap, topic, 2)
    producer = judge.transactional_producer(bootstrap, f"open-{topic}")
    producer.begin_transaction()
    judge.send(producer, topic, [b"open"] * 3)
    judge.flush(producer)
    yield topic, producer
    producer.abort_transaction(30)


def test_latest_under_read_committed_is_the_last_stable_offset_at_the_start(
    bootstrap: str, open_transaction: tuple[str, Producer]
) -> None:
    topic, producer = open_transaction
    query = Query(flink(bootstrap, topic) | {"scan.startup.mode": "latest-offset"})
    query.options |= {"properties.isolation.level": "read_committed"}
    assert query.run() == []
    producer.commit_transaction(30)
    rows: list[Row] = []
    wait_until(lambda: collect(rows, query.run()) == 3, "the records that were open at the start")
    assert {row.value for row in rows} == {b"open"}
    producer.begin_transaction()


def test_latest_under_read_committed_is_the_last_stable_offset_at_the_stop(
    bootstrap: str, open_transaction: tuple[str, Producer]
) -> None:
    topic, _ = open_transaction
    options = flink(bootstrap, topic) | {"scan.bounded.mode": "latest-offset"}
    for level, count in (("read_committed", 2), ("read_uncommitted", 5)):
        given = options | {"properties.isolation.level": level}
        query = Query(given)
        assert (len(read_batch(given)), len(query.run())) == (count, count)
        (stop,) = (key for key in query.checkpoint[-1] if " stop " in key)
        assert f'"0":{count}' in stop
