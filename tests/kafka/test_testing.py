"""The fixtures and the judge of penstock.testing on the real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.devbroker import DevCluster
from penstock.testing import assert_each_once
from tests import judge


@pytest.mark.promise
def test_the_development_broker_is_a_fixture(dev_kafka: DevCluster, unique_topic: Callable[..., str]) -> None:
    topic, server = unique_topic("orders"), dev_kafka.bootstrap_servers
    judge.create_topic(server, topic, partitions=2)
    judge.produce_in_transaction(server, topic, b"a", b"b", transactional_id=topic)
    judge.produce_in_transaction(server, topic, b"c", transactional_id=topic, is_committed=False)
    assert_each_once(dev_kafka, topic, [b"b", b"a"])
    with pytest.raises(AssertionError, match="1 lost: b'c'"):
        assert_each_once(dev_kafka, topic, [b"a", b"b", b"c"])
