"""What is said about the rights on the topic of a write, on the fake Kafka."""

from __future__ import annotations

import logging

import pytest

from penstock.options.parse import parse_write
from penstock.spark import _target_topics as target_topics
from penstock.spark._target_topics import check_target_topic
from penstock.testing import FakeKafka
from penstock.testing.fake.rights import Acl, Rights


@pytest.mark.parametrize("recovers_from_topic", [True, False])
def test_a_right_that_only_a_recovery_needs_is_named_for_writes_that_have_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, recovers_from_topic: bool
) -> None:
    monkeypatch.setattr(target_topics, "_found", set())
    acls = [Acl("*", operation, "TOPIC", "target") for operation in ("WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")]
    with FakeKafka(rights=Rights(acls=acls)) as fake:
        fake.create_topic("target")
        config = parse_write({
            "properties.bootstrap.servers": fake.bootstrap_servers, "topic": "target",
            "sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p",
        }).sink  # fmt: skip
        with caplog.at_level(logging.WARNING):
            check_target_topic(config, "topic", recovers_from_topic=recovers_from_topic)
    assert ("may not READ topic 'target'" in caplog.text) is recovers_from_topic
