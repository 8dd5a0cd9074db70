"""Working and failing jobs with secrets; a test searches all that they print and keep.

Run as `python -m tests.spark.secrets_job FOLDER`, with secrets and addresses in the environment. Everything
tells as much as it can: penstock's log at DEBUG, Spark's event log, explained plans, progress, reprs, errors
with tracebacks. Most secrets are references. `DIRECT` is written into options, so Spark has it in its plan.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import KafkaSource
from penstock.metrics import MetricsListener
from tests.fix_spark import spark_settings
from tests.guarded_broker import IDENTITY, JAAS, OAUTH_HANDLER, OAUTH_MODULE, STORES

CHECKPOINT, DIRECT_CHECKPOINT = "checkpoint", "checkpoint-direct"
USER, DIRECT_USER = "API_KEY", "$ConnectionString"
FAILED = "failed as it must"
Options = dict[str, str]


def shared(listener: str) -> Options:
    return {
        "properties.bootstrap.servers": os.environ[f"TEST_{listener}"],
        "properties.ssl.truststore.location": str(STORES / "trust.jks"),
        "properties.ssl.truststore.password": "${env:TEST_STORE_PASSWORD}",
        "properties.default.api.timeout.ms": "20000",
        "topic": os.environ["TEST_TOPIC"],
    }


def password(text: str, user: str = USER) -> Options:
    """Log in with a password."""
    return shared("BOTH") | {
        "properties.security.protocol": "SASL_SSL",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.jaas.config": f'{JAAS["PLAIN"]} required username="{user}" password="{text}";',
    }


def tokens(secret: str) -> Options:
    """Log in with a token of the test's server."""
    return shared("BOTH") | {
        "properties.security.protocol": "SASL_SSL",
        "properties.sasl.mechanism": "OAUTHBEARER",
        "properties.sasl.login.callback.handler.class": OAUTH_HANDLER,
        "properties.sasl.oauthbearer.token.endpoint.url": os.environ["TEST_TOKENS"],
        "properties.sasl.jaas.config": f'{OAUTH_MODULE} required clientId="penstock" '
        f'clientSecret="{secret}";',
    }


def certificate(key_password: str | None) -> Options:
    """Log in with a key in a store, or (None) with a key in an option."""
    store = {
        "ssl.keystore.location": str(STORES / "client.jks"),
        "ssl.keystore.password": "${env:TEST_STORE_PASSWORD}",
        "ssl.key.password": key_password or "",
    }
    given = IDENTITY if key_password is None else store
    return shared("MUTUAL") | {
        "properties.security.protocol": "SSL",
        **{f"properties.{name}": text for name, text in given.items()},
    }


def copy(spark: Any, options: Options, folder: Path, *, shows_plan: bool = True) -> None:
    """Copy the topic, exactly once, by a stream."""
    rows = spark.readStream.format("penstock").options(**options)
    rows = rows.option("scan.startup.mode", "earliest-offset").load().select("key", "value")
    if shows_plan:
        rows.explain(True)
    writer = rows.writeStream.format("penstock").options(**options | {"topic": os.environ["TEST_COPY"]})
    writer = writer.option("sink.delivery-guarantee", "exactly-once")
    writer = writer.option("sink.transactional-id-prefix", folder.name)
    writer = writer.option("sink.commit-log.topic", f"log-of-{folder.name}")
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()
    print(query.recentProgress)  # noqa: T201 - what is searched


def count(spark: Any, options: Options) -> None:
    print("rows:", spark.read.format("penstock").options(**options).load().count())  # noqa: T201 - searched


def fail(job: Callable[[], None]) -> None:
    """Run a job that has to fail, and show all of its error."""
    try:
        job()
    except Exception:  # noqa: BLE001  # whatever is shown is searched
        traceback.print_exc()
        print(FAILED)  # noqa: T201 - the test counts it


def read_bad_records(spark: Any) -> None:
    """Read the topic in a format that it does not have, so that each record becomes a dead letter."""
    letters = {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": os.environ["TEST_DEAD"]}
    rows = spark.read.format("penstock").schema("id STRING").option("format", "json")
    rows.options(**password("${env:TEST_PASSWORD}") | letters).load().collect()


def register(spark: Any, text: str) -> None:
    """Write rows whose schema goes to the Schema Registry."""
    given = {
        "topic": os.environ["TEST_ROWS"],
        "value.format": "avro-confluent",
        "value.avro-confluent.url": os.environ["TEST_REGISTRY"],
        "value.avro-confluent.basic-auth.credentials-source": "USER_INFO",
        "value.avro-confluent.basic-auth.user-info": f"reader:{text}",
    }
    rows = spark.range(1).write.format("penstock").mode("append")
    rows.options(**password("${env:TEST_PASSWORD}") | given).save()


def show_objects(options: Options) -> None:
    """Print what users may print of penstock's own objects."""
    source = KafkaSource.builder().set_topics(os.environ["TEST_TOPIC"])
    for name, text in options.items():
        if name.startswith("properties."):
            source = source.set_property(name.removeprefix("properties."), text)
    print(source, source.build())  # noqa: T201 - what is searched


def run_jobs(spark: Any, folder: Path) -> None:
    copy(spark, password("${env:TEST_PASSWORD}"), folder / CHECKPOINT)
    count(spark, tokens("${env:TEST_CLIENT_SECRET}"))
    count(spark, certificate("${env:TEST_KEY_PASSWORD}"))
    read_bad_records(spark)
    register(spark, "${env:TEST_REGISTRY_PASSWORD}")
    fail(lambda: count(spark, password("${env:TEST_WRONG_PASSWORD}")))
    fail(lambda: copy(spark, password("${env:TEST_NOT_SET}"), folder / "not-set"))
    fail(lambda: count(spark, tokens("${env:TEST_WRONG_PASSWORD}")))
    fail(lambda: count(spark, certificate("${env:TEST_WRONG_PASSWORD}")))
    fail(lambda: register(spark, "${env:TEST_WRONG_PASSWORD}"))


def run_jobs_with_direct_secrets(spark: Any, folder: Path) -> None:
    direct = password(os.environ["TEST_DIRECT"], DIRECT_USER)
    copy(spark, direct, folder / DIRECT_CHECKPOINT, shows_plan=False)
    count(spark, certificate(None))
    for options in (direct, certificate(None)):
        show_objects(options)
    # Without Spark: tests/kafka/test_security_matrix.py has all of these.
    fail(lambda: count(spark, password(os.environ["TEST_WRONG_DIRECT"])))


def main(folder: Path) -> None:
    """Run the jobs."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - lazy

    builder: Any = SparkSession.builder
    (folder / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",  # or nothing is found in it
    }
    for key, value in {**spark_settings(folder), **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    listener = MetricsListener(print)
    spark.streams.addListener(listener)
    run_jobs(spark, folder)
    run_jobs_with_direct_secrets(spark, folder)
    print(listener.latest())  # noqa: T201 - what is searched
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
