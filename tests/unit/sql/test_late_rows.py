"""A warning before a stream starts, if Spark may drop rows of a slower topic partition."""

from __future__ import annotations

import pytest

from penstock.sql.connectors.options import WrongOptionError
from penstock.sql.language.source import Source as ScriptSource
from penstock.sql.plan.nodes import Source
from penstock.sql.run._cuts import Notes, Reads, note_plan, overlapping_windows_warning
from penstock.sql.run._explain import warnings_of
from penstock.sql.run._late_rows import check_drift, late_rows
from penstock.sql.run.catalog import Catalog, Table
from tests.unit.sql.declared import TOPIC, with_options
from tests.unit.sql.planning import planned

RECORD = "ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL"
JSON = "'format' = 'json'"
DRIFT = "'scan.watermark.alignment.max-drift'"


def table(column: str, delay: str, options: str = "", connector: str = "kafka") -> Table:
    more = f", {options}" if options else ""
    of_kafka = f", {TOPIC}" if connector == "kafka" else ""
    columns = f"ms BIGINT, {column}, WATERMARK FOR ts AS ts{delay}"
    return with_options(f"'connector' = '{connector}'{of_kafka}{more}", columns)


@pytest.mark.parametrize(
    ("column", "delay", "options", "expected"),
    [
        (RECORD, " - INTERVAL '5' SECOND", "", f"Set {DRIFT} = '5 s' in WITH"),
        (RECORD, " - INTERVAL '2' MINUTE", f"{JSON}, {DRIFT} = '0'", f"Set {DRIFT} = '2 min' in WITH"),
        (RECORD, "", "", f"Declare ts - INTERVAL '5' SECOND as WATERMARK. Set {DRIFT} = '5 s' in WITH"),
        ("ts TIMESTAMP_LTZ(3)", " - INTERVAL '5' SECOND", "", f"Set {DRIFT} = '5 s' and 'scan.event-time.column' = 'ts'"),
        ("ts TIMESTAMP_LTZ(3)", " - INTERVAL '5' SECOND", f"{JSON}, {DRIFT} = '5 s'", "'scan.event-time.column' = 'ts'"),
        ("ts TIMESTAMP(3)", " - INTERVAL '5' SECOND", "", "as long as the topic partitions may be apart"),
        ("ts AS TO_TIMESTAMP_LTZ(ms, 3)", "", "", "as long as the topic partitions may be apart"),
        (RECORD, " - INTERVAL '5' SECOND", f"{DRIFT} = '5 s'", None),
        (RECORD, " - INTERVAL '5' SECOND", f"{JSON}, {DRIFT} = '5 s', 'scan.event-time.column' = 'y'", DRIFT),
        ("ts TIMESTAMP_LTZ(3)", " - INTERVAL '5' SECOND", f"{JSON}, {DRIFT} = '5 s', 'scan.event-time.column' = 'ts'", None),
        (RECORD, " - INTERVAL '5' SECOND", "'format' = 'debezium-json'", None),
    ],
)  # fmt: skip
def test_rows_that_spark_may_drop(column: str, delay: str, options: str, expected: str | None) -> None:
    made = table(column, delay, options)
    warning = late_rows(made)
    if expected is None:
        assert warning is None
        return
    assert warning is not None
    assert "Spark may drop rows of 'x' as late that Flink keeps" in warning
    assert expected in warning


def test_a_table_outside_of_kafka_has_no_topic_partitions() -> None:
    made = table("ts TIMESTAMP(3)", "", connector="datagen")
    assert late_rows(made) is None


def test_a_drift_that_is_longer_than_the_watermark_waits_is_refused() -> None:
    made = table(RECORD, " - INTERVAL '5' SECOND", f"{DRIFT} = '1 min'")
    with pytest.raises(WrongOptionError, match="is 1 min, and the WATERMARK waits 5 s") as error:
        check_drift(made)
    assert error.value.option == DRIFT.strip("'")
    for drift in ("5 s", "5000", "0"):
        made = table(RECORD, " - INTERVAL '5' SECOND", f"{DRIFT} = '{drift}'")
        check_drift(made)


TUMBLE = "TABLE(TUMBLE(TABLE w, DESCRIPTOR(ltz), INTERVAL '1' HOUR))"
GROUPS = f"SELECT window_start AS s, window_end AS e, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end"
JOIN = "SELECT t.i FROM t JOIN w AS u ON t.i = u.i AND u.ltz"


@pytest.mark.parametrize(
    ("query", "is_warned"),
    [
        (GROUPS, True),
        (f"SELECT MAX(n) FROM (SELECT n AS n FROM ({GROUPS}))", True),
        ("SELECT COUNT(*) FROM w GROUP BY SESSION(ltz, INTERVAL '1' HOUR)", True),
        (f"{JOIN} BETWEEN t.ltz - INTERVAL '1' HOUR AND t.ltz", True),
        (f"SELECT i FROM ({JOIN} = t.ltz)", True),
        (f"{JOIN} BETWEEN t.ltz - INTERVAL '1' HOUR AND t.l", False),
        ("SELECT i, SUM(l) OVER (PARTITION BY s ORDER BY ltz) FROM t", True),
        ("SELECT i FROM t ORDER BY ltz", True),
        (
            "SELECT i FROM TABLE(SESSION(TABLE t PARTITION BY s, DESCRIPTOR(ltz), INTERVAL '1' HOUR))",
            True,
        ),
        ("SELECT t.i FROM t JOIN c FOR SYSTEM_TIME AS OF t.ltz ON t.i = c.i", True),
        (f"SELECT window_start, i FROM {TUMBLE}", False),
        ("SELECT COUNT(*) FROM c GROUP BY TUMBLE(ltz, INTERVAL '1' HOUR)", False),
        ("SELECT i + 1 FROM u WHERE ltz > TIMESTAMP '2026-01-01 00:00:00'", False),
    ],
)
def test_only_a_query_that_drops_late_rows_is_warned_of(query: str, is_warned: bool) -> None:
    catalog, made = Catalog(), table(RECORD, " - INTERVAL '5' SECOND")
    catalog.add(made.definition.name, made, if_not_exists=False)
    found = planned(query)
    reads: Reads = {((name,), ()): Source(None, name, is_stream=True) for name in "xy"}
    note_plan(notes := Notes(), found.plan, reads, found.traits, ScriptSource(query), None)
    assert len(list(warnings_of(notes, catalog))) == is_warned


def test_a_hop_of_many_windows_is_warned_of() -> None:
    assert overlapping_windows_warning(100, "line 1, column 2") == []
    notes = Notes(hops=overlapping_windows_warning(360, "line 1, column 2"))
    (warning,) = warnings_of(notes, Catalog())
    assert warning.startswith("line 1, column 2: HOP puts each row into 360 windows")
