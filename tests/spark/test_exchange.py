"""Packages on real Spark: the partitions are Spark's, and a query continues with packages and without."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.errors import SqlError
from penstock.spark._keyed_frame import partition_expression
from penstock.sql.emit.arrow_rows import text_of_time
from penstock.state.partition_hash import partitions_of
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.sql_changes import table
from tests.spark.test_sql import Script, kafka
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

COUNT = 97
TYPES = {
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "number": "INT",
    "large": "BIGINT",
    "day": "DATE",
    "time": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "text": "STRING",
    "data": "BINARY",
}

BITS = (("tiny", 7), ("small", 15), ("number", 31))


def values(made: random.Random) -> dict[str, Any]:
    """Return a row of random values, some of which are null."""
    text = "".join(made.choice("aZ\u00e4\u20ac\U0001f600\0") for _ in range(made.randrange(9)))
    moment = datetime(1970, 1, 1) + timedelta(microseconds=made.randrange(-(10**16), 10**17))  # noqa: DTZ001 - a local time
    row = {
        "flag": made.random() < 0.5,
        **{
            name: made.randrange(-(2**bits), 2**bits)
            for name, bits in (("tiny", 7), ("small", 15), ("number", 31))
        },
        "large": made.randrange(-(2**63), 2**63),
        "day": date(1970, 1, 1) + timedelta(days=made.randrange(-9_000, 90_000)),
        "time": moment.replace(tzinfo=UTC),
        "local": moment,
        "text": text,
        "data": text.encode() + made.randbytes(made.randrange(5)),
    }
    return {name: None if made.random() < 0.1 else value for name, value in row.items()}


def test_the_partitions_are_those_of_spark(spark: SparkSession) -> None:
    made = random.Random(11)
    rows = [values(made) for _ in range(2_000)]
    schema = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], schema).coalesce(1)
    keys = [[name] for name in TYPES] + [list(TYPES), list(reversed(TYPES))]
    texts = [f"{partition_expression(each, COUNT)} AS p{number}" for number, each in enumerate(keys)]
    found = frame.selectExpr("*", *texts).toArrow().combine_chunks()
    [batch] = found.to_batches()
    for number, each in enumerate(keys):
        assert partitions_of(batch, each, COUNT).tolist() == batch.column(f"p{number}").to_pylist(), each
    assert {pa.types.is_timestamp(batch.schema.field(name).type) for name in ("time", "local")} == {True}


def test_the_days_of_times_are_texts_as_in_spark(spark: SparkSession) -> None:
    made = random.Random(12)
    numbers = [made.randrange(-(10**bits), 10**bits) for bits in (14, 17, 18) for _ in range(700)]
    times = pa.array([*numbers, None], pa.timestamp("us"))
    frame = (
        spark.createDataFrame(pa.table({"x": times})).coalesce(1).selectExpr("x", "CAST(x AS STRING) AS t")
    )
    found = frame.selectExpr(
        "x", "concat(left(t, 4), '/', substring(t, 6, 2), substring(t, 9, 2)) AS t"
    ).toArrow()
    given, wanted = (found.column(name).combine_chunks() for name in ("x", "t"))
    assert text_of_time(((0, 4), "/", (5, 7), (8, 10)))(given).equals(wanted)


QUERIES = {
    "pairs": "SELECT v.id, v.price, b.name FROM v JOIN b ON v.item = b.id WHERE v.kind = 1 AND b.name <> 'x'",
    "triples": "SELECT v.id, b.name, c.name AS other FROM v JOIN b ON v.item = b.id JOIN c ON c.id = v.item "
    "WHERE v.kind = 1 AND b.name <> 'x'",
    "tops": "SELECT item, id, price, n FROM (SELECT item, id, price, ROW_NUMBER() OVER "
    "(PARTITION BY item ORDER BY price DESC, id) AS n FROM v WHERE kind = 1) WHERE n <= 2",
    "firsts": "SELECT item, id, price FROM (SELECT item, id, price, ROW_NUMBER() OVER "
    "(PARTITION BY item ORDER BY ts, id) AS n FROM v) WHERE n = 1",
    "sums": "SELECT item, COUNT(*) AS n, SUM(price) AS total, MIN(price) AS low FROM v "
    "WHERE price <> 3 OR price IS NULL GROUP BY item",
}
COLUMNS = {
    "pairs": "id BIGINT, price BIGINT, name STRING",
    "triples": "id BIGINT, name STRING, other STRING",
    "tops": "item STRING, id BIGINT, price BIGINT, n BIGINT",
    "firsts": "item STRING, id BIGINT, price BIGINT",
    "sums": "item STRING, n BIGINT, total BIGINT, low BIGINT",
}


def wanted(ones: list[dict[str, Any]], others: list[dict[str, Any]]) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the tables of QUERIES by plain Python."""
    names = Counter((each["id"], each["name"]) for each in others if each["name"] not in (None, "x"))
    every = Counter((each["id"], each["name"]) for each in others)
    pairs, triples = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for row in ones:
        row_of = row["o"] or {"item": None, "price": None}
        groups.setdefault(row_of["item"], []).append((row["id"], row_of["price"], row["ts"], row["kind"]))
        for (item, name), count in names.items():
            if row["kind"] == 1 and item is not None and item == row_of["item"]:
                pairs[row["id"], row_of["price"], name] += count
                for (same, other), more in every.items():
                    triples[row["id"], name, other] += count * more if same == item else 0
    tops: Counter[tuple[Any, ...]] = Counter()
    firsts, sums = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for item, rows in groups.items():
        best = sorted(
            (each for each in rows if each[3] == 1),
            key=lambda each: (each[1] is None, -(each[1] or 0), each[0]),
        )
        tops.update((item, each[0], each[1], rank) for rank, each in enumerate(best[:2], 1))
        first = min(rows, key=lambda each: (each[2], each[0]))
        firsts[item, first[0], first[1]] += 1
        summed = [each[1] for each in rows if each[1] != 3]
        prices = [each for each in summed if each is not None]
        if summed:
            sums[item, len(summed), sum(prices) if prices else None, min(prices, default=None)] += 1
    return {"pairs": pairs, "triples": triples, "tops": tops, "firsts": firsts, "sums": sums}


