"""A warning before a stream starts, if Spark may drop rows of a slower topic partition."""

from __future__ import annotations

import pytest

from penstock.sql.language.parse import parse_statement
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateTable
from penstock.sql.query.rows import Rows
from penstock.sql.run._cuts import Notes, many_hops
from penstock.sql.run._explain import warnings_of
from penstock.sql.run._late_rows import check_drift, late_rows
from penstock.sql.run.catalog import Catalog, Table

RECORD = "ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL"
DRIFT = "'scan.watermark.alignment.max-drift'"


def table(column: str, delay: str, options: str = "", connector: str = "kafka") -> Table:
    more = f", {options}" if options else ""
    text = f"CREATE TABLE x (ms BIGINT, {column}, WATERMARK FOR ts AS ts{delay}) WITH ('connector' = '{connector}'{more})"
    found = parse_statement(text)
    assert isinstance(found, CreateTable)
    return Table(found, Source(text))


@pytest.mark.parametrize(
    ("column", "delay", "options", "expected"),
    [
        (RECORD, " - INTERVAL '5' SECOND", "", f"Set {DRIFT} = '5 s' in WITH"),
        (RECORD, " - INTERVAL '2' MINUTE", f"{DRIFT} = '0'", f"Set {DRIFT} = '2 min' in WITH"),
        (RECORD, "", "", f"Declare ts - INTERVAL '5' SECOND as WATERMARK. Set {DRIFT} = '5 s' in WITH"),
        ("ts TIMESTAMP_LTZ(3)", " - INTERVAL '5' SECOND", "", f"Set {DRIFT} = '5 s' and 'scan.event-time.column' = 'ts'"),
        ("ts TIMESTAMP_LTZ(3)", " - INTERVAL '5' SECOND", f"{DRIFT} = '5 s'", "'scan.event-time.column' = 'ts'"),
        ("ts TIMESTAMP(3)", " - INTERVAL '5' SECOND", "", "as long as the topic partitions may be apart"),
        ("ts AS TO_TIMESTAMP_LTZ(ms, 3)", "", "", "as long as the topic partitions may be apart"),
        (RECORD, " - INTERVAL '5' SECOND", f"{DRIFT} = '5 s'", None),
        (RECORD, " - INTERVAL '5' SECOND", f"{DRIFT} = '5 s', 'scan.event-time.column' = 'y'", DRIFT),
        ("ts TIMESTAMP_LTZ(3)", " - INTERVAL '5' SECOND", f"{DRIFT} = '5 s', 'scan.event-time.column' = 'ts'", None),
        (RECORD, " - INTERVAL '5' SECOND", "'format' = 'debezium-json'", None),
    ],
)  # fmt: skip
def test_rows_that_spark_may_drop(column: str, delay: str, options: str, expected: str | None) -> None:
    made = table(column, delay, options)
    warning = late_rows(made, made.options)
    if expected is None:
        assert warning is None
        return
    assert warning is not None
    assert "Spark may drop rows of 'x' as late that Flink keeps" in warning
    assert expected in warning


def test_a_table_outside_of_kafka_has_no_topic_partitions() -> None:
    made = table("ts TIMESTAMP(3)", "", connector="datagen")
    assert late_rows(made, made.options) is None


def test_a_drift_that_is_longer_than_the_watermark_waits_is_refused() -> None:
    made = table(RECORD, " - INTERVAL '5' SECOND", f"{DRIFT} = '1 min'")
    with pytest.raises(ValueError, match="is 1 min, and the WATERMARK waits 5 s"):
        check_drift(made, made.options)
    for drift in ("5 s", "5000", "0"):
        made = table(RECORD, " - INTERVAL '5' SECOND", f"{DRIFT} = '{drift}'")
        check_drift(made, made.options)


@pytest.mark.parametrize(
    ("sql", "is_warned"),
    [
        ("SELECT window(`ts`, '1000 milliseconds') FROM x", True),
        ("SELECT session_window(`ts`, '1000 milliseconds') FROM x", True),
        ("SELECT COUNT(*) FROM `cut1` GROUP BY `__window`, `k`", True),
        ("SELECT * FROM x JOIN y ON x.ts > y.ts - INTERVAL '1' HOUR", True),
        ("SELECT `ts` FROM x WHERE `window` > 1", False),
    ],
)
def test_only_a_query_that_drops_late_rows_is_warned_of(sql: str, is_warned: bool) -> None:
    catalog, made = Catalog(), table(RECORD, " - INTERVAL '5' SECOND")
    catalog.add(made.definition.name, made, if_not_exists=False)
    notes = Notes({(("x",), ()): Rows(), (("y",), ()): Rows()}, queries=[sql])
    assert len(list(warnings_of(notes, catalog))) == is_warned


def test_a_hop_of_many_windows_is_warned_of() -> None:
    assert many_hops(100, "line 1, column 2") == []
    notes = Notes(hops=many_hops(360, "line 1, column 2"))
    (warning,) = warnings_of(notes, Catalog())
    assert warning.startswith("line 1, column 2: HOP puts each row into 360 windows")
