"""`client/net/_frames` sends what kafka-python would send, and reads what it would read, in every version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import ProduceRequest

from penstock.client.net._transport import FrameParser
from penstock.testing.fake._wire import Api


@pytest.mark.parametrize("version", range(FetchResponse.min_version, FetchResponse.max_version + 1))
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_fetch_response_is_kafka_pythons_but_its_large_records_are_a_view(version: int, size: int) -> None:
    topic = {"topic": "t", "topic_id": uuid.UUID(int=5)}
    hint = {"leader_id": 2, "leader_epoch": 9}
    partitions = [
        {"partition_index": 0, "records": bytes(size), "aborted_transactions": [], "current_leader": hint},
        {"partition_index": 1, "records": None, "aborted_transactions": None},
        {"partition_index": 2, "records": b"", "aborted_transactions": [{"producer_id": 7}]},
    ]
    wire = Api("Fetch").encode(version, 1, {"responses": [{**topic, "partitions": partitions}] * 2})
    parser = FrameParser(KafkaProtocol(client_id="x", receive_message_max_bytes=1 << 20))
    request = FetchRequest(version=version, topics=[], forgotten_topics_data=[], max_wait_ms=1, min_bytes=1)
    assert parser.send_request(request) == 1
    for first in range(0, len(wire), 4):  # the length comes alone
        wanted = parser.wanted()
        end = min(len(wire), first + 4) if first == 0 else len(wire)
        wanted[:] = wire[first:end]
        parser.advance(end - first)
        if first:
            break
    ((_, response),) = parser.receive_bytes(b"")
    assert response == FetchResponse.decode(wire, version=version, header=True, framed=True)
    records = [each.records for topic in response.responses for each in topic.partitions]
    assert [type(each) for each in records[:3]] == [memoryview if size > 10 else bytes, type(None), bytes]


def a_produce_request(version: int, *records: bytes, transactional_id: str | None = "tx-\u00fc") -> Any:
    topic = ProduceRequest.TopicProduceData
    return ProduceRequest(
        version=version, transactional_id=transactional_id, acks=-1, timeout_ms=30_000,
        topic_data=[
            topic(
                version=version, name=name, topic_id=uuid.UUID(int=number),
                partition_data=[
                    topic.PartitionProduceData(version=version, index=index, records=memoryview(each))
                    for index, each in enumerate(records)
                ],
            )
            for number, name in enumerate(["t" * 200, "u"])
        ],
    )  # fmt: skip


@pytest.mark.parametrize("version", range(ProduceRequest.min_version, ProduceRequest.max_version + 1))
@pytest.mark.parametrize("transactional_id", [None, "", "tx-\u00fc"])
def test_a_produce_request_is_kafka_pythons_but_its_large_records_are_not_copied(
    version: int, transactional_id: str | None
) -> None:
    sizes = [0, 1, 126, 127, 128, 4_095, 4_096, 16_383, 16_384, 300_000]
    records = [bytes([size % 251]) * size for size in sizes]
    parsers = [KafkaProtocol(client_id="me"), FrameParser(KafkaProtocol(client_id="me"))]
    for each in parsers:
        request = a_produce_request(version, *records, transactional_id=transactional_id)
        assert each.send_request(request) == 1
        assert [header.correlation_id for header in each.in_flight_requests] == [1]
    theirs, ours = (each.send_bytes() for each in parsers)
    assert b"".join(ours) == theirs
    assert parsers[1].send_bytes() == []
    own_pieces = [each for each in ours if isinstance(each, memoryview)]
    assert len(own_pieces) == (2 * sum(size >= 4_096 for size in sizes) if version >= 9 else 0)


def test_a_produce_request_without_an_answer_is_not_awaited() -> None:
    parser = FrameParser(KafkaProtocol(client_id="me"))
    request = a_produce_request(13, b"x")
    request.acks = 0
    parser.send_request(request)
    assert not parser.in_flight_requests
