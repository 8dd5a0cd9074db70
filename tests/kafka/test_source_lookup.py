"""The requests of planning to a real cluster, and how long a broken part may hold up the rest."""

from __future__ import annotations

import time

import pytest

from penstock.devbroker import DevCluster
from penstock.errors import BrokerUnavailableError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel
from penstock.source._lookup import OffsetLookup, Wait
from penstock.source.kafka_lookup import STRAGGLERS_TIMEOUT_MS, KafkaOffsetLookup
from penstock.types import LogEnd, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.records import connected, many

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def test_topics_are_described_and_those_that_do_not_exist_are_left_out(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    with connected(bootstrap) as connections:
        admin: OffsetLookup = KafkaOffsetLookup(connections)
        found = admin.describe_topics([topic, "no-such-topic"])
        everything = admin.describe_topics(None)
    assert found.keys() == {topic}
    assert found[topic].topic_partitions == {TopicPartition(topic, part) for part in range(3)}
    assert topic in everything


def test_both_ends_are_listed_and_what_does_not_exist_hides_nothing(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    judge.produce(bootstrap, topic, *many(5))
    judge.delete_records(bootstrap, topic, {0: 2})
    first, second = (TopicPartition(topic, part) for part in range(2))
    missing = TopicPartition("no-such-topic", 0)
    with connected(bootstrap) as connections:
        admin = KafkaOffsetLookup(connections)
        starts = admin.list_offsets([first, second], LogEnd.EARLIEST, UNCOMMITTED)
        ends = admin.list_offsets([first, second, missing], LogEnd.LATEST, UNCOMMITTED, wait=Wait.FOR_ONE)
    assert starts.values == {first: 2, second: 0}
    assert ends.values == {first: 5, second: 0}
    assert isinstance(ends.errors[missing], UnknownTopicOrPartitionError)
    with pytest.raises(UnknownTopicOrPartitionError):
        ends.all_or_raise("Listing")


def test_a_leaderless_topic_partition_holds_up_the_others_for_a_moment_only(
    cluster3: DevCluster, topic_name: str
) -> None:
    bootstrap, topic = cluster3.bootstrap_servers, topic_name
    judge.create_topic(bootstrap, topic, partitions=3, replication=1)
    wanted = [TopicPartition(topic, part) for part in range(3)]
    cluster3.kill(3)
    with connected(bootstrap, default_api_timeout_ms=6_000) as connections:
        admin = KafkaOffsetLookup(connections)
        started = time.monotonic()
        answers = admin.list_offsets(wanted, LogEnd.LATEST, UNCOMMITTED, wait=Wait.FOR_ONE)
        took_ms = (time.monotonic() - started) * 1000
        assert len(answers.values) == 2
        ((lost, error),) = answers.errors.items()
        assert isinstance(error, BrokerUnavailableError)
        assert took_ms < STRAGGLERS_TIMEOUT_MS + 5_000
        # The next batches know of it. A batch that can continue without an answer never waits long.
        for asked, wait in ((wanted, Wait.FOR_ONE), ([lost], Wait.FOR_NONE)):
            started = time.monotonic()
            again = admin.list_offsets(asked, LogEnd.LATEST, UNCOMMITTED, wait=wait)
            assert again.errors.keys() == {lost}
            assert (time.monotonic() - started) * 1000 < STRAGGLERS_TIMEOUT_MS
        # There is nothing to continue with, so planning waits the whole time-out for a broker to come back.
        started = time.monotonic()
        alone = admin.list_offsets([lost], LogEnd.LATEST, UNCOMMITTED, wait=Wait.FOR_ONE)
        assert alone.errors.keys() == {lost}
        assert time.monotonic() - started > 5
        cluster3.restart(3)
        assert admin.list_offsets(wanted, LogEnd.LATEST, UNCOMMITTED).errors == {}
