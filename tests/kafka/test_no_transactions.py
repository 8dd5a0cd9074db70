"""A topic without transactions is named before an exactly-once write, or when a broker refuses it.

Apache Kafka has no diskless topics yet. Here `preallocate` plays the setting that marks one.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.client.transactions import limits
from penstock.errors import DecisionLogError, NoTransactionsError
from penstock.sink.exactly_once import log_topic
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.spark import _target_topics as target_topics
from penstock.spark._target_topics import check_target_topic
from tests.fix_broker import MakeTopic
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open, sink_config

MARK = "preallocate"
MARKED = {MARK: "true"}


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (limits, log_topic):
        monkeypatch.setattr(module, "NO_TRANSACTIONS", (MARK,))
    monkeypatch.setattr(target_topics, "_found", set())


def test_it_is_refused_before_the_query_writes(
    bootstrap: str, sink: SinkUnderTest, make_topic: MakeTopic
) -> None:
    sink.topic = make_topic(config=MARKED)
    with pytest.raises(NoTransactionsError, match=f"Topic '{sink.topic}' .* {MARK}=true"):
        check_target_topic(sink_config(bootstrap, sink), "topic")
    check_target_topic(sink_config(bootstrap, sink, **{"sink.delivery-guarantee": "at-least-once"}), "topic")
    sink.topic = make_topic()
    check_target_topic(sink_config(bootstrap, sink), "topic")


def test_a_refusal_in_a_task_is_named(bootstrap: str, sink: SinkUnderTest, make_topic: MakeTopic) -> None:
    # A compacted topic refuses records without a key.
    sink.topic = make_topic(config=MARKED | {"cleanup.policy": "compact"})
    rows = pa.record_batch({"value": pa.array([b"x"], pa.binary())})
    config = sink_config(bootstrap, sink)
    with sink.driver() as driver:
        mandate = driver.recover()
    with pytest.raises(NoTransactionsError, match="the broker refused the write"):
        write_in_transaction(config, mandate, TaskAttempt(sink.query_id, 0, 0, 0), [rows])
    assert_none_open(sink)


def test_it_cannot_be_the_decision_log(sink: SinkUnderTest, make_topic: MakeTopic) -> None:
    topic = make_topic(config=MARKED | {"cleanup.policy": "compact"})
    with pytest.raises(DecisionLogError, match=f"expected a topic with transactions, got {MARK}=true"):
        DecisionTopic(sink.connections, topic).check_settings()
