"""The topic of the decision log on a real broker: damage to the topic, and how a start reacts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import DecisionLogError, PrefixChangedError
from penstock.sink.exactly_once._probes import Step, observe
from tests import judge
from tests.deaths import Death, die_at
from tests.fix_broker import MakeTopic
from tests.kafka.sink_driver import SinkUnderTest, expected


@pytest.fixture
def sink(bootstrap: str, make_topic: MakeTopic) -> Iterator[SinkUnderTest]:
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "test-log")
    connections = KafkaConnections(settings)
    topic = make_topic(3)
    yield SinkUnderTest(settings, connections, topic, prefix=topic, query_id=topic)
    connections.close()
    observe(None)


def run_batch(sink: SinkUnderTest, batch_id: int, *, dies: bool = False) -> None:
    with sink.driver() as side:
        reports = sink.tasks(side.recover(), batch_id)
        if dies:
            die_at(Step.DECIDED)
        try:
            side.commit(reports)
        except PrefixChangedError:
            side.abort(reports)
            raise


def assert_seen(bootstrap: str, sink: SinkUnderTest, batch_count: int) -> None:
    wanted = expected(batch_count)
    records = judge.consume_until(bootstrap, sink.topic, sum(map(len, wanted.values())))
    assert {at: [each.value for each in records if each.partition == at] for at in wanted} == wanted


def test_prefixes_that_differ_in_a_dot_only_are_told_what_to_do(bootstrap: str, sink: SinkUnderTest) -> None:
    run_batch(replace(sink, prefix=f"{sink.prefix}.a"), 0)
    refused = replace(sink, prefix=f"{sink.prefix}_a")
    with (
        refused.driver() as side,
        pytest.raises(DecisionLogError, match=r"another sink\.transactional-id-prefix"),
    ):
        side.recover()
    assert refused.open_ids() == set()


def set_policy(bootstrap: str, topic: str, policy: str) -> None:
    change = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin = judge.admin(bootstrap)  # kept: one that is collected ends its requests
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def test_log_that_was_cut_back_is_a_decision_logs_error(bootstrap: str, sink: SinkUnderTest) -> None:
    for batch_id in range(2):
        run_batch(sink, batch_id)
    log_topic = f"{sink.prefix}-decisions"
    set_policy(bootstrap, log_topic, "delete")
    judge.delete_records(bootstrap, log_topic, {0: 4})
    set_policy(bootstrap, log_topic, "compact")
    for _ in range(2):
        with (
            sink.driver() as side,
            pytest.raises(DecisionLogError, match="was cut back: it begins at offset 4"),
        ):
            side.recover()
    assert_seen(bootstrap, sink, 2)


def test_prefix_that_is_changed_there_and_back_doubles_nothing(bootstrap: str, sink: SinkUnderTest) -> None:
    other = replace(sink, prefix=f"{sink.prefix}-other")
    run_batch(sink, 0)
    with pytest.raises(Death):
        run_batch(other, 1, dies=True)
    for _ in range(2):
        with pytest.raises(PrefixChangedError, match=f"batch 1 of .* decided under .*={other.prefix} "):
            run_batch(sink, 1)
    run_batch(other, 1)
    for batch_id, side in enumerate([sink, other, sink], start=2):
        run_batch(side, batch_id)
    assert_seen(bootstrap, sink, 5)
    assert sink.open_ids() | other.open_ids() == set()
