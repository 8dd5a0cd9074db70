"""A broker says that a topic is created a moment before its logs are. A test with librdkafka has to wait."""

from __future__ import annotations

from benchmarks import output
from benchmarks.inputs import make_topic

from tests import judge

PARTITIONS = 200


def test_the_judge_waits_for_the_logs(bootstrap: str, topic_name: str) -> None:
    judge.create_topic(bootstrap, topic_name, partitions=PARTITIONS)
    assert judge.offsets_of(bootstrap, topic_name) == dict.fromkeys(range(PARTITIONS), (0, 0))
    judge.delete_topic(bootstrap, topic_name)


def test_a_topic_of_the_benchmark_has_its_logs(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, PARTITIONS)
    assert output.ends(bootstrap, topic_name) == dict.fromkeys(range(PARTITIONS), 0)
    judge.delete_topic(bootstrap, topic_name)
