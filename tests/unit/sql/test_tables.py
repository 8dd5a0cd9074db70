"""What a table is read and written with: its options, its event time, the database of a view."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.errors import OptionError, SqlError
from penstock.sql.language.parse import parse_script, parse_statement
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateView, Fragment, Insert, Name
from penstock.sql.plan.nodes import Scan, Watermark
from penstock.sql.plan.rewrite import nodes_in
from penstock.sql.run import _tables as tables
from penstock.sql.run import _targets as targets
from penstock.sql.run._inserts import Inserts
from penstock.sql.run._operators import made
from penstock.sql.run._queries import Queries
from penstock.sql.run._sinks import check_overwrite
from penstock.sql.run._views import SparkViews
from penstock.sql.run.catalog import Catalog, View
from penstock.sql.run.session import Session
from penstock.sql.run.settings import Settings
from tests.unit.sql.declared import FILES, KAFKA, table_of, with_options
from tests.unit.sql.planning import How, catalog_of, planned

KIND = "row_kind STRING METADATA FROM 'row-kind'"


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a INT", {"format": "debezium-json"}, "a batch of the format 'debezium-json' needs PRIMARY KEY"),
        ("row_kind STRING", {"format": "canal-json"}, "a batch of the format 'canal-json' needs PRIMARY KEY"),
        ("a INT", {"FORMAT": "ogg-json"}, "a batch of the format 'ogg-json' needs PRIMARY KEY"),
        (
            "a INT",
            {"format": "json", "value.format": "maxwell-json"},
            "mean the same: set one of them",
        ),
        ("a INT PRIMARY KEY NOT ENFORCED", {"format": "maxwell-json"}, ""),
        (
            "a INT PRIMARY KEY NOT ENFORCED",
            {"format": "json"},
            "a PRIMARY KEY is for tables whose rows change",
        ),
        (KIND, {"format": "debezium-json"}, ""),
        ("a INT", {"format": "json"}, ""),
        ("a INT", {"connector": "print"}, "only writes"),
        ("a INT", {"connector": "upsert-kafka"}, "needs PRIMARY KEY"),
        ("a INT PRIMARY KEY NOT ENFORCED", {"primary-key": "a", "format": "maxwell-json"}, "not for SQL"),
    ],
)
def test_options_are_checked_with_those_of_the_hint(
    columns: str, options: dict[str, str], message: str
) -> None:
    table = with_options("'connector' = 'kafka'", columns).hinted(tuple(options.items()))
    if not message:
        tables.check_use(table, is_read=True, is_batch=True)
        return
    with pytest.raises((ValueError, OptionError), match=message):
        tables.check_use(table, is_read=True, is_batch=True)


def test_the_hint_of_a_read_and_of_a_write_is_checked() -> None:
    catalog, settings = Catalog(), Settings()
    table = table_of("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'format' = 'json')")
    catalog.add(Name(("t",)), table, if_not_exists=False)
    read = "SELECT a FROM t /*+ OPTIONS('connector' = 'upsert-kafka') */"
    with pytest.raises(SqlError, match="needs PRIMARY KEY"):
        Queries(SparkViews(MagicMock()), catalog, settings).query(Fragment(read), Source(read))
    mocked = MagicMock()
    mocked.in_its_zone.side_effect = lambda work: work()
    inserts = Inserts(MagicMock(), catalog, settings, mocked, print)
    text = "INSERT INTO t /*+ OPTIONS('connector' = 'upsert-kafka') */ SELECT 1"
    insert = parse_script(text)[0].statement
    assert isinstance(insert, Insert)
    with pytest.raises(SqlError, match="needs PRIMARY KEY"):
        inserts.prepare(insert, Source(text))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"csv.field-delimiter": ";"}, "does not have the option 'csv.field-delimiter'"),
        ({"source.monitor-intervall": "1 s"}, "Did you mean 'source.monitor-interval'"),
        ({"source.monitor-interval": "soon"}, "'source.monitor-interval' cannot be 'soon'"),
        ({"format": "raw"}, "'format' cannot be 'raw'. Allowed: "),
        ({"path": ""}, "needs the option 'path'"),
        ({"sink.partition-commit.policy.kind": "success-file"}, "is not served: no marker"),
        ({"sink.rolling-policy.rollover-interval": "soon"}, "rollover-interval' cannot be 'soon'"),
        ({"sink.rolling-policy.rollover-interval": "1 min"}, ""),
        ({"source.monitor-interval": "1 s"}, ""),
    ],
)
@pytest.mark.parametrize("is_read", [False, True])
def test_an_option_of_files_that_has_no_effect_is_refused(
    more: dict[str, str], message: str, is_read: bool
) -> None:
    table = with_options(FILES).hinted(tuple(more.items()))
    if not message:
        tables.check_use(table, is_read=is_read)
        return
    with pytest.raises(ValueError, match=message):
        tables.check_use(table, is_read=is_read)


@pytest.mark.parametrize(("name", "is_strict"), [("json", True), ("csv", True), ("parquet", False)])
def test_a_wrong_value_in_a_file_stops_the_query(
    monkeypatch: pytest.MonkeyPatch, name: str, is_strict: bool
) -> None:
    monkeypatch.setattr(tables, "read_schema", lambda *_: "schema")
    spark = MagicMock()
    spark.read.option.return_value = spark.read
    tables.open_table(spark, with_options(FILES.replace("csv", name)), streaming=True)
    assert ((("mode", "FAILFAST"),) in spark.read.option.call_args_list) is is_strict
    spark.read.format.assert_called_once_with(name)


@pytest.mark.parametrize("is_insert", [False, True])
def test_a_row_without_an_event_time_stops_the_stream(is_insert: bool) -> None:
    """It does in an INSERT, too, where nothing waits for the watermark. Spark's optimizer keeps what varies."""
    text = "CREATE TABLE t (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ({})"
    found = planned("SELECT id FROM t", How(catalog=catalog_of(text.format(KAFKA)), is_insert=is_insert))
    [mark] = [each for each in nodes_in(found.plan) if isinstance(each, Watermark)]
    missing = "'The event time ts is NULL. Its row belongs to no window.'"
    varying = f"CASE WHEN rand(0) >= 0 THEN {missing} END"
    time = "coalesce(CAST(`s0`.`ts` AS TIMESTAMP), CAST(raise_error({}) AS TIMESTAMP))"
    rows = (
        f"SELECT `s0`.`id` AS `c0`, {time.format(varying if is_insert else missing)} AS `c2` FROM `t` AS `s0`"
    )
    if is_insert:
        assert (mark.delay_ms, found.made) == (None, ())
        assert found.sql == f"SELECT `q1`.`c0` AS `id` FROM ({rows}) AS `q1` WHERE `q1`.`c2` IS NOT NULL"
        return
    assert found.made == (f"Watermark_0: {rows}",)
    frame = MagicMock()
    assert made(mark, [frame], None, None) is frame.withWatermark.return_value
    frame.withWatermark.assert_called_once_with("c2", "2000 milliseconds")


