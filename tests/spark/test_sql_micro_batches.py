"""Queries over rows that change leave one table, whatever the micro-batches are, and with a restart.

The ranks of a Top-N that leaves out its first rows, null-safe joins, and queries beside OR: on real Spark and a real
broker, beside a plain oracle.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.sql_changes import SALES, event, run, upsert, written
from tests.spark.test_sql import Script, kafka
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

Row = tuple[int, str | None, int | None]
"""id, shop and amount."""
COUNT, SEED = 40, 9
RANKED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC, id) AS n FROM sales WHERE shop IS NOT NULL"
QUERIES = {
    "seconds (shop STRING, id INT, PRIMARY KEY (shop) NOT ENFORCED)": f"SELECT shop, id FROM ({RANKED}) WHERE n = 2",
    "middle (id INT, shop STRING, PRIMARY KEY (id) NOT ENFORCED)": f"SELECT id, shop FROM ({RANKED}) WHERE n BETWEEN 2 AND 3",
    "places (shop STRING, n BIGINT, id INT, PRIMARY KEY (shop, n) NOT ENFORCED)": (
        f"SELECT shop, n, id FROM ({RANKED}) WHERE n > 1 AND n < 4"
    ),
    "partners (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)": (
        "SELECT s.id, COUNT(o.id) FROM sales AS s LEFT JOIN sales AS o ON s.shop IS NOT DISTINCT FROM o.shop AND o.amount > 3 GROUP BY s.id"
    ),
    "found (id INT, PRIMARY KEY (id) NOT ENFORCED)": (
        "SELECT id FROM sales WHERE amount > 7 OR id IN (SELECT amount FROM sales WHERE shop = 'a')"
    ),
    "missing (id INT, PRIMARY KEY (id) NOT ENFORCED)": (
        "SELECT id FROM sales WHERE amount > 7 OR amount NOT IN (SELECT id FROM sales WHERE shop = 'b')"
    ),
    "largest (id INT, PRIMARY KEY (id) NOT ENFORCED)": (
        "SELECT id FROM sales WHERE amount >= ALL (SELECT amount FROM sales WHERE shop = 'c')"
    ),
}


def history() -> tuple[list[bytes], list[Row]]:
    """Return the events of a table, and the rows that they leave."""
    chance, rows = random.Random(SEED), dict[int, Row]()
    events = []
    for _ in range(COUNT):
        number = chance.randrange(16)
        old = rows.pop(number, None)
        new = (number, chance.choice(["a", "a", "b", "c", None]), chance.choice([None, *range(10)]))
        if old is not None and chance.random() < 0.2:
            events.append(event("d", old, None))
            continue
        rows[number] = new
        events.append(event("c" if old is None else "u", old, new))
    return events, list(rows.values())


def places(rows: list[Row]) -> dict[tuple[str, int], int]:
    """Return the id of each rank of a shop."""
    shops = sorted({shop for _, shop, _ in rows if shop is not None})
    found = {}
    for shop in shops:
        group = sorted((row for row in rows if row[1] == shop), key=lambda row: (-lowest(row[2]), row[0]))
        found.update({(shop, rank): row[0] for rank, row in enumerate(group, 1)})
    return found


def lowest(value: int | None) -> int:
    """Return a number for which NULL is the lowest value."""
    return -1 if value is None else value


def is_in(value: int | None, others: Iterable[int | None]) -> bool | None:
    known = [*others]
    if not known or value in {each for each in known if each is not None}:
        return bool(known)
    return None if value is None or None in known else False


def expected(rows: list[Row]) -> dict[str, list[dict[str, Any]]]:
    ranks = places(rows)
    of_shop = {shop: [row for row in rows if row[1] == shop] for _, shop, _ in rows}
    of_c = [amount for _, _, amount in of_shop.get("c", [])]
    found: dict[str, list[dict[str, Any]]] = {
        "seconds": [{"shop": shop, "id": row} for (shop, rank), row in ranks.items() if rank == 2],
        "middle": [{"id": row, "shop": shop} for (shop, rank), row in ranks.items() if rank in (2, 3)],
        "places": [
            {"shop": shop, "n": rank, "id": row} for (shop, rank), row in ranks.items() if rank in (2, 3)
        ],
        "partners": [
            {"id": number, "n": sum(lowest(amount) > 3 for _, _, amount in of_shop[shop])}
            for number, shop, _ in rows
        ],
        "found": [
            {"id": number}
            for number, _, amount in rows
            if lowest(amount) > 7 or is_in(number, (each[2] for each in of_shop.get("a", [])))
        ],
        "missing": [
            {"id": number}
            for number, _, amount in rows
            if lowest(amount) > 7 or is_in(amount, (each[0] for each in of_shop.get("b", []))) is False
        ],
        "largest": [
            {"id": number}
            for number, _, amount in rows
            if all(None not in (amount, each) and lowest(amount) >= lowest(each) for each in of_c)
        ],
    }
    return {name: sorted(each, key=str) for name, each in found.items()}


@pytest.mark.parametrize("batches", [1, 4, pytest.param(COUNT, marks=pytest.mark.long)])
def test_queries_of_changes_leave_one_table_in_any_micro_batches(
    script: Script, bootstrap: str, make_topic: MakeTopic, batches: int
) -> None:
    source = make_topic()
    events, rows = history()
    limit = kafka(
        bootstrap, source, format="debezium-json", scan_max__records__per__batch=str(COUNT // batches)
    )
    script(f"CREATE TABLE sales {SALES} {limit}")
    targets = {}
    for number, columns in enumerate(QUERIES):
        name = columns.partition(" ")[0]
        targets[name] = make_topic(suffix=f"t{number}")
        script(f"CREATE TABLE {columns} {upsert(bootstrap, targets[name])}")
    inserts = "".join(
        f"INSERT INTO {columns.partition(' ')[0]} {query};\n" for columns, query in QUERIES.items()
    )
    parts = [events] if batches == 1 else [events[: COUNT // 2], events[COUNT // 2 :]]
    for part in parts:  # each run continues from the checkpoint of the one before
        judge.produce(bootstrap, source, *part)
        run(script, inserts)
    assert {name: written(bootstrap, topic) for name, topic in targets.items()} == expected(rows)
