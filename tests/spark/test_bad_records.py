"""A wrong schema does not drain a topic into the dead-letter topic."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.printed import DOCS, Here, section
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

ISO = {"json.timestamp-format.standard": "ISO-8601"}


def test_a_wrong_type_stops_before_the_topic_is_drained_and_nothing_is_lost(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead = make_topic(), make_topic(suffix="-dead")
    judge.produce(bootstrap, topic, *[b'{"id":%d,"ts":"2026-05-01T12:00:%02d"}' % (n, n) for n in range(40)])
    judge.produce(bootstrap, topic, b'{"id":"oops"}')
    seen: list[Row] = []
    letters = {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": dead}

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(batch.collect())

    def run(schema: str, options: dict[str, str]) -> None:
        reader = spark.readStream.format("penstock").schema(schema).options(**letters, **options)
        reader = reader.option("properties.bootstrap.servers", bootstrap).option("topic", topic)
        start = reader.option("format", "json").load().writeStream.foreachBatch(take)
        start = start.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        with stopped(start.start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)

    with pytest.raises(StreamingQueryException) as caught:
        run("id BIGINT, ts TIMESTAMP", {})
    message = str(caught.value)
    assert "41 of the 41 records that this task has read cannot be decoded" in message
    assert f"40 times: topic {topic}, partition 0, offset 0: value: " in message
    assert "This looks like a wrong schema" in message
    assert judge.consume_all(bootstrap, dead) == []

    run("id BIGINT, ts TIMESTAMP_NTZ", ISO)
    assert sorted(row.id for row in seen) == list(range(40))
    assert [letter.value for letter in judge.consume_all(bootstrap, dead)] == [b'{"id":"oops"}']


def read_amounts(
    spark: SparkSession, bootstrap: str, topic: str, dead: str, checkpoint: Path
) -> list[tuple[int, float]]:
    """Run a query of orders until it has read all. Return its rows."""
    options = {
        "properties.bootstrap.servers": bootstrap,
        "topic": topic,
        "format": "json",
        "scan.startup.mode": "earliest-offset",
        "scan.on-decode-error": "dead-letter",
        "scan.dead-letter.topic": dead,
    }
    seen: list[Row] = []
    reader = spark.readStream.format("penstock").schema("id BIGINT, amount DOUBLE").options(**options)
    start = reader.load().writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
    with stopped(
        start.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    ) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    return sorted((row.id, row.amount) for row in seen)


def test_the_commands_of_the_page_repair_dead_letters_and_put_them_back_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead = make_topic(), make_topic(suffix="-dead")
    judge.produce(bootstrap, topic, b'{"id": 17, "amount": "12,50"}')
    assert read_amounts(spark, bootstrap, topic, dead, tmp_path / "c") == []
    heading = "## Put dead letters back, each once\n"
    page = (DOCS / "bad-records.md").read_text(encoding="utf-8").partition(heading)[2]
    [repair] = re.findall(r" +```python\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    (tmp_path / "repair.py").write_text(textwrap.dedent(repair))
    here = Here(tmp_path, {"orders-bad": dead, "localhost:9092": bootstrap})
    assert "field 'amount'" in here.run("bad-records.md", "penstock dead-letters show")
    assert "Nothing was changed" in here.run("bad-records.md", "penstock dead-letters requeue")
    for count in (1, 0):
        said = here.run("bad-records.md", "penstock dead-letters requeue", "--yes")
        assert f"back now: {count}." in said
    assert "(is back)" in here.run("bad-records.md", "penstock dead-letters show")
    assert read_amounts(spark, bootstrap, topic, dead, tmp_path / "c") == [(17, 12.5)]


def test_a_newer_change_is_put_behind_the_repaired_one(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, *(judge.Record(b"%d" % number, b"k") for number in range(10)))
    here = Here(tmp_path, {"orders": topic}, bootstrap)
    here.run("bad-records.md", "penstock cat orders --partition 0 --from 8")
    assert [each.value for each in judge.consume_all(bootstrap, topic)][8:] == [b"8", b"9", b"8"]


def test_the_recipe_of_the_page_puts_each_dead_letter_back_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead = make_topic(3), make_topic(suffix="-dead")
    seen: list[tuple[int, float]] = []

    def run_query() -> None:
        seen.extend(read_amounts(spark, bootstrap, topic, dead, tmp_path / "c"))

    def follow_the_page(offset: int, key: str) -> str:
        """Run the commands as a person does, with these topics and brokers."""
        here = Here(tmp_path, {"orders-bad": dead, "orders": topic, "k17": key})
        lines = here.placed("\n".join(section("bad-records.md", "Find, repair, put back")))
        on_this_day = lines.replace("--from 0", f"--from {offset}")  # as the page says
        shell = f'penstock() {{ command penstock "$@" -b {bootstrap}; }}\nset -e\n'
        return here.shell(shell + on_this_day)

    source = [("source", b"billing")]
    judge.produce(bootstrap, topic, judge.Record(b'{"id": 16, "amount": 1}', b"k16"))
    for day, number in enumerate((17, 18)):
        bad = judge.Record(b'{"id": %d, "amount": 12,50}' % number, b"k%d" % number, source)
        judge.produce(bootstrap, topic, bad)
        run_query()
        shown = follow_the_page(day, f"k{number}")
        assert "  source: billing\n" in shown
        assert re.search(r"penstock\.dead-letter\.error: .+", shown)
        assert f"1 record went to topic {topic}" in shown
        run_query()
    assert sorted(seen) == [(16, 1.0), (17, 12.5), (18, 12.5)]
    written = [record for record in judge.consume_all(bootstrap, topic) if record.key == b"k17"]
    # librdkafka and penstock may choose different topic partitions for a key, so no order is known.
    assert sorted((record.value, list(record.headers)) for record in written) == [
        (b'{"id": 17, "amount": 12,50}', source),
        (b'{"id": 17, "amount": 12.50}', source),
    ]
