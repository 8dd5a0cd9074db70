"""Values that vary over a changelog, on real Spark and a real broker: clocks, RAND, Python functions, metadata."""

from __future__ import annotations

import re

import pytest

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.sql_changes import EVENTS, run, table, upsert, written
from tests.spark.test_sql import Script, kafka
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture


def test_a_clock_over_rows_that_change_is_kept_or_does_no_harm(
    script: Script, bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    source, target, counts = make_topic(), make_topic(suffix="t"), make_topic(suffix="c")
    times, recent = make_topic(suffix="times"), make_topic(suffix="recent")
    judge.produce(bootstrap, source, *EVENTS)
    script(
        f"""
        CREATE TABLE sales (id INT, shop STRING, amount INT, p AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED)
            {kafka(bootstrap, source, format="debezium-json", scan_max__records__per__batch="2")};
        CREATE TABLE seen (id INT PRIMARY KEY NOT ENFORCED, shop STRING, at TIMESTAMP_LTZ(3), p TIMESTAMP_LTZ(3))
            {upsert(bootstrap, target)};
        CREATE TABLE counts (shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT, at TIMESTAMP_LTZ(3))
            {upsert(bootstrap, counts)};
        CREATE TABLE recent (id INT PRIMARY KEY NOT ENFORCED, shop STRING, at TIMESTAMP_LTZ(3)) {upsert(bootstrap, recent)};
        CREATE TABLE times (at STRING PRIMARY KEY NOT ENFORCED, n BIGINT) {upsert(bootstrap, times)};
        CREATE TABLE shown (shop STRING, x DOUBLE) WITH ('connector' = 'print');
        CREATE FUNCTION shout AS 'tests.spark.sql_functions.shout' LANGUAGE PYTHON;
        CREATE FUNCTION loud AS 'tests.spark.sql_functions.shout' LANGUAGE PYTHON DETERMINISTIC;
        CREATE FUNCTION words AS 'tests.spark.sql_table_functions.words' LANGUAGE PYTHON;
        CREATE FUNCTION pure_words AS 'tests.spark.sql_table_functions.pure_words' LANGUAGE PYTHON;
        """
    )
    for query, part in (
        ("EXPLAIN INSERT INTO shown SELECT shop, RAND() FROM sales", "RAND"),
        ("INSERT INTO shown SELECT shout(shop), 1 FROM sales", "shout"),
        ("SELECT shop, RAND(), NOW() FROM sales", "RAND"),
        (
            "SELECT ARRAY[id], x FROM (SELECT id, ARRAY[1] AS x FROM sales) WHERE NOW() > TIMESTAMP '2026-01-01 00:00:00'",
            "NOW",
        ),
        ("SELECT word FROM sales, LATERAL TABLE(words(shop)) AS w (word, place)", "words"),
    ):
        column = query.rindex(part) + 1
        assert re.match(rf"Line 1, column {column}: .* over a changelog", script.refusal(query)), query
    assert "asNondeterministic() in Python" in script.refusal(
        "CREATE FUNCTION g AS 'tests.spark.sql_functions.guess' LANGUAGE PYTHON DETERMINISTIC"
    )
    run(
        script,
        """
        INSERT INTO seen SELECT id, loud(shop), CURRENT_TIMESTAMP, p FROM sales;
        INSERT INTO counts SELECT word, COUNT(*), NOW()
            FROM sales, LATERAL TABLE(pure_words(shop)) AS w (word, place) GROUP BY word;
        """,
    )
    assert [(row["id"], row["shop"]) for row in written(bootstrap, target)] == [(1, "B!"), (2, "A!")]
    assert [(row["shop"], row["n"]) for row in written(bootstrap, counts)] == [("a", 1), ("b", 1)]
    assert script.lines == []
    # Each row is counted with the time of its own batch, and goes from where it was counted.
    run(
        script,
        """
        INSERT INTO times SELECT CAST(p AS STRING), COUNT(*) FROM sales WHERE NOW() > DATE '2026-01-01'
            GROUP BY CAST(p AS STRING);
        INSERT INTO recent SELECT id, shop, p FROM sales WHERE NOW() > DATE '2026-01-01';
        """,
    )
    assert [(row["id"], row["shop"]) for row in written(bootstrap, recent)] == [(1, "b"), (2, "a")]
    assert sum(row["n"] for row in written(bootstrap, times)) == 2
    explained = "\n".join(
        row[0] for row in script("EXPLAIN SELECT shop, MAX(p) FROM sales GROUP BY shop")[0].rows
    )
    assert "keep-values, because a row that goes has to go with the time with which it came" in explained

    script("SET 'table.optimizer.non-deterministic-update.strategy' = 'IGNORE'")
    accepted = "INSERT INTO shown SELECT shop, RAND() FROM sales WHERE NOW() > DATE '2026-01-01'"
    warned = [f"column {accepted.index(name) + 1}: {name} over a changelog may" for name in ("NOW", "RAND")]
    explained = "\n".join(row[0] for row in script(f"EXPLAIN {accepted}")[0].rows)
    assert "NOW over a changelog may give another value when a row is taken back." in explained
    caplog.clear()
    run(script, accepted)
    warnings = [each.getMessage() for each in caplog.records if "over a changelog" in each.getMessage()]
    assert len(warnings) == 1
    assert all(each in warnings[0] for each in warned)
    assert len(script.lines) == 8
    script(
        "SET 'execution.runtime-mode' = 'batch'; RESET 'table.optimizer.non-deterministic-update.strategy'"
    )
    assert script.rows(
        "SELECT id, p < NOW() + INTERVAL '1' DAY, shout(shop) FROM sales WHERE RAND() >= 0 ORDER BY id"
    ) == [
        (1, True, "B!"),
        (2, True, "A!"),
    ]


def test_metadata_of_change_data_is_of_the_record_that_changes_the_row(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic(suffix="t")
    judge.produce(bootstrap, source, *EVENTS)
    script(
        f"""
        CREATE TABLE sales (id INT, shop STRING, o BIGINT METADATA FROM 'offset', twice AS o + o, e BIGINT,
            PRIMARY KEY (id) NOT ENFORCED) {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE copy (id INT PRIMARY KEY NOT ENFORCED, shop STRING, o BIGINT) {upsert(bootstrap, target)};
        CREATE TABLE shown (shop STRING, o BIGINT) WITH ('connector' = 'print');
        """
    )
    summed = "INSERT INTO shown SELECT shop, SUM(o) FROM sales GROUP BY shop"
    for query, name in (
        (summed, "o"),
        ("INSERT INTO copy SELECT id, shop, o FROM sales WHERE id > 0", "o"),
        ("CREATE VIEW v AS SELECT id, twice FROM sales; SELECT * FROM v WHERE id > 0", "twice"),
        ("INSERT INTO copy SELECT id, shop, twice FROM sales WHERE id > 0", "twice"),
    ):
        assert f"the column '{name}' (METADATA FROM 'offset') over a changelog" in script.refusal(query)
    run(script, "INSERT INTO copy SELECT id, shop, o + 0 FROM sales")
    assert [tuple(row.values()) for row in written(bootstrap, target)] == [(1, "b", 3), (2, "a", 4)]
    script("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    run(script, summed)
    assert table(script.lines) == ["a, 4", "b, 3"]
