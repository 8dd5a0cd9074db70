"""A broker says that a topic is made a moment before its logs are: who asks librdkafka then has to wait."""

from __future__ import annotations

from benchmarks import output
from benchmarks.inputs import make_topic
from confluent_kafka.admin import NewTopic

from tests import judge

PARTITIONS = 200


def test_the_judge_waits_for_the_logs(bootstrap: str, topic_name: str) -> None:
    new_topic = NewTopic(topic_name, num_partitions=PARTITIONS, replication_factor=-1)
    client = judge.admin(bootstrap)
    client.create_topics([new_topic], operation_timeout=30)[topic_name].result(30)
    judge.wait_for_leaders(bootstrap, topic_name, PARTITIONS)
    assert judge.offsets_of(bootstrap, topic_name) == dict.fromkeys(range(PARTITIONS), (0, 0))


def test_a_topic_of_the_benchmark_has_its_logs(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, PARTITIONS)
    assert output.ends(bootstrap, topic_name) == dict.fromkeys(range(PARTITIONS), 0)
