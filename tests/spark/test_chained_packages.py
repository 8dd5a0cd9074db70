"""Packages between two operators: a query continues with them and without, its table is that of Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from penstock.sql.run import _writers
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.sql_changes import table
from tests.spark.test_exchange import printed, run
from tests.spark.test_sql import Script, kafka
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

Row = tuple[Any, ...]

QUERIES = {
    "best": "SELECT shop, item, id, price FROM (SELECT b.shop, a.item, a.id, a.price, ROW_NUMBER() OVER "
    "(PARTITION BY b.shop ORDER BY a.price DESC, a.id) AS n FROM a JOIN b ON a.item = b.item "
    "WHERE a.price BETWEEN b.low AND 18) WHERE n <= 1",
    "tops": "SELECT shop, SUM(top) AS total, COUNT(*) AS items FROM (SELECT b.shop, a.item, MAX(a.price) "
    "AS top FROM a JOIN b ON a.item = b.item GROUP BY b.shop, a.item) GROUP BY shop",
    "sizes": "SELECT n, COUNT(*) AS items, MIN(item) AS item FROM "
    "(SELECT item, COUNT(*) AS n FROM a GROUP BY item) WHERE n <> 3 GROUP BY n",
    "ranks": "SELECT kind, n, COUNT(*) AS items, SUM(price) AS total FROM (SELECT kind, price, ROW_NUMBER() "
    "OVER (PARTITION BY item ORDER BY price DESC, id) AS n FROM a) WHERE n <= 2 GROUP BY kind, n",
    "counts": "SELECT DISTINCT n FROM (SELECT item, COUNT(*) AS n FROM a GROUP BY item)",
    "totals": "SELECT total, COUNT(*) AS shops, MAX(shop) AS shop FROM "
    "(SELECT shop, SUM(amount) AS total FROM c GROUP BY shop) GROUP BY total",
}
"""A Top-N behind a join, a GROUP BY behind a GROUP BY behind a join, a condition on rows that change, a
GROUP BY behind a Top-N, DISTINCT of groups, and a GROUP BY of groups that become empty."""
COLUMNS = {
    "best": "shop STRING, item STRING, id BIGINT, price BIGINT",
    "tops": "shop STRING, total BIGINT, items BIGINT",
    "sizes": "n BIGINT, items BIGINT, item STRING",
    "ranks": "kind INT, n BIGINT, items BIGINT, total BIGINT",
    "counts": "n BIGINT",
    "totals": "total BIGINT, shops BIGINT, shop STRING",
}
BETWEEN = {"best": 1, "tops": 2, "sizes": 1, "ranks": 1, "counts": 1, "totals": 1}
"""How often rows go from one operator to the next."""


class Wanted:
    """The records of the topics, and the tables of QUERIES by plain Python."""

    def __init__(self, made: random.Random) -> None:
        self.made = made
        self.ones: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.there: dict[int, dict[str, Any]] = {}

    def more(self) -> dict[str, list[tuple[int, bytes]]]:
        """Return new records of each topic, with their partitions. All changes of a row are in one."""
        made = self.made
        found: dict[str, list[tuple[int, bytes]]] = {"a": [], "b": [], "c": []}
        for _ in range(40):
            price = None if made.random() < 0.1 else made.randrange(20)
            row = {"id": len(self.ones), "kind": made.randrange(3), "item": self._item(), "price": price}
            self.ones.append(row)
            found["a"].append((made.randrange(2), json.dumps(row).encode()))
            number = made.randrange(30)
            found["c"].append((number % 2, self._change(number)))
        for _ in range(8):
            other = {"item": self._item(), "shop": made.choice(["x", "y", None]), "low": made.randrange(9)}
            self.others.append(other)
            found["b"].append((made.randrange(2), json.dumps(other).encode()))
        return found

    def _item(self) -> str | None:
        return None if self.made.random() < 0.1 else f"i{self.made.randrange(12)}"

    def _change(self, number: int) -> bytes:
        before = self.there.pop(number, None)
        after = None
        if before is None or self.made.random() < 0.5:
            after = {"id": number, "shop": f"s{self.made.randrange(6)}", "amount": self.made.randrange(4)}
            self.there[number] = after
        op = "d" if after is None else "c" if before is None else "u"
        return json.dumps({"op": op, "before": before, "after": after}).encode()

    def tables(self) -> dict[str, list[Row]]:
        pairs = [
            (other, one)
            for one in self.ones
            for other in self.others
            if one["item"] is not None and one["item"] == other["item"]
        ]
        groups: dict[Any, list[dict[str, Any]]] = {}
        for each in self.ones:
            groups.setdefault(each["item"], []).append(each)
        return {
            "best": best(pairs),
            "tops": tops(pairs),
            "sizes": sizes(groups),
            "ranks": ranks(groups),
            "counts": list({(len(rows),) for rows in groups.values()}),
            "totals": self._totals(),
        }

    def _totals(self) -> list[Row]:
        sums: Counter[str] = Counter()
        for each in self.there.values():
            sums[each["shop"]] += each["amount"]
        by_total: dict[int, list[str]] = {}
        for shop, total in sums.items():
            by_total.setdefault(total, []).append(shop)
        return [(total, len(shops), max(shops)) for total, shops in by_total.items()]


def best(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[Row]:
    found: dict[Any, Row] = {}
    for other, one in pairs:
        if one["price"] is None or not other["low"] <= one["price"] <= 18:
            continue
        row = (-one["price"], one["id"], one["item"])
        found[other["shop"]] = min(found.get(other["shop"], row), row)
    return [(shop, item, number, -price) for shop, (price, number, item) in found.items()]


def tops(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[Row]:
    most: dict[tuple[Any, Any], int | None] = {}
    for other, one in pairs:
        prices = [each for each in (most.get((other["shop"], one["item"])), one["price"]) if each is not None]
        most[other["shop"], one["item"]] = max(prices, default=None)
    found: dict[Any, list[int | None]] = {}
    for (shop, _), top in most.items():
        found.setdefault(shop, []).append(top)
    return [(shop, total(each), len(each)) for shop, each in found.items()]


def sizes(groups: dict[Any, list[dict[str, Any]]]) -> list[Row]:
    found: dict[int, list[Any]] = {}
    for item, rows in groups.items():
        if len(rows) != 3:
            found.setdefault(len(rows), []).append(item)
    return [
        (size, len(items), min((each for each in items if each is not None), default=None))
        for size, items in found.items()
    ]


def ranks(groups: dict[Any, list[dict[str, Any]]]) -> list[Row]:
    found: dict[Row, list[int | None]] = {}
    for rows in groups.values():
        ordered = sorted(rows, key=lambda row: (row["price"] is None, -(row["price"] or 0), row["id"]))
        for rank, row in enumerate(ordered[:2], 1):
            found.setdefault((row["kind"], rank), []).append(row["price"])
    return [(*key, len(prices), total(prices)) for key, prices in found.items()]


def total(values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def operators_with_packages(plan: str) -> int:
    """Return how many operators of a plan give their rows in packages."""
    outputs = [line.rpartition("[")[2] for line in plan.splitlines() if "MapInArrow" in line]
    return sum("#package" in each for each in outputs)


def declared(script: Script, bootstrap: str, make_topic: MakeTopic, per_batch: int) -> dict[str, str]:
    """Declare the tables of QUERIES. Return the topics."""
    topics = {name: make_topic(2) for name in "abc"}
    limit = {"scan_max__records__per__batch": str(per_batch), "scan_trigger": "processing-time"}
    changes = kafka(bootstrap, topics["c"], **limit).replace("'json'", "'debezium-json'")
    script(
        f"""
        CREATE TABLE a (id BIGINT, kind INT, item STRING, price BIGINT)
            {kafka(bootstrap, topics["a"], **limit)};
        CREATE TABLE b (item STRING, shop STRING, low BIGINT) {kafka(bootstrap, topics["b"], **limit)};
        CREATE TABLE c (id INT, shop STRING, amount BIGINT) {changes};
        """
    )
    for name in QUERIES:
        script(f"CREATE TABLE {name} ({COLUMNS[name]}) WITH ('connector' = 'print')")
    return topics


def produce_more(bootstrap: str, topics: dict[str, str], wanted: Wanted) -> None:
    for name, records in wanted.more().items():
        made = [judge.Record(value, partition=partition) for partition, value in records]
        judge.produce(bootstrap, topics[name], *made)


def without_packages(patch: pytest.MonkeyPatch) -> None:
    for module in ("_packed", "_chained"):
        patch.setattr(f"penstock.sql.run.{module}.can_pack", lambda _: False)


@pytest.mark.parametrize("per_batch", [4, 1_000])
def test_a_chain_of_operators_continues_with_packages_and_without(
    script: Script, bootstrap: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, per_batch: int
) -> None:
    topics = declared(script, bootstrap, make_topic, per_batch)
    lines: dict[str, list[str]] = {name: [] for name in QUERIES}
    wanted = Wanted(random.Random(per_batch))
    for number in range(4):
        produce_more(bootstrap, topics, wanted)
        with monkeypatch.context() as patch:
            if number % 2:
                without_packages(patch)
            for name, query in QUERIES.items():
                before = len(script.lines)
                _, plan = run(script, f"INSERT INTO {name} {query}")
                lines[name] += script.lines[before:]
                assert operators_with_packages(plan) == (0 if number % 2 else BETWEEN[name]), name
        for name, rows in wanted.tables().items():
            assert table(lines[name]) == sorted(map(printed, rows)), name
    for name in QUERIES:
        assert any(line.startswith("-") for line in lines[name]), f"{name} takes no row back"


@pytest.mark.parametrize("is_first_with_packages", [True, False])
def test_a_batch_is_repeated_with_packages_and_without(
    script: Script,
    bootstrap: str,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    is_first_with_packages: bool,
) -> None:
    """A batch whose states were saved, and which failed then, gives the same table in the other form."""
    topics = declared(script, bootstrap, make_topic, 30)
    wanted, insert = Wanted(random.Random(3)), f"INSERT INTO tops {QUERIES['tops']}"
    for number in range(2):
        produce_more(bootstrap, topics, wanted)
        is_cut_with_packages = is_first_with_packages is (number == 0)
        with monkeypatch.context() as patch:
            patch.setattr(_writers, "_print", fail_after_all_rows)
            if not is_cut_with_packages:
                without_packages(patch)
            [result] = script(insert)
            with pytest.raises(StreamingQueryException, match="the target is not there"):
                result.job.queries[0].processAllAvailable()
            result.job.stop()
        with monkeypatch.context() as patch:
            if is_cut_with_packages:
                without_packages(patch)
            _, plan = run(script, insert)
        assert operators_with_packages(plan) == (0 if is_cut_with_packages else BETWEEN["tops"])
        assert table(script.lines) == sorted(map(printed, wanted.tables()["tops"]))


def fail_after_all_rows(batch: Any, _: Any) -> None:
    assert batch.collect()
    raise OSError("the target is not there")
