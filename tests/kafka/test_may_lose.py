"""Older producers that may lose records because the user asked for it: they really lose, and they say so."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client.produce.pool import close_kept_producers
from penstock.devbroker import DevCluster
from penstock.errors import ProduceError
from penstock.flink import SimpleStringSchema
from penstock.flink.legacy import FlinkKafkaProducer09
from penstock.options.config import SinkConfig
from penstock.options.parse import parse_write
from penstock.options.warn import forget_warnings
from penstock.sink.writer import write_rows
from tests import judge
from tests.fix_broker import MakeTopic
from tests.waiting import wait_until

LARGE = b"x" * 2_000


@pytest.fixture(autouse=True)
def no_producer_left() -> Iterator[None]:
    close_kept_producers()
    forget_warnings()
    yield
    close_kept_producers()


def producer(bootstrap: str, topic: str) -> FlinkKafkaProducer09:
    properties = {
        "bootstrap.servers": bootstrap,
        "batch.size": "1",  # a batch for each record
        "linger.ms": "0",
        "request.timeout.ms": "1500",
        "delivery.timeout.ms": "1500",
    }
    return FlinkKafkaProducer09(topic, SimpleStringSchema(), properties)


def config(made: FlinkKafkaProducer09, *, is_batch: bool = False) -> SinkConfig:
    """Return what Spark gives to the tasks of this producer."""
    return parse_write(made.sink(is_batch=is_batch).options).sink


def rows(*values: bytes) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})]


def written(bootstrap: str, topic: str) -> list[bytes | None]:
    return sorted(record.value or b"" for record in judge.consume_all(bootstrap, topic))  # type: ignore[return-value]


def test_failures_that_are_only_logged(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(1, config={"max.message.bytes": "1000"})
    with pytest.raises(ProduceError, match="MESSAGE_TOO_LARGE"):
        write_rows(config(producer(bootstrap, topic), is_batch=True), rows(b"1", LARGE, b"2"))
    made = producer(bootstrap, topic).set_flush_on_checkpoint(True)
    loses = config(made.set_log_failures_only(True))
    for _ in range(2):  # the kept producer goes on
        write_rows(loses, rows(b"3", LARGE, b"4", LARGE))
    assert [value for value in written(bootstrap, topic) if value in (b"3", b"4", LARGE)] == [
        b"3",
        b"3",
        b"4",
        b"4",
    ]
    said = [record for record in caplog.records if "0 are LOST" in record.getMessage()]
    assert len(said) == 4
    assert all(record.levelno == logging.ERROR for record in said)
    assert f"1 records for {topic}-0 are LOST" in said[0].getMessage()
    assert said[0].getMessage().endswith("They were not written.")
    assert "MESSAGE_TOO_LARGE" in said[0].getMessage()


def test_a_write_without_a_flush_may_lose_what_it_reported_as_written(
    mortal_broker: DevCluster, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap, topic = mortal_broker.bootstrap_servers, make_topic(1, cluster=mortal_broker)
    loses = config(producer(bootstrap, topic))
    said = [record for record in caplog.records if "so records may be LOST" in record.getMessage()]
    assert len(said) == 1
    write_rows(loses, rows(b"1"))
    wait_until(lambda: written(bootstrap, topic) == [b"1"], "the record arrives by itself")
    mortal_broker.pause()
    write_rows(loses, rows(b"2"))  # it returns, although no broker can have the record
    mortal_broker.kill()
    wait_until(lambda: "may be LOST" in caplog.text, "the loss is logged")
    mortal_broker.restart()
    assert written(bootstrap, topic) == [b"1"]

    def continues() -> bool:
        write_rows(loses, rows(b"3"))  # on a busy machine this one may be lost too, after 1.5 s
        return b"3" in written(bootstrap, topic)

    wait_until(continues, "a new producer continues")
    assert {*written(bootstrap, topic)} == {b"1", b"3"}
