"""Replays that bring other rows, and target topics that disappear, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client.cluster.log_offsets import NewTopic, create_topics, describe_topics
from penstock.client.net.connection import KafkaConnections, close_shared_connections
from penstock.client.settings import ConnectionSettings
from penstock.errors import ProduceError, TargetTopicError, TransactionsInDoubtError
from penstock.options.parse import parse_write
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TargetTopic, TaskReport
from penstock.sink.exactly_once.digest import NO_RECORDS
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from tests import judge
from tests.deaths import Death, die_at
from tests.fix_broker import MakeTopic
from tests.kafka.sink_driver import QUERY, SinkUnderTest

ROWS = [b"a", b"b", b"c"]


@pytest.fixture
def sink(bootstrap: str, make_topic: MakeTopic) -> Iterator[SinkUnderTest]:
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "test-replays")
    connections = KafkaConnections(settings)
    topic = make_topic(1)
    yield SinkUnderTest(settings, connections, topic, prefix=topic)
    connections.close()
    close_shared_connections()
    observe(None)


def write(sink: SinkUnderTest, mandate: Mandate, rows: list[bytes], batch_id: int = 0) -> TaskReport:
    """Do the work of a sink task with these rows."""
    config = parse_write(
        {
            "kafka.bootstrap.servers": ",".join(sink.settings.bootstrap_servers),
            "topic": sink.topic,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": sink.prefix,
        }
    ).sink
    batch = pa.record_batch({"value": pa.array(rows, pa.binary())})
    return write_in_transaction(
        config, mandate, TaskAttempt(QUERY, batch_id, 0, 0), [batch.slice(0, 1), batch.slice(1)]
    )


def recreate(sink: SinkUnderTest) -> None:
    judge.delete_topic(",".join(sink.settings.bootstrap_servers), sink.topic)
    create_topics(sink.connections, {sink.topic: NewTopic(1, 1)})


def values(sink: SinkUnderTest, bootstrap: str) -> list[bytes | None]:
    return [record.value for record in judge.consume_all(bootstrap, sink.topic)]


def test_task_reports_what_it_drains_and_what_it_wrote_into(sink: SinkUnderTest, bootstrap: str) -> None:
    with sink.driver() as side:
        first = write(sink, side.recover(), ROWS)
        assert first.committable is not None
        assert first.drained == NO_RECORDS
        topic_id = describe_topics(sink.connections, [sink.topic])[sink.topic].topic_id
        assert first.topics == (TargetTopic(sink.topic, str(topic_id)),)
        side.commit([first])
        again = write(sink, side.recover(), [b"c", b"a", b"b"])
        assert (again.committable, again.topics) == (None, ())
        assert again.drained == first.committable.content
        side.commit([again])
    judge.consume_until(bootstrap, sink.topic, 3)
    assert values(sink, bootstrap) == ROWS


@pytest.mark.promise
def test_replay_with_more_rows_is_an_error(sink: SinkUnderTest, bootstrap: str) -> None:
    with sink.driver() as side:
        side.commit([write(sink, side.recover(), ROWS)])
        more = write(sink, side.recover(), [*ROWS, b"new"])
        with pytest.raises(TransactionsInDoubtError, match="written with 3 records, the replay brought 4"):
            side.commit([more])
        side.abort([more])
    with sink.driver() as side:
        side.commit([write(sink, side.recover(), ROWS)])
        side.commit([write(sink, side.recover(), [b"new"], 1)])
    judge.consume_until(bootstrap, sink.topic, 4)
    assert values(sink, bootstrap) == [*ROWS, b"new"]
    assert not sink.open_ids()


def test_target_that_is_created_again_before_the_commit_is_an_error(
    sink: SinkUnderTest, bootstrap: str
) -> None:
    with sink.driver() as side:
        report = write(sink, side.recover(), ROWS)
        recreate(sink)
        with pytest.raises(TargetTopicError, match=rf"'{sink.topic}' was deleted and created again"):
            side.commit([report])
        side.abort([report])
    with sink.driver() as side:
        mandate = side.recover()
        # The worker still knows the old topic. It reports that, and knows the new topic the next time.
        with pytest.raises(ProduceError, match="deleted and created again"):
            write(sink, mandate, ROWS)
        side.commit([write(sink, side.recover(), ROWS)])
    judge.consume_until(bootstrap, sink.topic, 3)
    assert values(sink, bootstrap) == ROWS


def test_target_that_is_created_again_after_the_decision_stops_the_replay(
    sink: SinkUnderTest, bootstrap: str
) -> None:
    with sink.driver() as side:
        report = write(sink, side.recover(), ROWS)
    die_at(Step.DECIDED)
    with sink.driver() as dying, pytest.raises(Death):
        dying.commit([report])
    recreate(sink)
    with sink.driver() as side:
        replayed = write(sink, side.recover(), ROWS)
        with pytest.raises(TransactionsInDoubtError, match=r"since then topic .* created again"):
            side.commit([replayed])
    assert values(sink, bootstrap) == []
