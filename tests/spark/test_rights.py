"""On classic PySpark a missing right is found by the driver: no task fails with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

import penstock
from penstock.devbroker import DevCluster
from penstock.errors import AuthorizationError
from tests import judge
from tests.guarded_broker import JAAS, LIMITED, LIMITED_PASSWORD
from tests.spark.queries import QUERY_TIMEOUT_S, read_stream, stopped
from tests.waiting import PATIENCE_S

TOPIC, USER = "guarded", LIMITED[0]


@pytest.fixture(scope="module")
def _may_describe(guarded: DevCluster) -> None:
    """Let the user describe the topic, and no more."""
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    of_user = f"User:{USER}"
    describe = AclBinding(ResourceType.TOPIC, TOPIC, literal, of_user, "*", AclOperation.DESCRIBE, allow)
    admin = judge.admin(guarded.bootstrap_servers)
    for future in admin.create_acls([describe], request_timeout=PATIENCE_S).values():
        future.result(timeout=PATIENCE_S)
    judge.create_topic(guarded.bootstrap_servers, TOPIC)
    judge.produce(guarded.bootstrap_servers, TOPIC, b"x")


@pytest.fixture
def options(guarded: DevCluster, _may_describe: None) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": guarded.bootstrap_servers_of("SASL"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{JAAS["PLAIN"]} required username="{USER}" '
        f'password="{LIMITED_PASSWORD}";',
    }


Run = Callable[[SparkSession, dict[str, str], Path], object]


def read_batch(spark: SparkSession, options: dict[str, str], _: Path) -> object:
    return spark.read.format("penstock").options(**options, subscribe=TOPIC).load().collect()


def read_as_stream(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    stream = read_stream(spark, "penstock", options | {"subscribe": TOPIC})
    start = stream.writeStream.format("noop").option("checkpointLocation", str(folder))
    with stopped(start.trigger(availableNow=True).start()) as query:
        query.awaitTermination(QUERY_TIMEOUT_S)


def write(spark: SparkSession, options: dict[str, str], _: Path) -> None:
    rows = spark.createDataFrame([("x",)], "value STRING")
    rows.write.format("penstock").options(**options, topic=TOPIC).mode("append").save()


def write_exactly_once(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    exactly = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}
    write(spark, options | exactly, folder)


@pytest.mark.parametrize(
    ("run", "right"),
    [(read_batch, "READ"), (read_as_stream, "READ"), (write, "WRITE"), (write_exactly_once, "WRITE")],
)
def test_the_driver_names_the_right(
    spark: SparkSession, options: dict[str, str], tmp_path: Path, run: Run, right: str
) -> None:
    with pytest.raises(Exception, match=f"right {right} on topic '{TOPIC}'") as caught:
        run(spark, options, tmp_path)
    found = penstock.explain_failure(caught.value)
    assert found is not None
    assert found.error_class is AuthorizationError
    assert f"User:{USER}" in found.message
    assert LIMITED_PASSWORD not in str(caught.value)
    assert "stage failure" not in str(caught.value)
