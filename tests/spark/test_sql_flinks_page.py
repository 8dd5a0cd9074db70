r"""The tables of Flink's page "Apache Kafka SQL Connector", word for word but for brokers, topics, `...` and files.

Each table is written and read. SQL's `\"` stays as the page has it.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic
from tests.guarded_broker import STORE_PASSWORD, STORES
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

KAFKA_TABLE = """
CREATE TABLE KafkaTable (
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING,
  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (
  'connector' = 'kafka',
  'topic' = 'user_behavior',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'testGroup',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'csv'
)
"""
METADATA = """
CREATE TABLE KafkaTable (
  `event_time` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  `partition` BIGINT METADATA VIRTUAL,
  `offset` BIGINT METADATA VIRTUAL,
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'user_behavior',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'testGroup',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'csv'
);
"""
FORMAT_METADATA = """
CREATE TABLE KafkaTable (
  `event_time` TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL,  -- from Debezium format
  `origin_table` STRING METADATA FROM 'value.source.table' VIRTUAL, -- from Debezium format
  `partition_id` BIGINT METADATA FROM 'partition' VIRTUAL,  -- from Kafka connector
  `offset` BIGINT METADATA VIRTUAL,  -- from Kafka connector
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'user_behavior',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'testGroup',
  'scan.startup.mode' = 'earliest-offset',
  'value.format' = 'debezium-json'
);
"""
VALUE_FORMAT = """
CREATE TABLE KafkaTable (
  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING
) WITH (
  'connector' = 'kafka',
  ...

  'format' = 'json',
  'json.ignore-parse-errors' = 'true'
)
"""
KEY_AND_VALUE = """
CREATE TABLE KafkaTable (
  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING
) WITH (
  'connector' = 'kafka',
  ...

  'key.format' = 'json',
  'key.json.ignore-parse-errors' = 'true',
  'key.fields' = 'user_id;item_id',

  'value.format' = 'json',
  'value.json.fail-on-missing-field' = 'false',
  'value.fields-include' = 'ALL'
)
"""
OVERLAPPING = """
CREATE TABLE KafkaTable (
  `k_version` INT,
  `k_user_id` BIGINT,
  `k_item_id` BIGINT,
  `version` INT,
  `behavior` STRING
) WITH (
  'connector' = 'kafka',
  ...

  'key.format' = 'json',
  'key.fields-prefix' = 'k_',
  'key.fields' = 'k_version;k_user_id;k_item_id',

  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY'
)
"""
PLAIN = r"""
CREATE TABLE KafkaTable (
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING,
  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (
  'connector' = 'kafka',
  ...
  'properties.security.protocol' = 'SASL_PLAINTEXT',
  'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required username=\"username\" password=\"password\";'
)
"""
SCRAM = r"""
CREATE TABLE KafkaTable (
  `user_id` BIGINT,
  `item_id` BIGINT,
  `behavior` STRING,
  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
) WITH (
  'connector' = 'kafka',
  ...
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
)
"""
TIME_MS = 1_700_000_000_123
TIME = datetime.fromtimestamp(TIME_MS // 1_000).replace(microsecond=123_000)  # noqa: DTZ006 - see below
"""PySpark gives times of the zone of the machine."""
LTZ = f"TO_TIMESTAMP_LTZ({TIME_MS}, 3)"
BUY = {"user_id": 1, "item_id": 2, "behavior": "buy"}
WRITTEN: list[tuple[str, str, tuple[Any, ...], bytes | None, bytes]] = [
    (KAFKA_TABLE, f"1, 2, 'buy', {LTZ}", (1, 2, "buy", TIME), None, b"1,2,buy"),
    (METADATA, f"{LTZ}, 1, 2, 'buy'", (TIME, 0, 0, 1, 2, "buy"), None, b"1,2,buy"),
    (VALUE_FORMAT, f"{LTZ}, 1, 2, 'buy'", (TIME, 1, 2, "buy"), None, json.dumps(BUY).encode()),
    (
        KEY_AND_VALUE,
        f"{LTZ}, 1, 2, 'buy'",
        (TIME, 1, 2, "buy"),
        b'{"user_id": 1, "item_id": 2}',
        json.dumps(BUY).encode(),
    ),
    (
        OVERLAPPING,
        "7, 1, 2, 8, 'buy'",
        (7, 1, 2, 8, "buy"),
        b'{"version": 7, "user_id": 1, "item_id": 2}',
        b'{"version": 8, "behavior": "buy"}',
    ),
]
"""A table of the page, the values of an INSERT, the row that is read again, and key and value of its record."""


def filled(text: str, servers: str, topic: str, more: str = "") -> str:
    """Put what stands behind `...`, and the broker, topic, files and password of the tests, into an example."""
    start = "'scan.startup.mode' = 'earliest-offset',"
    dots = f"'topic' = 'user_behavior', 'properties.bootstrap.servers' = 'localhost:9092', {start} {more}"
    for theirs, ours in (
        ("...", dots),
        ("localhost:9092", servers),
        ("user_behavior", topic),
        ("/path/to/kafka.client.truststore.jks", str(STORES / "trust.jks")),
        ("/path/to/kafka.client.keystore.jks", str(STORES / "client.p12")),
        ("test1234", STORE_PASSWORD),
    ):
        text = text.replace(theirs, ours)
    return text


def checked(script: Script, values: str) -> list[tuple[Any, ...]]:
    """Insert a row into the table, read the table, and drop it."""
    script("SET 'execution.runtime-mode' = 'batch'; SET 'table.local-time-zone' = 'UTC'")
    script(f"INSERT INTO KafkaTable VALUES ({values})")
    rows = script.rows("SELECT * FROM KafkaTable")
    script("DROP TABLE KafkaTable")
    return rows


def same(found: bytes | None, expected: bytes | None) -> bool:
    """Compare JSON without its spaces, else bytes."""
    if found is None or expected is None or not expected.startswith(b"{"):
        return found == expected
    return bool(json.loads(found) == json.loads(expected))


def test_a_row_is_written_into_the_tables_of_the_page_and_read_again(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    for number, (text, values, row, key, value) in enumerate(WRITTEN):
        topic = make_topic(suffix=str(number), config={"retention.ms": "-1"})
        script(filled(text, bootstrap, topic))
        assert checked(script, values) == [row], text
        (record,) = judge.consume_all(bootstrap, topic)
        assert same(record.key, key), (record.key, text)
        assert same(record.value, value), (record.value, text)
        assert record.timestamp_ms == TIME_MS or text == OVERLAPPING
    # 'json.ignore-parse-errors': a record that is not JSON is left out.
    topic = make_topic(suffix="broken")
    judge.produce(bootstrap, topic, b"nope", json.dumps(BUY).encode())
    script(filled(VALUE_FORMAT, bootstrap, topic))
    rows = "SELECT user_id, item_id, behavior FROM KafkaTable"
    assert script.rows(rows) == [(1, 2, "buy")]
    judge.produce(bootstrap, topic, json.dumps(BUY).encode())
    assert len(script.rows(rows)) == 2, "a second query reads what was written after the first one"


def test_the_metadata_of_debezium_is_read_beside_that_of_kafka(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    source = {"table": "behaviors", "ts_ms": TIME_MS}
    new = BUY | {"behavior": "sell"}
    changes = [
        {"before": None, "after": BUY, "source": source, "op": "c"},
        {"before": BUY, "after": new, "source": source | {"ts_ms": TIME_MS + 1_000}, "op": "u"},
    ]
    judge.produce(bootstrap, topic, *(json.dumps(each).encode() for each in changes))
    script("SET 'table.local-time-zone' = 'UTC'")
    script(filled(FORMAT_METADATA, bootstrap, topic))
    script(
        "CREATE TABLE lines (t TIMESTAMP_LTZ(3), origin_table STRING, p BIGINT, o BIGINT, user_id BIGINT, item_id BIGINT, "
        "behavior STRING) WITH ('connector' = 'print')"
    )
    job = script("INSERT INTO lines SELECT * FROM KafkaTable")[0].job
    job.queries[0].processAllAvailable()
    job.stop()
    first, later = "2023-11-14T22:13:20.123", "2023-11-14T22:13:21.123"
    assert script.lines == [
        f"+I[{first}, behaviors, 0, 0, 1, 2, buy]",
        f"-U[{later}, behaviors, 0, 1, 1, 2, buy]",
        f"+U[{later}, behaviors, 0, 1, 1, 2, sell]",
    ]


def test_a_row_is_written_and_read_with_each_login_of_the_page(
    script: Script, guarded: DevCluster, make_topic: MakeTopic
) -> None:
    for text, listener in ((PLAIN, "SASL"), (SCRAM, "BOTH")):
        topic = make_topic(cluster=guarded, suffix=listener, config={"retention.ms": "-1"})
        script(filled(text, guarded.bootstrap_servers_of(listener), topic, "'format' = 'json',"))
        assert checked(script, f"1, 2, 'buy', {LTZ}") == [(1, 2, "buy", TIME)]