def made_rows(made: random.Random, start: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    ones, others = [], []
    for number in range(start, start + 40):
        item = None if made.random() < 0.1 else f"i{made.randrange(6)}"
        price = None if made.random() < 0.1 else made.randrange(20)
        row = None if made.random() < 0.1 else {"item": item, "price": price}
        second = made.randrange(50)
        ones.append(
            {"id": number, "kind": made.randrange(3), "o": row, "ts": f"2026-01-01 00:00:{second:02d}"}
        )
        if number % 4 == 0:
            name = made.choice(["x", "y", "z", None])
            others.append({"id": f"i{made.randrange(8)}", "name": name})
    return ones, others


def run(script: Script, insert: str) -> tuple[list[Any], str]:
    """Run an INSERT until all records are read; return its progress reports and its plan."""
    [result] = script(insert)
    assert result.job is not None
    [query] = result.job.queries
    query.processAllAvailable()
    plan = query._jsq.explainInternal(False)
    found = query.recentProgress
    result.job.stop()
    return found, plan


def sources(plan: str) -> list[str]:
    """Return the lines of a plan that read a topic."""
    return [each for each in plan.splitlines() if "MicroBatchScan" in each]


def printed(row: tuple[Any, ...]) -> str:
    return ", ".join("null" if each is None else str(each) for each in row)


@pytest.mark.parametrize("per_batch", [7, 1_000])
def test_queries_continue_with_packages_and_without(
    script: Script, bootstrap: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, per_batch: int
) -> None:
    """The table is that of plain Python after each of four runs, of which two have packages."""
    topics = {name: make_topic(2) for name in "ab"}
    # The trigger is for PySpark 4.0 and 4.1, on which this file passes too.
    limit = {"scan_max__records__per__batch": str(per_batch), "scan_trigger": "processing-time"}
    script(
        f"""
        CREATE TABLE a (id BIGINT, kind INT, o ROW<item STRING, price BIGINT>, ts TIMESTAMP(3),
            WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) {kafka(bootstrap, topics["a"], **limit)};
        CREATE TABLE b (id STRING, name STRING) {kafka(bootstrap, topics["b"], **limit)};
        CREATE TABLE c (id STRING, name STRING) {kafka(bootstrap, topics["b"], **limit)};
        """
    )
    script("CREATE VIEW v AS SELECT id, kind, o.item AS item, o.price AS price, ts FROM a")
    for name in QUERIES:
        script(f"CREATE TABLE {name} ({COLUMNS[name]}) WITH ('connector' = 'print')")
    lines: dict[str, list[str]] = {name: [] for name in QUERIES}
    made = random.Random(per_batch)
    ones: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for number in range(4):
        more = made_rows(made, 40 * number)
        ones += more[0]
        others += more[1]
        for name, rows in zip("ab", more, strict=True):
            records = [judge.Record(json.dumps(each).encode(), partition=made.randrange(2)) for each in rows]
            judge.produce(bootstrap, topics[name], *records)
        with monkeypatch.context() as patch:
            if number % 2:
                patch.setattr("penstock.sql.run._packed.can_pack", lambda _: False)
            for name, query in QUERIES.items():
                before = len(script.lines)
                progress, plan = run(script, f"INSERT INTO {name} {query}")
                lines[name] += script.lines[before:]
                assert any("#package" in each for each in sources(plan)) is (number % 2 == 0)
                if name == "sums":
                    counted = sum(each["numInputRows"] for each in progress)
                    assert counted == len(more[0]), "the rows that WHERE leaves out count too"
        for name, table_of in wanted(ones, others).items():
            assert table(lines[name]) == sorted(map(printed, table_of.elements())), name


BOTH = (
    "SELECT o.id AS one, p.id AS other, o.price AS price, p.kind AS kind FROM v o JOIN v p "
    "ON o.item = p.item WHERE o.kind >= 1 AND p.kind <= 1"
)
"""Both sides want the records of kind 1."""
THREE = (
    "SELECT o.id AS one, p.id AS other, q.price AS price, q.kind AS kind FROM v o "
    "JOIN v p ON o.item = p.item JOIN v q ON q.item = p.item WHERE o.kind >= 1 AND p.kind <= 1 "
    "AND q.price < 15"
)
"""One join of three sides."""


@pytest.mark.parametrize("query", [BOTH, THREE], ids=["two sides", "three sides"])
@pytest.mark.parametrize("per_batch", [7, 1_000])
@pytest.mark.parametrize("begins", ["one read", "rows", "two reads"])
def test_the_sides_of_a_join_keep_their_reads(
    script: Script,
    bootstrap: str,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    begins: str,
    per_batch: int,
    query: str,
) -> None:
    """The table is that of plain Python, and the checkpoint keeps its number of sources."""
    topic = declared(script, bootstrap, make_topic, per_batch)
    made, rows = random.Random(per_batch), list[dict[str, Any]]()
    for number in range(3):
        more = more_rows(made, bootstrap, topic, 40 * number)
        rows += more
        with monkeypatch.context() as patch:
            if begins == "two reads" and not number:
                patch.setattr("penstock.sql.run._planned.Planner._shared_read", lambda *_: None)
            if begins == "rows" and not number:
                patch.setattr("penstock.sql.run._packed.can_pack", lambda _: False)
            progress, plan = run(script, f"INSERT INTO pairs {query}")
        assert len(sources(plan)) == (1 if begins == "one read" else 2 if query == BOTH else 3)
        if begins == "one read":
            counted = sum(each["numInputRows"] for each in progress)
            assert counted == len(more) or (per_batch == 7 and counted > len(more)), (
                "a batch of some rows may have more packages"
            )
        noted = json.loads(next(tmp_path.rglob("query.json")).read_text())
        assert (noted["version"], len(noted.get("shared", []))) == (
            (4, 1) if begins == "one read" else (3, 0)
        )
        assert table(script.lines) == sorted(map(printed, (pairs_of if query == BOTH else triples_of)(rows)))


def test_a_checkpoint_with_one_read_does_not_continue_with_two(
    script: Script, bootstrap: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = declared(script, bootstrap, make_topic, 1_000)
    rows = more_rows(random.Random(1), bootstrap, topic, 0)
    run(script, f"INSERT INTO pairs {BOTH}")
    with monkeypatch.context() as patch:
        patch.setattr("penstock.sql.run._packed.can_pack", lambda _: False)
        with pytest.raises(SqlError, match="one read for all sides of this join"):
            script(f"INSERT INTO pairs {BOTH}")
    rows += more_rows(random.Random(2), bootstrap, topic, 40)
    run(script, f"INSERT INTO pairs {BOTH}")
    assert table(script.lines) == sorted(map(printed, pairs_of(rows)))


def test_a_third_scan_keeps_the_reads_of_a_join_apart(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = declared(script, bootstrap, make_topic, 1_000)
    rows = more_rows(random.Random(1), bootstrap, topic, 0)
    third = "SELECT id AS one, id AS other, price, kind FROM v"
    _, plan = run(script, f"INSERT INTO pairs {BOTH} UNION ALL {third}")
    assert len(sources(plan)) == 3
    more = [(each["id"], each["id"], (each["o"] or {}).get("price"), each["kind"]) for each in rows]
    assert table(script.lines) == sorted(map(printed, [*pairs_of(rows), *more]))


def declared(script: Script, bootstrap: str, make_topic: MakeTopic, per_batch: int) -> str:
    """Declare the tables of BOTH. Return the topic."""
    topic = make_topic(2)
    limit = {"scan_max__records__per__batch": str(per_batch), "scan_trigger": "processing-time"}
    script(
        f"""
        CREATE TABLE a (id BIGINT, kind INT, o ROW<item STRING, price BIGINT>)
            {kafka(bootstrap, topic, **limit)};
        CREATE TABLE pairs (one BIGINT, other BIGINT, price BIGINT, kind INT) WITH ('connector' = 'print');
        """
    )
    script("CREATE VIEW v AS SELECT id, kind, o.item AS item, o.price AS price FROM a")
    return topic


def more_rows(made: random.Random, bootstrap: str, topic: str, start: int) -> list[dict[str, Any]]:
    """Write rows of `made_rows` to both partitions of a topic, and return them."""
    rows, _ = made_rows(made, start)
    records = (judge.Record(json.dumps(each).encode(), partition=made.randrange(2)) for each in rows)
    judge.produce(bootstrap, topic, *records)
    return rows


def pairs_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    items = [(row, (row["o"] or {}).get("item")) for row in rows]
    return [
        (one["id"], other["id"], one["o"]["price"], other["kind"])
        for one, item in items
        for other, same in items
        if item is not None and item == same and one["kind"] >= 1 and other["kind"] <= 1
    ]


def triples_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    pairs = [
        (one, item)
        for one, item in ((row, (row["o"] or {}).get("item")) for row in rows)
        if item is not None and one["kind"] >= 1
    ]
    seconds = Counter(
        (row["o"]["item"], row["id"]) for row in rows if row["o"] is not None and row["kind"] <= 1
    )
    priced = ((row["o"], row["kind"]) for row in rows if row["o"] is not None)
    thirds = [(each, kind) for each, kind in priced if each["price"] is not None and each["price"] < 15]
    return [
        (one["id"], other, third["price"], kind)
        for one, item in pairs
        for same, other in seconds
        for third, kind in thirds
        if item == same == third["item"]
    ]


def test_an_insert_without_an_operator_does_not_read_the_folder_of_checkpoints(
    script: Script, tmp_path: Path
) -> None:
    """A batch has no checkpoint, so a folder that cannot be read does not stop it."""
    (tmp_path / "checkpoints").write_text("no folder")
    script("CREATE TABLE pairs (one INT) WITH ('connector' = 'print')")
    script("INSERT INTO pairs VALUES (1)")
    assert table(script.lines) == ["1"]
