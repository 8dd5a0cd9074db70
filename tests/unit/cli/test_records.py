"""`penstock cat` and `produce` at a fake Kafka: records that real producers rarely write."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from kafka import KafkaProducer
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.testing import FakeKafka

LAST_OF_9999_MS = 253_402_300_799_999
LAST_MS = (2**63 - 1) // 1000


def run(*arguments: str, stdin: str = "") -> str:
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("timestamp_ms", "shown"),
    [
        (LAST_OF_9999_MS, "9999-12-31T23:59:59.999+00:00"),
        (LAST_OF_9999_MS + 1, LAST_OF_9999_MS + 1),
        (LAST_MS, LAST_MS),
    ],
)
def test_a_timestamp_after_the_year_9999_is_a_number(
    timestamp_ms: int, shown: str | int, fake_kafka: FakeKafka, unique_topic: Callable[..., str]
) -> None:
    first, second = unique_topic("first"), unique_topic("second")
    servers = ("--bootstrap-server", fake_kafka.bootstrap_servers)
    for topic in (first, second):
        fake_kafka.create_topic(topic)
    producer = KafkaProducer(bootstrap_servers=fake_kafka.bootstrap_servers)
    producer.send(first, b"late", timestamp_ms=timestamp_ms)
    producer.close()
    assert run("cat", first, *servers) == "late\n"
    assert f"  {shown}  key" in run("cat", first, "--headers", *servers)
    line = run("cat", first, "--json", "--headers", *servers)
    assert json.loads(line)["timestamp"] == shown
    run("produce", second, "--json", *servers, stdin=line)
    assert json.loads(run("cat", second, "--json", *servers))["timestamp"] == shown