def test_an_overwrite_by_a_stream_is_refused() -> None:
    files, kafka = (with_options(each).connector for each in (FILES, KAFKA))
    check_overwrite(files, is_stream=False)
    for connector, streaming, message in [
        (files, True, "not for a stream"),
        (kafka, False, "The connector 'kafka' only adds rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_overwrite(connector, is_stream=streaming)


def test_a_view_reads_the_tables_of_its_own_database() -> None:
    catalog = Catalog(databases={"default_database", "d"})
    for database, topic in [("default_database", "mine"), ("d", "other")]:
        made = with_options(KAFKA.replace("'x'", f"'{topic}'"))
        catalog.add(Name((database, "t")), made, if_not_exists=False)
    text = "CREATE VIEW v AS SELECT id FROM t"
    view = parse_statement(text)
    assert isinstance(view, CreateView)
    catalog.add(view.name, View(view, Source(text), catalog.database), if_not_exists=False)
    catalog.database = "d"
    plan = planned("SELECT v.id FROM default_database.v JOIN t ON v.id = t.id", How(catalog=catalog)).plan
    scans: list[Any] = [each.source.key for each in nodes_in(plan) if isinstance(each, Scan)]
    assert [table.connector.given["topic"] for table, _ in scans] == ["mine", "other"]
    assert catalog.database == "d"


def test_a_table_is_not_renamed_onto_another() -> None:
    spark = MagicMock()
    spark.conf.get.side_effect = NEEDED.get
    session = Session(spark)
    for name in ("a", "b"):
        table = table_of(f"CREATE TABLE {name} (i INT)")
        session._catalog.add(table.definition.name, table, if_not_exists=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.sql.run._declarations.check_parts", lambda *_: None)
        for target, message in [("b", "there is a table or view 'b' already"), ("x.b", "no database 'x'")]:
            with pytest.raises(SqlError, match=message):
                session.execute(f"ALTER TABLE a RENAME TO {target}")
        session.execute("ALTER TABLE a RENAME TO c")
    assert session._catalog.names() == ["b", "c"]


NEEDED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.statefulOperator.allowMultiple": "true",
    "spark.sql.streaming.unsupportedOperationCheck": "true",
    "spark.sql.timestampType": "timestamp_ltz",
}


@pytest.mark.parametrize("option", NEEDED)
def test_an_option_of_spark_that_would_change_values_is_refused(option: str) -> None:
    wrong = {**NEEDED, option: "false" if NEEDED[option] == "true" else "true"}
    spark = MagicMock()
    spark.conf.get.side_effect = wrong.get
    with pytest.raises(OptionError, match=f"{option} is {wrong[option]}"):
        Session(spark)
    with pytest.raises(ValueError, match=f"'{option}' has to be {NEEDED[option]}"):
        Settings().set(option, wrong[option])
    assert Settings().set(option, NEEDED[option]) == option
    with pytest.raises(ValueError, match="old behaviours change values"):
        Settings().set("spark.sql.legacy.timeParserPolicy", "LEGACY")


def test_a_column_that_insert_names_twice_is_refused() -> None:
    with pytest.raises(SqlError, match="INSERT names the column 'a' twice"):
        parse_statement("INSERT INTO t (a, b, a) SELECT 1, 2, 3")


@pytest.mark.parametrize(
    ("given", "column", "is_taken"),
    [
        ("timestamp_ntz", "TIMESTAMP(3)", True),
        ("timestamp", "TIMESTAMP(3)", True),
        ("date", "TIMESTAMP(3)", False),
        ("date", "TIMESTAMP_LTZ(3)", False),
        ("timestamp_ntz", "DATE", False),
        ("int", "BIGINT", True),
        ("bigint", "DOUBLE", True),
        ("bigint", "INT", False),
        ("int", "STRING", False),
        ("void", "DATE", True),
    ],
)
def test_an_insert_takes_the_types_that_flink_takes(
    monkeypatch: pytest.MonkeyPatch, given: str, column: str, is_taken: bool
) -> None:
    monkeypatch.setattr(tables, "parsed_type", lambda kind: MagicMock(simpleString=kind.lower))
    frame = MagicMock(columns=["a"])
    field = MagicMock(name="a")
    field.dataType.simpleString.return_value = given
    frame.schema.fields = [field]
    table = table_of(f"CREATE TABLE t (a {column}) WITH ('connector' = 'kafka')")
    if is_taken:
        assert targets.rows_for(frame, table, ()) is not None
        return
    with pytest.raises(ValueError, match="Write CAST"):
        targets.rows_for(frame, table, ())
