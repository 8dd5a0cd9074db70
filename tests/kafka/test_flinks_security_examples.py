r"""The security examples of Flink's documents, word for word but for broker, files and passwords.

The pages: "Apache Kafka Connector" (DataStream, in Python) and "Apache Kafka SQL Connector". Kerberos has
examples in prose only, see test_kerberos.py. SQL's `\"` is kept as it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import KafkaOffsetsInitializer, KafkaSource
from penstock.client.net.connection import close_shared_connections
from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic
from tests.guarded_broker import STORE_PASSWORD, STORES
from tests.kafka.sink_by_options import check_write_and_read
from tests.kafka.source_runs import read_batch

PLAIN_IN_PYTHON = r"""
KafkaSource.builder() \
    .set_property("security.protocol", "SASL_PLAINTEXT") \
    .set_property("sasl.mechanism", "PLAIN") \
    .set_property("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"username\" password=\"password\";")
"""  # noqa: E501  # word for word
SCRAM_IN_PYTHON = r"""
KafkaSource.builder() \
    .set_property("security.protocol", "SASL_SSL") \
    # SSL configurations
    # Configure the path of truststore (CA) provided by the server
    .set_property("ssl.truststore.location", "/path/to/kafka.client.truststore.jks") \
    .set_property("ssl.truststore.password", "test1234") \
    # Configure the path of keystore (private key) if client authentication is required
    .set_property("ssl.keystore.location", "/path/to/kafka.client.keystore.jks") \
    .set_property("ssl.keystore.password", "test1234") \
    # SASL configurations
    # Set SASL mechanism as SCRAM-SHA-256
    .set_property("sasl.mechanism", "SCRAM-SHA-256") \
    # Set JAAS configurations
    .set_property("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"username\" password=\"password\";")
"""  # noqa: E501  # word for word
PLAIN_IN_SQL = r"""
  'properties.security.protocol' = 'SASL_PLAINTEXT',
  'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required username=\"username\" password=\"password\";'
"""  # noqa: E501  # word for word
SCRAM_IN_SQL = r"""
  'properties.security.protocol' = 'SASL_SSL',
  /* SSL configurations */
  /* Configure the path of truststore (CA) provided by the server */
  'properties.ssl.truststore.location' = '/path/to/kafka.client.truststore.jks',
  'properties.ssl.truststore.password' = 'test1234',
  /* Configure the path of keystore (private key) if client authentication is required */
  'properties.ssl.keystore.location' = '/path/to/kafka.client.keystore.jks',
  'properties.ssl.keystore.password' = 'test1234',
  /* SASL configurations */
  /* Set SASL mechanism as SCRAM-SHA-256 */
  'properties.sasl.mechanism' = 'SCRAM-SHA-256',
  /* Set JAAS configurations */
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.scram.ScramLoginModule required username=\"username\" password=\"password\";'
"""  # noqa: E501  # word for word
OF_THE_SQL_CLIENT = "org.apache.flink.kafka.shaded.org.apache.kafka.common.security.plain.PlainLoginModule"
"""The page of the SQL connector: "the path of plain login module in code snippets above need to be" this."""


@pytest.fixture(autouse=True)
def _no_shared_connections() -> Iterator[None]:
    yield
    close_shared_connections()


def of_tests(text: str) -> str:
    """Put the files and the password of the stores of the tests into an example."""
    text = text.replace("/path/to/kafka.client.truststore.jks", str(STORES / "trust.jks"))
    text = text.replace("/path/to/kafka.client.keystore.jks", str(STORES / "client.p12"))
    return text.replace("test1234", STORE_PASSWORD)


def options_of_sql(text: str) -> dict[str, str]:
    found = dict(re.findall(r"^ *'([^']*)' = '([^']*)',?$", of_tests(text), re.MULTILINE))
    assert len(found) == text.count("' = '")
    return found


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        (PLAIN_IN_SQL, "SASL"),
        (
            PLAIN_IN_SQL.replace(
                "org.apache.kafka.common.security.plain.PlainLoginModule", OF_THE_SQL_CLIENT
            ),
            "SASL",
        ),
        (SCRAM_IN_SQL, "BOTH"),
    ],
    ids=["PLAIN", "PLAIN with the SQL client", "SCRAM"],
)
def test_the_examples_of_sql(guarded: DevCluster, make_topic: MakeTopic, text: str, listener: str) -> None:
    topic_options = {
        "topic": make_topic(cluster=guarded),
        "properties.bootstrap.servers": guarded.bootstrap_servers_of(listener),
    }
    check_write_and_read(guarded.bootstrap_servers, topic_options | options_of_sql(text))


@pytest.mark.parametrize(
    ("text", "listener"), [(PLAIN_IN_PYTHON, "SASL"), (SCRAM_IN_PYTHON, "BOTH")], ids=["PLAIN", "SCRAM"]
)
def test_the_examples_of_pyflink(
    guarded: DevCluster, make_topic: MakeTopic, text: str, listener: str
) -> None:
    """The page has comments after backslashes, which is not Python. Brackets replace the backslashes."""
    topic = make_topic(cluster=guarded)
    judge.produce(guarded.bootstrap_servers, topic, b"1")
    builder: Any = eval("(" + re.sub(r" \\$", "", of_tests(text), flags=re.MULTILINE) + ")")  # noqa: S307 - the page's text
    assert isinstance(builder, type(KafkaSource.builder()))
    builder.set_bootstrap_servers(guarded.bootstrap_servers_of(listener)).set_topics(topic)
    source = builder.set_bounded(KafkaOffsetsInitializer.latest()).build()
    assert [row.value for row in read_batch(dict(source.options))] == [b"1"]
