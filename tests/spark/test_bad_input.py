"""Mistakes of users: each one is a clear error in bounded time, and never a hang or a silent jump."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.devbroker import DevCluster
from penstock.errors import OptionError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.guarded_broker import LIMITED, LIMITED_PASSWORD, login, properties_for
from tests.spark.queries import QUERY_TIMEOUT_S, read_batch, read_stream, stopped

# Shorter than the defaults, which are minutes, so that the tests are quick.
PATIENCE = {"kafka.default.api.timeout.ms": "4000", "kafka.request.timeout.ms": "3000"}
BOUND_S = 60


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < BOUND_S, "the error came, but too late"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is bound, so that no other process gets it, and that does not answer."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that accepts connections and never answers, like that of a wrong service."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


@pytest.mark.parametrize("port", ["closed_port", "deaf_port"])
def test_no_broker_in_a_batch_read(spark: SparkSession, request: pytest.FixtureRequest, port: str) -> None:
    server = f"127.0.0.1:{request.getfixturevalue(port)}"
    rows = read_batch(spark, "penstock", {"kafka.bootstrap.servers": server, "subscribe": "t", **PATIENCE})
    with pytest.raises(Exception, match=server):
        rows.collect()


def test_no_broker_in_a_stream(spark: SparkSession, closed_port: int, tmp_path: Path) -> None:
    server = f"127.0.0.1:{closed_port}"
    rows = read_stream(spark, "penstock", {"kafka.bootstrap.servers": server, "subscribe": "t", **PATIENCE})
    start = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with stopped(start.start()) as query, pytest.raises(Exception, match=server):
        query.awaitTermination(QUERY_TIMEOUT_S)


def test_no_broker_in_a_write(spark: SparkSession, closed_port: int) -> None:
    server = f"127.0.0.1:{closed_port}"
    writer = spark.range(3).selectExpr("CAST(id AS STRING) AS value").coalesce(1).write.format("penstock")
    short = {"kafka.max.block.ms": "3000", "kafka.delivery.timeout.ms": "4000", **PATIENCE}
    writer = writer.options(**{"kafka.bootstrap.servers": server, "topic": "t", **short})
    with pytest.raises(Exception, match=server):
        writer.mode("append").save()


@pytest.mark.parametrize(
    ("subscription", "complaint"),
    [
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic'"),
        ({"assign": '{"no-such-topic": [0]}'}, "topic partition no-such-topic-0"),
    ],
)
def test_an_unknown_topic(
    spark: SparkSession, bootstrap: str, subscription: dict[str, str], complaint: str
) -> None:
    rows = read_batch(spark, "penstock", {"kafka.bootstrap.servers": bootstrap, **subscription})
    with pytest.raises(Exception, match=f"Not on the Kafka cluster: {complaint}"):
        rows.collect()


def test_an_unknown_topic_in_a_stream(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "no-such-topic"}
    start = read_stream(spark, "penstock", options).writeStream.format("noop")
    query = start.option("checkpointLocation", str(tmp_path)).start()
    with stopped(query), pytest.raises(Exception, match="Not on the Kafka cluster: topic 'no-such-topic'"):
        query.awaitTermination(QUERY_TIMEOUT_S)


EXACTLY_ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "nowhere"}


@pytest.mark.parametrize("guarantee", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
def test_a_missing_target_topic_is_found_before_any_task(
    spark: SparkSession, bootstrap: str, guarantee: dict[str, str]
) -> None:
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    options = {"properties.bootstrap.servers": bootstrap, "topic": "no-such-topic", **guarantee}
    with pytest.raises(Exception, match="Topic 'no-such-topic' of option 'topic' does not exist") as caught:
        rows.write.format("penstock").options(**options).mode("append").save()
    assert "in stage" not in str(caught.value), "as Spark says it of a failed task"


@pytest.mark.promise
def test_a_missing_target_topic_of_a_stream_is_found_before_any_task(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    rows = read_stream(spark, "penstock", {"kafka.bootstrap.servers": bootstrap, "subscribe": make_topic()})
    start = (
        rows.select("value")
        .writeStream.format("penstock")
        .options(**{"kafka.bootstrap.servers": bootstrap, "topic": "no-such-topic"})
    )
    query = start.option("checkpointLocation", str(tmp_path)).start()
    with (
        stopped(query),
        pytest.raises(Exception, match="Topic 'no-such-topic' of option 'topic' does not exist"),
    ):
        query.awaitTermination(QUERY_TIMEOUT_S)


def test_a_partition_that_does_not_exist(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    options = {"kafka.bootstrap.servers": bootstrap, "assign": json.dumps({topic: [0, 2]})}
    with pytest.raises(Exception, match=f"topic partition {topic}-2"):
        read_batch(spark, "penstock", options).collect()


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ({"startingOffsets": 2}, "needs offset 2, but the first offset that Kafka still has is 5"),
        ({"startingOffsets": 99}, r"needs offset 99, but Kafka has only \[5, 10\)"),
        ({"endingOffsets": 99, "startingOffsets": 5}, "ends at offset 99, but Kafka has nothing from 10 on"),
    ],
)
def test_offsets_that_are_not_there(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, bounds: dict[str, int], complaint: str
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, *[b"v"] * 10)
    judge.delete_records(bootstrap, topic, {0: 5})
    given = {key: json.dumps({topic: {"0": offset}}) for key, offset in bounds.items()}
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **given}
    with pytest.raises(Exception, match=complaint):
        read_batch(spark, "penstock", options).collect()
    allowed = read_batch(spark, "penstock", {**options, "failOnDataLoss": "false"})
    wanted = range(5, 10) if bounds["startingOffsets"] != 99 else range(0)
    assert [row.offset for row in allowed.collect()] == list(wanted)


def test_offsets_that_leave_a_partition_out(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"0": 0}}),
    }
    with pytest.raises(Exception, match=f"but not for {topic}-1"):
        read_batch(spark, "penstock", options).collect()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscribe": "t"}, "bootstrap.servers"),
        ({"kafka.bootstrap.servers": "h:1"}, "subscribe"),
        ({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "topic": "t"}, "two dialects"),
        ({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "soon"}, "startingOffsets"),
    ],
)
def test_options_that_make_no_sense(spark: SparkSession, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(Exception, match=complaint):
        read_batch(spark, "penstock", options).collect()


def test_a_secret_is_in_no_error(spark: SparkSession, closed_port: int) -> None:
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{closed_port}",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="u" password="hunter2-secret";'
        ),
        "subscribe": "t",
        **PATIENCE,
    }
    with pytest.raises(Exception, match="127.0.0.1") as caught:  # noqa: RUF043 - dots are dots enough
        read_batch(spark, "penstock", options).collect()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("session", ["spark", "connect_spark"])
def test_a_failed_check_at_the_start_of_an_exactly_once_write_is_said_as_it_is(
    request: pytest.FixtureRequest, bootstrap: str, make_topic: MakeTopic, session: str, tmp_path: Path
) -> None:
    """An error while Spark pickles the writer: Spark would call it a PicklingError."""
    topic = make_topic()
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"p-{topic}",
        "kafka.transaction.timeout.ms": "900001",
    }
    either = request.getfixturevalue(session)
    rows = either.range(3).selectExpr("CAST(id AS STRING) AS value")
    complaint = r"OptionError: Option 'kafka\.transaction\.timeout\.ms' is 900001, but the brokers allow"
    with pytest.raises(Exception, match=complaint) as raised:
        rows.write.format("penstock").options(**options).mode("append").save()
    assert "PicklingError" not in str(raised.value)
    stream = either.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    start = stream.writeStream.format("penstock").options(**options)
    with stopped(start.option("checkpointLocation", str(tmp_path)).start()) as query:
        with pytest.raises(Exception, match=complaint) as raised:
            query.awaitTermination(QUERY_TIMEOUT_S)
        assert "PicklingError" not in str(raised.value)


def as_guest(cluster: DevCluster, password: str = LIMITED_PASSWORD) -> dict[str, str]:
    """Log in as a user without rights."""
    given = properties_for(cluster, "SASL", login("PLAIN", LIMITED[-1], password))
    return {**{f"kafka.{name}": text for name, text in given.items()}, **PATIENCE}


def test_a_topic_that_this_user_may_not_read(
    spark: SparkSession, guarded: DevCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(cluster=guarded)
    rows = read_batch(spark, "penstock", {**as_guest(guarded), "subscribe": topic})
    with pytest.raises(Exception, match=f"(?i)not authori[sz]ed.*{topic}|{topic}.*not authori[sz]ed"):
        rows.collect()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_topic_that_this_user_may_not_write(
    spark: SparkSession, guarded: DevCluster, make_topic: MakeTopic, guarantee: str
) -> None:
    topic = make_topic(cluster=guarded)
    writer = spark.range(5).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS value").write.format("penstock")
    writer = writer.options(**as_guest(guarded)).option("topic", topic)
    writer = writer.option("sink.delivery-guarantee", guarantee).option(
        "sink.transactional-id-prefix", f"p-{topic}"
    )
    with pytest.raises(Exception, match=r"AuthorizationError: "):
        writer.mode("append").save()
    assert judge.consume_all(guarded.bootstrap_servers, topic) == []


def test_a_wrong_password(spark: SparkSession, guarded: DevCluster) -> None:
    options = {**as_guest(guarded, "wrong-secret"), "subscribe": "t"}
    with pytest.raises(Exception, match=r"AuthenticationError.*sasl\.jaas\.config") as caught:
        read_batch(spark, "penstock", options).collect()
    assert "wrong-secret" not in str(caught.value)


def mistaken(mistake: str, bootstrap: str, guarded: DevCluster) -> tuple[dict[str, str], str, str]:
    """Return options of reads with a mistake, the error for each, and the beginning of its message."""
    good = {"properties.bootstrap.servers": bootstrap, "topic": "no-such-topic"}
    wrong_login = {**as_guest(guarded, "wrong-secret"), "subscribe": "t"}
    return {
        "unknown option": (
            good | {"scan.startup.mod": "x"},
            "OptionError",
            "Option 'scan.startup.mod' is not",
        ),
        "missing topic": (good, "UnknownTopicOrPartitionError", "Not on the Kafka cluster: topic"),
        "wrong password": (wrong_login, "AuthenticationError", ""),
        "format without schema": (good | {"format": "json"}, "SchemaError", "A read with a format needs"),
    }[mistake]


def check_readable(error: BaseException, name: str, sentence: str, line_max: int) -> None:
    lines = str(error).splitlines()
    line_number = next(i for i, line in enumerate(lines, 1) if f"penstock.errors.{name}: {sentence}" in line)
    assert line_number <= line_max, f"the sentence is on line {line_number} of:\n{error}"
    reason = penstock.explain_failure(error)
    assert reason is not None
    assert reason.name == f"penstock.errors.{name}"
    assert reason.message.startswith(sentence)
    assert reason.message in lines[line_number - 1], "it holds nothing of Spark's"
    assert reason.message.endswith((".", ")")), reason.message


@pytest.mark.parametrize("session", ["spark", "connect_spark"])
@pytest.mark.parametrize(
    "mistake", ["unknown option", "missing topic", "wrong password", "format without schema"]
)
def test_a_mistake_shows_its_sentence_first(
    request: pytest.FixtureRequest,
    bootstrap: str,
    guarded: DevCluster,
    mistake: str,
    session: str,
    tmp_path: Path,
) -> None:
    either: SparkSession = request.getfixturevalue(session)
    options, name, sentence = mistaken(mistake, bootstrap, guarded)
    with pytest.raises(PySparkException) as caught:
        read_batch(either, "penstock", options).collect()
    check_readable(caught.value, name, sentence, 1)
    with pytest.raises(PySparkException) as caught:
        run_to_its_end(either, options, tmp_path, name, sentence)
    check_readable(caught.value, name, sentence, 1)


def run_to_its_end(
    either: SparkSession, options: dict[str, str], folder: Path, name: str, sentence: str
) -> None:
    """Run a stream. If it starts, the query's exception must be readable too."""
    rows = read_stream(either, "penstock", options)
    start = rows.writeStream.format("noop").option("checkpointLocation", str(folder))
    with stopped(start.start()) as query:
        try:
            query.awaitTermination(QUERY_TIMEOUT_S)
        finally:
            error = query.exception()
            assert error is not None
            check_readable(error, name, sentence, 1)
            assert penstock.explain_failure(query) == penstock.explain_failure(error)


