"""The scripts in the pages about SQL run as printed, but for addresses and the names of topics.

tests/unit/test_production_page.py reads those with logins, and tests/spark/test_sql_tutorial.py runs the first job.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.devbroker.cluster import free_ports
from tests import judge
from tests.fix_broker import MakeTopic
from tests.postgresql import running_postgresql, why_not
from tests.spark.sql_changes import run, table, written
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture
from tests.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs"


def scripts(page: str) -> list[str]:
    return re.findall(r"```sql\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def placed(text: str, places: dict[str, str]) -> str:
    """Return a script in the place of the test. It has to name each place of the page."""
    for old, new in places.items():
        assert old in text
        text = text.replace(old, new)
    return text


def change(op: str, before: Any, after: Any) -> bytes:
    rows = [each and dict(zip(("id", "city"), each, strict=True)) for each in (before, after)]
    return json.dumps({"op": op, "before": rows[0], "after": rows[1]}).encode()


PEOPLE = [
    change("c", None, (1, "Rome")),
    change("c", None, (2, "Rome")),
    change("u", (2, "Rome"), (2, "Oslo")),
    change("c", None, (3, "Bonn")),
    change("d", (3, "Bonn"), None),
]


@pytest.fixture
def customers(script: Script, bootstrap: str, make_topic: MakeTopic) -> tuple[str, str]:
    """Create the tables of docs/sql-changelogs.md, and return its INSERT and the topic of its result."""
    topic, cities = make_topic(), make_topic(suffix="-cities")
    judge.produce(bootstrap, topic, *PEOPLE)
    places = {
        "dbserver.customers": topic,
        "localhost:9092": bootstrap,
        "'topic' = 'cities'": f"'topic' = '{cities}'",
    }
    tables, inserts, insert = placed(scripts("sql-changelogs.md")[0], places).partition("INSERT INTO")
    script(tables)
    return inserts + insert, cities


def test_people_of_each_city_are_counted(script: Script, bootstrap: str, customers: tuple[str, str]) -> None:
    insert, cities = customers
    run(script, insert)
    assert written(bootstrap, cities) == [{"city": "Oslo", "people": 1}, {"city": "Rome", "people": 1}]


def shown(script: Script, name: str, query: str, columns: str) -> list[str]:
    """Run a query into a new print table, and return its lines."""
    script.lines.clear()
    script(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'print')")
    run(script, f"INSERT INTO {name} {query}")
    return script.lines


def test_changes_as_rows(
    script: Script, bootstrap: str, make_topic: MakeTopic, customers: tuple[str, str]
) -> None:
    events = make_topic(suffix="-events")
    text = scripts("sql-changelogs.md")[1]
    plain, coded, back = [each.strip().rstrip(";") for each in text.split("\n\n")]
    names = "INSERT INSERT UPDATE_BEFORE UPDATE_AFTER INSERT DELETE".split()  # noqa: SIM905 - as it is read
    rows = ["1, Rome", "2, Rome", "2, Rome", "2, Oslo", "3, Bonn", "3, Bonn"]
    expected = [f"+I[{name}, {row}]" for name, row in zip(names, rows, strict=True)]
    assert shown(script, "told", plain, "op STRING, id BIGINT, city STRING") == expected
    codes = {"INSERT": "upsert", "UPDATE_AFTER": "upsert", "DELETE": "delete"}
    expected = [f"+I[{codes[name]}, {row}]" for name, row in zip(names, rows, strict=True) if name in codes]
    assert shown(script, "coded", coded, "kind STRING, id BIGINT, city STRING") == expected
    script(
        f"""CREATE TABLE events (op STRING, id BIGINT, city STRING) WITH ('connector' = 'kafka',
        'topic' = '{events}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
        'scan.startup.mode' = 'earliest-offset')"""
    )
    codes = {"INSERT": "c", "UPDATE_BEFORE": "ub", "UPDATE_AFTER": "ua", "DELETE": "d"}
    for name, row in zip(names, rows, strict=True):
        id_, city = row.split(", ")
        judge.produce(
            bootstrap, events, json.dumps({"op": codes[name], "id": int(id_), "city": city}).encode()
        )
    assert table(shown(script, "counted", back, "city STRING, people BIGINT")) == ["Oslo, 1", "Rome, 1"]


def test_made_rows(script: Script) -> None:
    made = next(each for each in scripts("sql-connectors.md") if "'datagen'" in each)
    script(made + "SET 'execution.runtime-mode' = 'batch';")
    [row] = script.rows(
        "SELECT COUNT(*), MIN(id), MAX(id), COUNT(DISTINCT id), MIN(CHAR_LENGTH(shop)), MAX(CHAR_LENGTH(shop)), "
        "MIN(amount) >= 1, MAX(amount) <= 99.99 FROM orders"
    )
    assert row == (1_000_000, 1, 1_000_000, 1_000_000, 4, 4, True, True)


@pytest.fixture
def postgresql() -> Iterator[tuple[str, int]]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    (port,) = free_ports(1)
    with running_postgresql(port) as found:
        yield found, port


def test_a_table_of_postgresql(
    script: Script, bootstrap: str, make_topic: MakeTopic, postgresql: tuple[str, int]
) -> None:
    psycopg: Any = pytest.importorskip("psycopg")
    topic, (server, port) = make_topic(), postgresql
    judge.produce(
        bootstrap, topic, *(b'{"shop":"%s","amount":%d}' % pair for pair in ((b"a", 5), (b"b", 1), (b"a", 2)))
    )
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute("CREATE DATABASE shop")
    text = next(each for each in scripts("sql-connectors.md") if "'jdbc'" in each)
    script(placed(text, {"//localhost:5432/": f"//127.0.0.1:{port}/"}))
    script(
        f"""CREATE TABLE orders (shop STRING, amount DECIMAL(10, 2)) WITH ('connector' = 'kafka',
        'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
        'scan.startup.mode' = 'earliest-offset')"""
    )
    insert = "INSERT INTO totals SELECT shop, CAST(SUM(amount) AS DECIMAL(10, 2)) FROM orders GROUP BY shop"
    run(script, insert)
    judge.produce(bootstrap, topic, b'{"shop":"b","amount":9}')
    run(script, insert)
    with closing(psycopg.connect(f"{server} dbname=shop")) as connection:
        found = connection.execute("SELECT shop, total::text FROM totals ORDER BY shop").fetchall()
    assert found == [("a", "7.00"), ("b", "10.00")]


def test_a_job_without_micro_batches(script: Script, bootstrap: str, make_topic: MakeTopic) -> None:
    source, target = make_topic(), make_topic(suffix="-large")
    places = {"'topic' = 'orders'": f"'topic' = '{source}'", "'topic' = 'large'": f"'topic' = '{target}'"}
    [text] = scripts("sql-jobs.md")
    amounts = ((1, b'"a"', 99), (2, b'"b"', 100), (3, b"null", 200))
    judge.produce(bootstrap, source, *(b'{"id":%d,"shop":%s,"amount":%d}' % each for each in amounts))
    *_, started = script(placed(text, places | {"localhost:9092": bootstrap}))
    try:
        found = judge.consume_until(bootstrap, target, 2)
    finally:
        started.job.stop()
    rows = [json.loads(each.value or b"") for each in found]
    assert rows == [{"id": 2, "shop": "b"}, {"id": 3, "shop": "none"}]


def test_a_statement_set_with_metrics(script: Script, bootstrap: str, make_topic: MakeTopic) -> None:
    source, totals, large = make_topic(), make_topic(suffix="-totals"), make_topic(suffix="-large")
    judge.produce(
        bootstrap, source, *(b'{"id":%d,"shop":"a","amount":%d}' % each for each in ((1, 5), (2, 500)))
    )
    kafka = f"'properties.bootstrap.servers' = '{bootstrap}'"
    script(
        f"""
        CREATE TABLE orders (id BIGINT, shop STRING, amount INT) WITH ('connector' = 'kafka', 'topic' = '{source}',
            {kafka}, 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
        CREATE TABLE totals (shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'upsert-kafka',
            'topic' = '{totals}', {kafka}, 'key.format' = 'json', 'value.format' = 'json');
        CREATE TABLE large (id BIGINT, shop STRING) WITH ('connector' = 'kafka', 'topic' = '{large}', {kafka},
            'format' = 'json');
        """
    )
    ports = free_ports(2)
    text = next(each for each in scripts("sql-production.md") if "STATEMENT SET" in each)
    [started] = script(placed(text, {"'9251'": f"'{ports[0]}'", "'9252'": f"'{ports[1]}'"}))
    try:
        for query in started.job.queries:
            query.processAllAvailable()
        for port in ports:
            wait_until(partial(has_read_both, port), "the reports of tasks")
    finally:
        started.job.stop()
    assert written(bootstrap, totals) == [{"shop": "a", "n": 2}]
    [record] = judge.consume_all(bootstrap, large)
    assert json.loads(record.value or b"") == {"id": 2, "shop": "a"}


def has_read_both(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return b"penstock_source_records_total 2.0" in answer.read()


def test_a_table_with_an_aligned_watermark(script: Script, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    judge.produce(
        bootstrap, topic, *(judge.Record(b'{"id":%d,"shop":"a"}' % each, partition=each) for each in (0, 1))
    )
    text = next(each for each in scripts("sql-production.md") if "max-drift" in each)
    script(placed(text, {"'topic' = 'orders'": f"'topic' = '{topic}'", "broker:9092": bootstrap}))
    assert sorted(shown(script, "read_rows", "SELECT id, shop FROM orders", "id BIGINT, shop STRING")) == [
        "+I[0, a]",
        "+I[1, a]",
    ]


def test_only_the_first_join_on_times_is_an_interval_join(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    """The page's joins stand behind three dots, for any columns of a SELECT."""
    kafka = (
        f"('connector' = 'kafka', 'topic' = '{make_topic()}', 'properties.bootstrap.servers' = '{bootstrap}', "
        "'format' = 'json')"
    )
    script(
        f"""
        CREATE TABLE orders (id INT, ordered_at TIMESTAMP(3), WATERMARK FOR ordered_at AS ordered_at) WITH {kafka};
        CREATE TABLE payments (order_id INT, item INT, paid_at TIMESTAMP(3), WATERMARK FOR paid_at AS paid_at) WITH {kafka};
        CREATE TABLE prices (item INT, valid_from TIMESTAMP(3), valid_to TIMESTAMP(3),
            WATERMARK FOR valid_from AS valid_from) WITH {kafka};
        """
    )
    text = next(each for each in scripts("sql.md") if "-- An interval join" in each)
    interval, other = re.findall(r"^\.\.\. (FROM.*?)(?:\n\n|\Z)", text.strip(), re.DOTALL | re.MULTILINE)
    warning = "a join keeps all rows of both sides, so its state grows without an end"
    states = [
        "\n".join(row[0] for row in script(f"EXPLAIN SELECT * {each}")[0].rows) for each in (interval, other)
    ]
    assert [warning in each for each in states] == [False, True], states
