"""The exactly-once sink from a user's options, without Spark: the driver's half and one task.

Runs in tests only.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.client.settings import connection_settings
from penstock.options.config import SinkConfig
from penstock.options.parse import parse_write
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.driver_side import DriverSide, ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from tests import judge
from tests.kafka.source_runs import read_batch

QUERY = "6f7a2c1e"
VALUES = [b"%d" % number for number in range(5)]


def sink_of(options: dict[str, str]) -> SinkConfig:
    """The sink of options in either dialect; the topic is the prefix."""
    once = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": options["topic"]}
    return parse_write({**options, **once}).sink


def driver_of(sink: SinkConfig) -> DriverSide:
    connection = connection_settings(sink.properties, client_id="test")
    return driver_side(ExactlyOnceSettings(connection, sink.transactional_id_prefix or ""))


def write_task(sink: SinkConfig, mandate: Mandate, values: Sequence[bytes] = VALUES) -> TaskReport:
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    return write_in_transaction(sink, mandate, TaskAttempt(QUERY, 0, 0, 0), [rows])


def check_write_and_read(bootstrap: str, options: dict[str, str]) -> None:
    """Write a batch exactly once and read it, with these options; the judge comes in by `bootstrap`."""
    topic, sink = options["topic"], sink_of(options)
    mandate = driver_of(sink).recover()
    driver_of(sink).commit([write_task(sink, mandate)])
    assert [each.value for each in judge.consume_until(bootstrap, topic, len(VALUES))] == VALUES
    topic_to_read = "topic" if "properties.bootstrap.servers" in options else "subscribe"
    reading = {name: text for name, text in options.items() if name != "topic"} | {topic_to_read: topic}
    assert [row.value for row in read_batch(reading)] == VALUES
