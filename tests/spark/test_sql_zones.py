"""Windows over TIMESTAMP in sessions of several zones: the same rows, also in hours that a zone skips or repeats."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped
from tests.spark.test_sql import BOUNDED, Script, kafka
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture
from tests.spark.test_sql_windows import start

ZONES = ("Asia/Kolkata", "America/New_York", "Pacific/Apia", "Europe/Berlin")
SPRING = ["2026-03-08 02:30:00", "2026-03-29 02:30:00", "2026-03-29 03:30:00"]
"""Times that New York and Berlin skip, and one an hour later."""
AUTUMN = ["2026-10-25 02:30:00", "2026-11-01 01:30:00"]
"""Times that Berlin and New York have twice."""
LAST = "2026-12-31 00:00:00"
DAYS = (
    "SELECT window_start, window_time, CAST(CAST(window_end AS TIMESTAMP(3)) AS STRING), COUNT(*), "
    "MIN(DATE_FORMAT(ts, 'MM-dd HH:mm')), MAX(CAST(CAST(ts AS TIMESTAMP(0)) AS STRING)), MAX(EXTRACT(HOUR FROM ts)), "
    "MAX(FLOOR(ts TO HOUR)), MAX(h), COUNT(*) FILTER (WHERE ts >= TIMESTAMP '2026-03-29 03:00:00'), "
    "MAX(CAST(ts AS DATE)), MAX(shown(ts)) "
    "FROM TABLE(TUMBLE(TABLE times, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end, window_time"
)
PAIRS = (
    "SELECT a.id, b.ts, b.ts - INTERVAL '90' MINUTE FROM times AS a JOIN times AS b "
    "ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR WHERE b.id <> a.id"
)


def day(text: str) -> datetime:
    return datetime.fromisoformat(text)


def row_of_day(count: int, first: str, last: str, later: int) -> tuple[Any, ...]:
    """Return the row of DAYS of a day with these times."""
    begin, hour = day(first[:10]), int(last[11:13])
    end = begin + timedelta(days=1)
    window = (begin, end - timedelta(milliseconds=1), f"{end}.000")
    return (
        *window,
        count,
        first[5:16],
        last,
        hour,
        day(f"{last[:13]}:00:00"),
        hour,
        later,
        begin.date(),
        last,
    )


@pytest.mark.parametrize("zone", ZONES)
def test_streams_give_the_same_rows_in_every_zone(script: Script, tmp_path: Path, zone: str) -> None:
    folder = tmp_path / "times"
    folder.mkdir()
    options = f"'connector' = 'filesystem', 'format' = 'json', 'source.monitor-interval' = '1 s', 'path' = '{folder}'"
    script(
        f"""
        SET 'table.local-time-zone' = '{zone}';
        CREATE FUNCTION shown AS 'tests.spark.sql_functions.shown' LANGUAGE PYTHON;
        CREATE TABLE times (id BIGINT, k STRING, ts TIMESTAMP(3), h AS EXTRACT(HOUR FROM ts), WATERMARK FOR ts AS ts) WITH ({options})
        """
    )
    days: list[tuple[Any, ...]] = []
    pairs: list[tuple[Any, ...]] = []
    with contextlib.ExitStack() as running:
        jobs = [
            running.enter_context(stopped(start(script.session.sql(query), rows)))
            for query, rows in ((DAYS, days), (PAIRS, pairs))
        ]
        for number, texts in enumerate((SPRING, AUTUMN, [LAST])):
            lines = [
                json.dumps({"id": 10 * number + at, "k": "k", "ts": text}) for at, text in enumerate(texts)
            ]
            (folder.parent / "part").write_text("\n".join(lines))
            (folder.parent / "part").rename(folder / f"{number}.json")
            for job in jobs:
                job.processAllAvailable()
    assert sorted(days) == [
        row_of_day(1, SPRING[0], SPRING[0], 0),
        row_of_day(2, SPRING[1], SPRING[2], 1),
        row_of_day(1, AUTUMN[0], AUTUMN[0], 1),
        row_of_day(1, AUTUMN[1], AUTUMN[1], 1),
    ]
    assert pairs == [(1, day(SPRING[2]), day("2026-03-29 02:00:00"))]
    assert script.session.spark.conf.get("spark.sql.session.timeZone") == zone


def test_local_times_of_windows_are_written_as_they_are(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source = make_topic()
    judge.produce(
        bootstrap, source, *(json.dumps({"id": 1, "ts": text}).encode() for text in SPRING + AUTUMN)
    )
    formats = ("json", "csv", "avro", "debezium-json")
    script(
        f"""
        SET 'execution.runtime-mode' = 'batch'; SET 'table.local-time-zone' = 'Europe/Berlin';
        CREATE TABLE times (id BIGINT, ts TIMESTAMP(3)) {kafka(bootstrap, source)}
        """
    )
    raw = {}
    for name in formats:
        topic = make_topic()
        key = ", PRIMARY KEY (e) NOT ENFORCED" if name == "debezium-json" else ""
        script(
            f"""
            CREATE TABLE `{name}` (b TIMESTAMP(3), t TIMESTAMP(3), e TIMESTAMP(3){key}) {kafka(bootstrap, topic, format=name)};
            INSERT INTO `{name}` SELECT window_start, window_time, window_end
            FROM TABLE(HOP(TABLE times, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '30' MINUTE)) GROUP BY window_start, window_end, window_time
            """
        )
        raw[name] = {record.value for record in judge.consume_all(bootstrap, topic)}
    starts = sorted(map(day, SPRING + AUTUMN))
    for zone in ("Europe/Berlin", "UTC"):
        script(f"SET 'table.local-time-zone' = '{zone}'")
        for name in formats:
            assert [row[0] for row in sorted(script.rows(f"SELECT b, t, e FROM `{name}`"))] == starts
    assert (
        b'{"b":"2026-03-29 02:30:00","t":"2026-03-29 02:59:59.999","e":"2026-03-29 03:00:00"}' in raw["json"]
    )
    assert b'"2026-03-29 02:30:00","2026-03-29 02:59:59.999","2026-03-29 03:00:00"' in raw["csv"]


def test_the_time_of_a_record_is_its_local_time_in_the_session(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source = make_topic(config={"retention.ms": "-1"})
    at = [
        datetime.fromisoformat(f"2026-10-25T0{hour}:30:00+00:00") for hour in (0, 1, 2)
    ]  # 02:30, 02:30, 03:30
    records = [judge.Record(value=b'{"id": 1}', timestamp_ms=int(each.timestamp() * 1_000)) for each in at]
    judge.produce(bootstrap, source, *records)
    script(
        f"""
        SET 'execution.runtime-mode' = 'batch'; SET 'table.local-time-zone' = 'Europe/Berlin';
        CREATE TABLE orders (
            id BIGINT, ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, h AS EXTRACT(HOUR FROM ts), WATERMARK FOR ts AS ts
        ) {kafka(bootstrap, source, **BOUNDED)}
        """
    )
    query = "SELECT window_start, MIN(h), COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
    wanted = [(day("2026-10-25 02:00"), 2, 2), (day("2026-10-25 03:00"), 3, 1)]
    assert sorted(script.rows(query)) == wanted
    assert script.rows("SELECT MIN(ts), COUNT(*) FROM orders") == [(day("2026-10-25 02:30"), 3)]
    script("SET 'execution.runtime-mode' = 'streaming'")
    lines: list[tuple[Any, ...]] = []
    with stopped(start(script.session.sql("SELECT ts, h, id FROM orders"), lines)) as query_of_stream:
        query_of_stream.processAllAvailable()
    assert [row[:2] for row in sorted(lines)] == [(day(f"2026-10-25 0{hour}:30"), hour) for hour in (2, 2, 3)]


FIRST_S = datetime.fromisoformat("2026-10-25T00:30:00+00:00").timestamp()
"""Half an hour before Berlin has an hour a second time."""


def block_of_the_guide(heading: str, places: dict[str, str]) -> str:
    """Return the first script below a heading of docs/sql-tutorial.md, in the places of the test."""
    page = (Path(__file__).parents[2] / "docs" / "sql-tutorial.md").read_text(encoding="utf-8")
    text = page.partition(f"## {heading}\n")[2].partition("```sql\n")[2].partition("```")[0]
    for old, new in places.items():
        text = text.replace(old, new)
    return text


def run_job(script: Script, job: str, bootstrap: str, target: str) -> list[dict[str, Any]]:
    """Run a script until its job has read what is there. Return what the target has then."""
    started = script(job)[-1].job
    try:
        started.queries[0].processAllAvailable()
    finally:
        started.stop()
    return [json.loads(record.value or b"") for record in judge.consume_all(bootstrap, target)]


def order(bootstrap: str, topic: str, **values: bytes) -> None:
    """Write records with times: `s66=b"{}"` is 66 seconds after the first one."""
    records = [
        judge.Record(value=value, timestamp_ms=int(FIRST_S + int(name[1:])) * 1_000)
        for name, value in values.items()
    ]
    judge.produce(bootstrap, topic, *records)


def test_the_job_of_the_guide_runs_in_a_zone_with_summer_time_and_goes_on_exactly_once(
    script: Script, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    orders, totals = make_topic(config={"retention.ms": "-1"}), make_topic(suffix="-totals")
    places = {
        "'topic' = 'orders'": f"'topic' = '{orders}'",
        "'topic' = 'totals'": f"'topic' = '{totals}'",
        "'orders-totals'": f"'{totals}-writer'",
        "localhost:9092": bootstrap,
        "/tmp/": f"{tmp_path}/",  # noqa: S108 - of the page
    }
    job = block_of_the_guide("A job", places)
    script("SET 'table.local-time-zone' = 'Europe/Berlin'")
    values = (b'{"id": 1, "shop": "a", "amount": 2.5}', b'{"id": 2, "shop": "a", "amount": 4.0}')
    order(bootstrap, orders, s0=values[0], s59=values[1], s66=b"{}")
    first = {"b": "2026-10-25 02:30:00", "shop": "a", "n": 2, "total": 6.5}
    assert run_job(script, job, bootstrap, totals) == [first]
    before, _, rest = job.partition("CREATE TABLE totals")
    table = block_of_the_guide("Write it exactly once", places)
    script("DROP TABLE orders; DROP TABLE totals")
    order(bootstrap, orders, s70=b'{"id": 3, "shop": "b", "amount": 1}', s126=b"{}")
    found = run_job(script, before + table + rest.partition(");\n")[2], bootstrap, totals)
    second = {"b": "2026-10-25 02:31:00", "shop": "b", "n": 1, "total": 1.0}
    assert [row for row in found if row["shop"] is not None] == [first, second]
    assert f"{totals}-writer-decisions" in judge.admin(bootstrap).list_topics(timeout=60).topics


ZONED = {
    "l": "the column 'l' of 'zoned' depends on the time zone of the session, Europe/Berlin.",
    "w": "windows of TIMESTAMP_LTZ are cut at UTC. Your session is in Europe/Berlin: SET 'table.local-time-zone' = 'UTC'.",
    "CURRENT_TIMESTAMP": "CURRENT_TIMESTAMP depends on the time zone of the session",
    "LOCALTIMESTAMP": "LOCALTIMESTAMP depends",
    "CURRENT_DATE": "CURRENT_DATE depends",
    "NOW()": "NOW depends",
    "TO_TIMESTAMP_LTZ(1, 3)": "TO_TIMESTAMP_LTZ depends",
    "FROM_UNIXTIME(1)": "FROM_UNIXTIME depends",
    "UNIX_TIMESTAMP('2026-01-01 00:00:00')": "UNIX_TIMESTAMP depends",
    "CAST(ts AS TIMESTAMP_LTZ(3))": "a CAST to TIMESTAMP_LTZ depends",
}


def test_what_depends_on_the_zone_is_refused_beside_windows(script: Script, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    options = f"'connector' = 'filesystem', 'format' = 'json', 'source.monitor-interval' = '1 s', 'path' = '{tmp_path}/x'"
    script(
        f"""
        SET 'table.local-time-zone' = 'Europe/Berlin';
        CREATE TABLE times (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({options});
        CREATE TABLE zoned (ts TIMESTAMP(3), l TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ({options});
        CREATE TABLE windows (w TIMESTAMP_LTZ(3), WATERMARK FOR w AS w) WITH ({options});
        CREATE TABLE target (l TIMESTAMP_LTZ(3)) WITH ('connector' = 'print')
        """
    )
    for text, message in ZONED.items():
        table = {"l": "zoned", "w": "windows"}.get(text, "times")
        found = script.refusal(f"EXPLAIN SELECT\n {text} AS x FROM {table}")
        assert message in found
        if table == "times":
            assert found.startswith("Line 2, column ")
    refusal = script.refusal("INSERT INTO target SELECT ts FROM times")
    assert "the column 'l' of 'target' depends on the time zone" in refusal
    script("SET 'execution.runtime-mode' = 'batch'")
    assert script.rows("SELECT l, CURRENT_DATE FROM zoned") == []
