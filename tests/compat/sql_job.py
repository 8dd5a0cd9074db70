"""An SQL job whose checkpoints, states and decisions each release leaves: two queries with six operators.

Invariant: the texts and records of this file never change, because a release has recorded what they make. A
new case is a new job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka import TopicCollection
from pyspark.sql import SparkSession

from penstock.sql.run.session import Session
from penstock.testing import run_to_end
from tests import judge

SOURCES = ("compat-goods", "compat-cities", "compat-orders", "compat-rates")
TARGETS = ("compat-towns", "compat-paid")
DECISIONS = "compat-towns-decisions"
TOPICS = (*SOURCES, *TARGETS, DECISIONS)
REPLAYED = "insert-into_towns"
"""The query that died after its second batch was decided."""

_SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}';
SET 'parallelism.default' = '2';
CREATE TABLE goods (id INT, shop STRING, qty INT, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = 'compat-goods', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'debezium-json');
CREATE TABLE cities (shop STRING, city STRING, PRIMARY KEY (shop) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'compat-cities', 'properties.bootstrap.servers' = '{servers}',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE orders (id INT, shop STRING, qty INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = 'compat-orders', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE rates (
  shop STRING, rate INT, ts TIMESTAMP(3), PRIMARY KEY (shop) NOT ENFORCED, WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'compat-rates', 'properties.bootstrap.servers' = '{servers}',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE towns (city STRING, shop STRING, total BIGINT, PRIMARY KEY (city, shop) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'compat-towns', 'properties.bootstrap.servers' = '{servers}',
  'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'compat-towns');
CREATE TABLE paid (id INT, shop STRING, amount INT) WITH (
  'connector' = 'kafka', 'topic' = 'compat-paid', 'properties.bootstrap.servers' = '{servers}',
  'format' = 'json');
CREATE VIEW once AS SELECT id, shop, qty, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) AS place FROM orders
) WHERE place = 1;
CREATE VIEW totals AS SELECT shop, SUM(qty) AS total FROM (
  SELECT shop, qty FROM goods UNION ALL SELECT shop, qty FROM once
) GROUP BY shop;
"""
_INSERTS = (
    """
INSERT INTO towns SELECT city, shop, total FROM (
  SELECT c.city, t.shop, t.total, ROW_NUMBER() OVER (PARTITION BY c.city ORDER BY t.total DESC) AS place
  FROM totals AS t JOIN cities AS c ON t.shop = c.shop
) WHERE place <= 2;
""",
    """
INSERT INTO paid SELECT o.id, o.shop, o.qty * r.rate
  FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.shop = r.shop;
""",
)


def _change(operation: str, before: tuple[int, str, int] | None, after: tuple[int, str, int] | None) -> bytes:
    rows = [
        None if row is None else dict(zip(("id", "shop", "qty"), row, strict=True)) for row in (before, after)
    ]
    return json.dumps({"before": rows[0], "after": rows[1], "op": operation}).encode()


def _order(number: int, shop: str, qty: int, second: int) -> bytes:
    return json.dumps(
        {"id": number, "shop": shop, "qty": qty, "ts": f"2026-01-01 00:00:{second:02d}"}
    ).encode()


def _keyed(shop: str, **fields: object) -> tuple[bytes, bytes]:
    return json.dumps({"shop": shop}).encode(), json.dumps({"shop": shop, **fields}).encode()


def _rate(shop: str, rate: int, second: int) -> tuple[bytes, bytes]:
    return _keyed(shop, rate=rate, ts=f"2026-01-01 00:00:{second:02d}")


Part = dict[str, list[Any]]
PARTS: tuple[Part, ...] = (
    {
        "compat-goods": [
            _change("c", None, (1, "a", 5)),
            _change("c", None, (2, "b", 7)),
            _change("c", None, (3, "c", 1)),
        ],
        "compat-cities": [_keyed("a", city="Ulm"), _keyed("b", city="Ulm"), _keyed("c", city="Ulm")],
        "compat-orders": [_order(1, "a", 1, 1), _order(2, "b", 2, 2), _order(1, "a", 9, 3)],
        "compat-rates": [_rate("a", 10, 0), _rate("b", 20, 0)],
    },
    {
        "compat-goods": [_change("u", (3, "c", 1), (3, "c", 6)), _change("c", None, (4, "d", 2))],
        "compat-cities": [_keyed("d", city="Bonn")],
        "compat-orders": [_order(3, "a", 3, 5), _order(4, "b", 4, 30)],
        "compat-rates": [_rate("a", 11, 4), _rate("b", 21, 30)],
    },
    {
        "compat-goods": [_change("d", (2, "b", 7), None), _change("u", (1, "a", 5), (1, "a", 8))],
        "compat-cities": [_keyed("d", city="Ulm")],
        "compat-orders": [_order(4, "b", 9, 31), _order(5, "a", 5, 40), _order(6, "b", 6, 55)],
        "compat-rates": [_rate("a", 12, 39), _rate("b", 22, 55)],
    },
)
"""What is in the topics before each batch. A release has recorded the first two batches."""


def create_topics(servers: str) -> None:
    """Create the topics of the job, and that of its decisions."""
    for topic in TOPICS:
        judge.create_topic(
            servers, topic, config={"cleanup.policy": "compact"} if topic == DECISIONS else None
        )


def delete_topics(servers: str) -> None:
    """Delete the topics of the job."""
    for topic in TOPICS:
        judge.delete_topic(servers, topic)


def produce(servers: str, part: Part) -> None:
    """Write the records of a part."""
    for topic, records in part.items():
        judge.produce(servers, topic, *records)


def run(spark: SparkSession, servers: str, folder: Path) -> None:
    """Run the job until all records are read."""
    with _session(spark) as session:
        session.execute(_SCRIPT.format(folder=folder, servers=servers))
        for insert in _INSERTS:
            (result,) = session.execute(insert)
            assert result.job is not None
            for query in result.job.queries:
                run_to_end(query)
            result.job.stop()


@contextmanager
def _session(spark: SparkSession) -> Iterator[Session]:
    session = Session(spark, lambda _: None)
    try:
        yield session
        session.execute("RESET")
    finally:
        session.stop()


def topic_ids(servers: str) -> dict[str, str]:
    """Return the ids that the broker has given to the topics of the job."""
    client = judge.admin(servers)  # held: its futures never end once it is collected
    described = client.describe_topics(TopicCollection(list(TOPICS)))
    ids = {topic: each.result().topic_id for topic, each in described.items()}
    return {
        topic: str(
            UUID(
                int=(each.get_most_significant_bits() % 2**64 << 64)
                + each.get_least_significant_bits() % 2**64
            )
        )
        for topic, each in ids.items()
    }


Row = list[Any]
"""Key and value of a record."""
Written = dict[str, list[Row]]


def written(servers: str) -> Written:
    """Return what is in the targets: key and value of each record, sorted."""
    return {
        topic: sorted(
            [[_parsed(each.key), _parsed(each.value)] for each in judge.consume_all(servers, topic)],
            key=json.dumps,
        )
        for topic in TARGETS
    }


def _parsed(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)
