"""Scenarios of logs: Produce, Fetch, ListOffsets, epochs, producers' sequence numbers."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest

from penstock.client.net import error_codes as codes
from penstock.codec import scan_batches
from tests import judge
from tests.judge import Record
from tests.records import CORNERS, many
from tests.scenarios.cluster import NOW_MS, Cluster, Produced, batch, scenario

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OK = codes.NO_ERROR


def new_producer(cluster: Cluster) -> int:
    """Return the id of a new idempotent producer."""
    code, producer_id = cluster.init_idempotent()
    assert code == OK
    return producer_id


@scenario
def records_come_back_as_they_were_written(cluster: Cluster) -> None:
    topic = cluster.topic(3, retention_ms="-1")
    written: list[Record] = []
    for codec in ALL_CODECS:
        config = {"compression.type": codec, "linger.ms": 5}
        for chunk in (CORNERS, many(50, partition=1)):
            written += judge.produce(cluster.bootstrap_servers, topic, *chunk, config=config)
    expected = {(it.partition, it.offset): (it.key, it.value, tuple(it.headers)) for it in written}
    found = judge.consume_all(cluster.bootstrap_servers, topic)
    assert {(it.partition, it.offset): (it.key, it.value, tuple(it.headers)) for it in found} == expected


@scenario
def batches_are_kept_one_after_another(cluster: Cluster) -> None:
    topic = cluster.topic()
    assert cluster.produce(topic, batch(b"a", b"b")) == (OK, 0)
    assert cluster.produce(topic, batch(b"c", compression="zstd")) == (OK, 2)
    fetched = cluster.fetch(topic)
    assert (fetched.error_code, fetched.high_watermark, fetched.last_stable_offset) == (OK, 3, 3)
    assert scan_batches(bytes(fetched.records), topic, 0).next_offset == 3
    inside = cluster.fetch(topic, 1)
    assert bytes(inside.records).startswith(b"\0" * 8), "the whole batch comes from its first record on"
    at_end = cluster.fetch(topic, 3)
    assert (at_end.error_code, bytes(at_end.records or b"")) == (OK, b"")


@scenario
def an_offset_outside_of_the_log_is_refused(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.produce(topic, batch(b"a"))
    cluster.produce(topic, batch(b"b"))
    judge.delete_records(cluster.bootstrap_servers, topic, {0: 1})
    assert cluster.fetch(topic, 0).error_code == codes.OFFSET_OUT_OF_RANGE
    assert cluster.fetch(topic, 3).error_code == codes.OFFSET_OUT_OF_RANGE
    first = cluster.fetch(topic, 1)
    assert (first.error_code, first.log_start_offset, first.high_watermark) == (OK, 1, 2)


@scenario
def a_fetch_keeps_to_its_limits_but_for_a_first_batch(cluster: Cluster) -> None:
    large, small = cluster.topic(), cluster.topic()
    for topic, size in ((large, 5_000), (small, 10)):
        for _ in range(3):
            cluster.produce(topic, batch(b"x" * size))
    answers = cluster.fetch_all({large: 0, small: 0}, max_bytes=1)
    assert scan_batches(bytes(answers[large].records), large, 0).next_offset == 1
    assert not answers[small].records
    answers = cluster.fetch_all({large: 0, small: 0}, partition_max_bytes=6_000)
    assert scan_batches(bytes(answers[large].records), large, 0).next_offset == 1
    assert scan_batches(bytes(answers[small].records), small, 0).next_offset == 3


@scenario
def a_fetch_waits_for_records(cluster: Cluster) -> None:
    topic = cluster.topic()
    with ThreadPoolExecutor(1) as pool, cluster.another() as reader:
        waiting = pool.submit(reader.fetch, topic, max_wait_ms=20_000)
        assert cluster.produce(topic, batch(b"a")) == (OK, 0)
        began = time.monotonic()
        assert waiting.result().records
        assert time.monotonic() - began < 15


@scenario
def a_fetch_waits_no_longer_than_it_was_told(cluster: Cluster) -> None:
    topic, began = cluster.topic(), time.monotonic()
    passing = threading.Timer(0.2, cluster.pass_time, [1_000])
    passing.start()
    assert not cluster.fetch(topic, max_wait_ms=300).records
    assert time.monotonic() - began > 0.15
    passing.join()


@scenario
def what_does_not_exist_is_said(cluster: Cluster) -> None:
    there = cluster.topic()
    assert cluster.fetch("not-there").error_code == codes.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.list_offset("not-there", -1).error_code == codes.UNKNOWN_TOPIC_OR_PARTITION
    answer = cluster.list_offset(there, -1, partition_index=7)
    assert answer.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION


@scenario
def a_topic_is_fetched_by_its_id(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.produce(topic, batch(b"a"))

    def code(topic_id: object) -> tuple[int, int]:
        kind = FetchRequest.FetchTopic
        part = kind.FetchPartition(
            partition=0, current_leader_epoch=-1, fetch_offset=0, last_fetched_epoch=-1, log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )  # fmt: skip
        request = FetchRequest(
            replica_id=-1, max_wait_ms=1, min_bytes=1, max_bytes=1 << 20, isolation_level=0, session_id=0,
            session_epoch=-1, topics=[kind(topic_id=topic_id, partitions=[part])], forgotten_topics_data=[],
            rack_id="", min_version=13,
        )  # fmt: skip
        ((answer,),) = [of.partitions for of in cluster.ask(request, cluster.leader(topic)).responses]
        return answer.error_code, len(answer.records or b"")

    first = cluster.topic_id(topic)
    assert code(first)[0] == OK
    assert code(first)[1] > 0
    judge.delete_topic(cluster.bootstrap_servers, topic)
    judge.create_topic(cluster.bootstrap_servers, topic)
    assert cluster.topic_id(topic) != first
    assert code(first) == (codes.UNKNOWN_TOPIC_ID, 0)
    assert code(cluster.topic_id(topic)) == (OK, 0)


@scenario
def a_leader_epoch_that_is_not_the_present_one_is_refused(cluster: Cluster) -> None:
    topic = cluster.topic()
    assert cluster.fetch(topic, epoch=0).error_code == OK
    assert cluster.fetch(topic, epoch=9).error_code == codes.UNKNOWN_LEADER_EPOCH
    answer = cluster.list_offset(topic, -1, current_leader_epoch=9)
    assert answer.error_code == codes.UNKNOWN_LEADER_EPOCH


@scenario
def offsets_are_found_by_time_and_by_the_ends_of_the_log(cluster: Cluster) -> None:
    topic = cluster.topic(retention_ms="-1")

    def found(timestamp: int) -> tuple[int, int]:
        answer = cluster.list_offset(topic, timestamp)
        assert answer.error_code == OK
        return answer.offset, answer.timestamp

    assert found(-1) == found(-2) == (0, -1)
    assert found(NOW_MS) == found(-3) == (-1, -1)
    cluster.produce(topic, batch(b"a", b"b", b"c", times_ms=[NOW_MS, NOW_MS + 10, NOW_MS + 5]))
    cluster.produce(topic, batch(b"d", times_ms=[NOW_MS + 20], compression="gzip"))
    assert found(-1) == (4, -1)
    assert found(0) == found(NOW_MS) == (0, NOW_MS)
    assert found(NOW_MS + 1) == found(NOW_MS + 10) == (1, NOW_MS + 10)
    assert found(NOW_MS + 11) == found(-3) == (3, NOW_MS + 20)
    assert found(NOW_MS + 21) == (-1, -1)
    judge.delete_records(cluster.bootstrap_servers, topic, {0: 2})
    assert found(-2) == (2, -1)


@scenario
def the_end_of_a_leader_epoch_is_told(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.produce(topic, batch(b"a", b"b"))

    def end(epoch: int, known: int = -1) -> tuple[int, int, int]:
        kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        part = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=known, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[kind(topic=topic, partitions=[part])], min_version=3
        )
        answer = cluster.ask(request, cluster.leader(topic)).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end(0) == (OK, 0, 2)
    assert end(5) == (OK, -1, -1)
    assert end(0, known=3)[0] == codes.UNKNOWN_LEADER_EPOCH


@scenario
def bad_batches_are_refused(cluster: Cluster) -> None:
    topic = cluster.topic(max_message_bytes="2000")
    damaged = bytearray(batch(b"value"))
    damaged[-1] ^= 1
    assert cluster.produce(topic, bytes(damaged)).code == codes.CORRUPT_MESSAGE
    assert cluster.produce(topic, batch(b"x" * 3_000)).code == codes.MESSAGE_TOO_LARGE
    assert cluster.produce(topic, batch(b"a"), acks=2).code == codes.INVALID_REQUIRED_ACKS
    compacted = cluster.topic(cleanup_policy="compact")
    assert cluster.produce(compacted, batch(b"no key")).code == codes.INVALID_RECORD
    assert cluster.produce(compacted, batch(b"a", b"b", keys=[b"k", b"l"], compression="lz4")) == (OK, 0)
    assert cluster.list_offset(topic, -1).offset == 0


@scenario
def records_get_the_time_of_the_append_if_the_topic_says_so(cluster: Cluster) -> None:
    topic = cluster.topic(message_timestamp_type="LogAppendTime")
    cluster.produce(topic, batch(b"a", b"b", times_ms=[1_000, 2_000], compression="zstd"))
    records = judge.consume_all(cluster.bootstrap_servers, topic)
    assert {record.timestamp_type for record in records} == {1}
    assert min(record.timestamp_ms or 0 for record in records) >= NOW_MS
    assert [record.value for record in records] == [b"a", b"b"]


# ----- idempotence


@scenario
def a_batch_that_is_sent_again_is_acknowledged_and_not_written(cluster: Cluster) -> None:
    topic, producer_id = cluster.topic(), new_producer(cluster)
    sent = [batch(b"%d" % number, producer=(producer_id, 0, number)) for number in range(7)]
    assert [cluster.produce(topic, each) for each in sent] == [(OK, offset) for offset in range(7)]
    assert [cluster.produce(topic, each) for each in sent[2:]] == [(OK, offset) for offset in range(2, 7)]
    assert cluster.produce(topic, sent[1]) == Produced(codes.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert cluster.values(topic) == [b"%d" % number for number in range(7)]


@scenario
def a_gap_in_the_sequence_is_refused(cluster: Cluster) -> None:
    topic, producer_id = cluster.topic(), new_producer(cluster)
    assert cluster.produce(topic, batch(b"a", b"b", producer=(producer_id, 0, 0))) == (OK, 0)
    skipped = cluster.produce(topic, batch(b"d", producer=(producer_id, 0, 3)))
    assert skipped == Produced(codes.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert cluster.produce(topic, batch(b"c", producer=(producer_id, 0, 2))) == (OK, 2)


@scenario
def the_sequence_begins_again_after_its_last_number(cluster: Cluster) -> None:
    topic, producer_id, last = cluster.topic(), new_producer(cluster), (1 << 31) - 1
    assert cluster.produce(topic, batch(b"a", producer=(producer_id, 0, last))) == (OK, 0)
    assert cluster.produce(topic, batch(b"b", producer=(producer_id, 0, 0))) == (OK, 1)


@scenario
def an_epoch_begins_with_sequence_0_and_ends_the_older_ones(cluster: Cluster) -> None:
    topic, producer_id = cluster.topic(), new_producer(cluster)
    assert cluster.produce(topic, batch(b"a", producer=(producer_id, 1, 5))) == (OK, 0)
    later = cluster.produce(topic, batch(b"b", producer=(producer_id, 2, 6)))
    assert later.code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.produce(topic, batch(b"b", producer=(producer_id, 2, 0))) == (OK, 1)
    older = cluster.produce(topic, batch(b"c", producer=(producer_id, 1, 6)))
    assert older.code == codes.INVALID_PRODUCER_EPOCH
    assert cluster.values(topic) == [b"a", b"b"]
