"""The scripts, the orders that they read, and the rows that they must give.

Invariants: both systems get the same text. The rows that a script must give are computed in plain Python from
the numbers of the orders. Orders of each topic partition are in the order of their times, so none is late.
The last order of each topic partition is a day later. It closes all windows of the others in Spark, where the
windows at the end of a bounded stream stay open. Its own window does not count.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from benchmarks.inputs import BATCH_ROWS, PARTITION_COUNT

Rows = Counter[tuple[Any, ...]]
START_MS = 1_735_700_040_000  # a whole minute
STEP_MS, WINDOW_MS, LATER_MS = 10, 60_000, 86_400_000
SHOPS, CUSTOMERS, AMOUNTS = 50, 9_973, 977
TOP = 3
_DIGIT = 3  # of the ids that the filter keeps

ORDERS = """
CREATE TABLE orders (
  id BIGINT,
  shop STRING,
  customer STRING,
  amount DECIMAL(10, 2),
  ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '{source}',
  'properties.bootstrap.servers' = '{servers}',
  'properties.max.partition.fetch.bytes' = '8388608',
  'properties.fetch.max.bytes' = '67108864',
  'properties.max.poll.records' = '10000',
  'properties.fetch.max.wait.ms' = '10',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);
"""
_TARGET = """
CREATE TABLE target ({columns}) WITH (
  'connector' = 'kafka',
  'topic' = '{{target}}',
  'properties.bootstrap.servers' = '{{servers}}',
  'properties.linger.ms' = '20',
  'properties.batch.size' = '262144',
  'properties.compression.type' = 'lz4',
  'format' = '{format}'
);
"""
_FILTER = f"INSERT INTO target SELECT id, customer, amount FROM orders WHERE MOD(id, 10) = {_DIGIT}"
_WINDOWS = """
INSERT INTO target
SELECT window_start, shop, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, shop
"""
_TOP = f"""
INSERT INTO target
SELECT customer, id, amount FROM (
  SELECT customer, id, amount, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS place
  FROM orders
) WHERE place <= {TOP}
"""
FIRST_ROW = f"SELECT id, customer, amount FROM orders WHERE MOD(id, 10) = {_DIGIT}"
"""The query of the small script. It gives a row, whatever the topic partition that is read first."""


@dataclass(frozen=True)
class Script:
    """Tables and an INSERT.

    Attributes:
        tables: the statements before the INSERT.
        insert: the statement that is timed.
        expected: makes the rows that must be in the target from the number of orders.
        share: one in so many of the run's records is read.
    """

    tables: str
    insert: str
    expected: Callable[[int], Rows]
    share: int = 1

    def statements(self, **names: str) -> list[str]:
        """Return the statements, with `servers`, `source` and `target` filled in."""
        return split(f"{self.tables.format(**names)}{self.insert}")


def split(text: str) -> list[str]:
    """Return the statements of a script that has no ; in a text."""
    return [each.strip() for each in text.split(";") if each.strip()]


def amount(number: int) -> Decimal:
    """Return the amount of an order."""
    return Decimal(number % AMOUNTS) + Decimal("0.25")


def _customer(number: int) -> str:
    return f"customer-{number % CUSTOMERS:05d}"


def _shop(number: int) -> str:
    return f"shop-{number % SHOPS:02d}"


def _value(number: int) -> bytes:
    return (
        f'{{"id":{number},"shop":"{_shop(number)}","customer":"{_customer(number)}",'
        f'"amount":{amount(number)}}}'
    ).encode()


def orders(count: int) -> Iterator[pa.RecordBatch]:
    """Make the orders, and the later one of each topic partition, which the filter and the Top-N ignore."""
    for first in range(0, count, BATCH_ROWS):
        numbers = range(first, min(first + BATCH_ROWS, count))
        yield _batch([_value(number) for number in numbers], numbers, 0)
    closing = b'{"id":-%d,"shop":"none","customer":"none-%d","amount":0}'
    numbers = range(count, count + PARTITION_COUNT)
    yield _batch([closing % (number * 10, number) for number in numbers], numbers, LATER_MS)


def byte_count(count: int) -> int:
    """Return the bytes of the values of that many orders, to a thousandth."""
    sample = range(0, count, max(1, count // 1_000))
    return count * sum(len(_value(number)) for number in sample) // len(sample)


def _batch(values: list[bytes], numbers: range, later_ms: int) -> pa.RecordBatch:
    times_ms = [START_MS + number * STEP_MS + later_ms for number in numbers]
    return pa.record_batch(
        {
            "value": pa.array(values),
            "partition": pa.array([number % PARTITION_COUNT for number in numbers], pa.int32()),
            "timestamp": pa.array(times_ms, pa.timestamp("ms", tz="UTC")),
        }
    )


def filtered(count: int) -> Rows:
    """Return the rows of the filter."""
    return Counter((number, _customer(number), amount(number)) for number in range(_DIGIT, count, 10))


def windows(count: int) -> Rows:
    """Return the rows of the windows."""
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for number in range(count):
        found = sums[number * STEP_MS // WINDOW_MS, number % SHOPS]
        found[0] += 1
        found[1] += number % AMOUNTS
    return Counter(
        (_time(window), f"shop-{shop:02d}", rows, total + rows * Decimal("0.25"))
        for (window, shop), (rows, total) in sums.items()
    )


def _time(window: int) -> str:
    start_s = (START_MS + window * WINDOW_MS) // 1_000
    return datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def top(count: int) -> Rows:
    """Return the largest orders of each customer."""
    found: Rows = Counter()
    for first in range(min(CUSTOMERS, count)):
        numbers = sorted(range(first, count, CUSTOMERS), key=lambda number: (-(number % AMOUNTS), number))
        found.update((_customer(number), number, amount(number)) for number in numbers[:TOP])
    return found


def rows_of(values: list[bytes]) -> Rows:
    """Return the rows of a target after all changes, without those of the later orders."""
    found: Rows = Counter()
    for value in values:
        message = json.loads(value, parse_float=Decimal)
        changes = [(message, 1)]
        if "op" in message:
            changes = [(message["before"], -1), (message["after"], 1)]
        for row, change in changes:
            if row is not None and "none" not in str(row.get("shop", row.get("customer"))):
                found[tuple(row.values())] += change
    return Counter({row: times for row, times in found.items() if times})


def _script(columns: str, insert: str, expected: Callable[[int], Rows], format: str, share: int) -> Script:
    return Script(ORDERS + _TARGET.format(columns=columns, format=format), insert, expected, share)


_SOLD = "customer STRING, id BIGINT, amount DECIMAL(10, 2)"
SCRIPTS = {
    "filter": _script(
        "id BIGINT, customer STRING, amount DECIMAL(10, 2)", _FILTER, filtered, "json", share=1
    ),
    "window-aggregate": _script(
        "b TIMESTAMP(3), shop STRING, n BIGINT, total DECIMAL(38, 2)", _WINDOWS, windows, "json", share=1
    ),
    "top-n": _script(_SOLD, _TOP, top, "debezium-json", share=4),
}