@pytest.mark.promise
@pytest.mark.parametrize("session", ["spark", "connect_spark"])
def test_an_error_of_a_task_shows_its_sentence_first(
    request: pytest.FixtureRequest, bootstrap: str, session: str
) -> None:
    either: SparkSession = request.getfixturevalue(session)
    rows = either.range(1).selectExpr("CAST(id AS STRING) AS value", "'no-such-topic' AS topic")
    writer = rows.write.format("penstock").option("properties.bootstrap.servers", bootstrap)
    with pytest.raises(PySparkException) as caught:
        writer.option("properties.max.block.ms", "2000").mode("append").save()
    # Spark's own line stands above it.
    check_readable(caught.value, "UnknownTopicOrPartitionError", "Topic 'no-such-topic' does not", 3)


def test_an_error_behind_foreach_batch_is_found(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    options = {"properties.bootstrap.servers": bootstrap, "topic": "t", "sink.paralellism": "1"}

    def write(rows: DataFrame, batch_id: int) -> None:
        penstock.write_batch(rows.selectExpr("CAST(value AS STRING) AS value"), batch_id, options)

    start = spark.readStream.format("rate").load().writeStream.foreachBatch(write)
    with stopped(start.option("checkpointLocation", str(tmp_path)).start()) as query:
        with pytest.raises(PySparkException, match="paralellism"):
            query.awaitTermination(QUERY_TIMEOUT_S)
        reason = penstock.explain_failure(query)
    assert reason is not None
    assert reason.error_class is OptionError
    assert reason.message.startswith("Option 'sink.paralellism' is not known.")
    assert "\n" not in reason.message
