"""Scripts are read into statements, or refused with line and column, and with what was expected."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SqlError
from penstock.sql.language.flink_types import Field, FlinkType
from penstock.sql.language.parse import parse_script, parse_statement
from penstock.sql.language.statements import (
    AlterTable,
    ComputedColumn,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Fragment,
    Insert,
    Like,
    MetadataColumn,
    Name,
    OnConflict,
    PhysicalColumn,
    ResetOption,
    Select,
    SetOption,
    Show,
    Statement,
    StatementSet,
    Use,
    Watermark,
)

ORDERS = """
-- orders; of all shops
CREATE TEMPORARY TABLE IF NOT EXISTS shop.orders (
  id BIGINT NOT NULL COMMENT 'it''s the id',
  `from` ROW<city STRING 'where', zip CHAR(5)>,
  ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  `offset` BIGINT METADATA,
  cost AS price * (1 + COALESCE(tax, 0)) COMMENT 'with tax',
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'orders' PARTITIONED BY (id) WITH ('connector' = 'kafka', 'a' = 'it''s') LIKE base (INCLUDING ALL
  OVERWRITING OPTIONS);
"""


def name(text: str) -> Name:
    return Name(tuple(text.split(".")))


def test_create_table_with_all_its_parts() -> None:
    zip_code = FlinkType("CHAR", (5,))
    row = FlinkType("ROW", fields=(Field("city", FlinkType("STRING"), "where"), Field("zip", zip_code)))
    assert parse_statement(ORDERS) == CreateTable(
        name("shop.orders"),
        (
            PhysicalColumn("id", FlinkType("BIGINT", nullable=False), "it's the id"),
            PhysicalColumn("from", row),
            MetadataColumn("ts", FlinkType("TIMESTAMP_LTZ", (3,)), "timestamp", virtual=True),
            MetadataColumn("offset", FlinkType("BIGINT")),
            ComputedColumn("cost", Fragment("price * (1 + COALESCE(tax, 0))"), "with tax"),
        ),
        Watermark("ts", Fragment("ts - INTERVAL '5' SECOND")),
        ("id",),
        "orders",
        ("id",),
        (("connector", "kafka"), ("a", "it's")),
        Like(name("base"), (("INCLUDING", "ALL"), ("OVERWRITING", "OPTIONS"))),
        None,
        temporary=True,
        if_not_exists=True,
    )


INSERT = Insert(name("t"), Fragment("SELECT 1"))
STATEMENTS: list[tuple[str, Statement]] = [
    ("SELECT a FROM t WHERE b = ';'", Select(Fragment("SELECT a FROM t WHERE b = ';'"))),
    ("(SELECT 1) UNION ALL (SELECT 2)", Select(Fragment("(SELECT 1) UNION ALL (SELECT 2)"))),
    ("with x as (select 1) select * from x", Select(Fragment("with x as (select 1) select * from x"))),
    ("INSERT INTO t SELECT 1", INSERT),
    ("insert into t (a, b) VALUES (1, 2)", Insert(name("t"), Fragment("VALUES (1, 2)"), ("a", "b"))),
    ("INSERT INTO t (SELECT 1)", Insert(name("t"), Fragment("(SELECT 1)"))),
    ("INSERT OVERWRITE t SELECT 1", Insert(name("t"), Fragment("SELECT 1"), overwrite=True)),
    *(
        (f"INSERT INTO t SELECT 1 ON CONFLICT DO {each}", replace(INSERT, on_conflict=OnConflict(each)))
        for each in ("NOTHING", "ERROR", "DEDUPLICATE")
    ),
    (
        "INSERT INTO t SELECT a FROM x JOIN y ON conflict = b",
        Insert(name("t"), Fragment("SELECT a FROM x JOIN y ON conflict = b")),
    ),
    (
        "INSERT INTO t /*+ OPTIONS('a'='b') */ SELECT 1",
        Insert(name("t"), Fragment("SELECT 1"), hints=(("a", "b"),)),
    ),
    ("EXECUTE INSERT INTO t SELECT 1", INSERT),
    (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; INSERT INTO t SELECT 1; END",
        StatementSet((INSERT, INSERT)),
    ),
    ("BEGIN STATEMENT SET; INSERT INTO t SELECT 1; END", StatementSet((INSERT,))),
    (
        "CREATE TABLE t WITH ('a' = 'b') AS SELECT 1",
        CreateTable(name("t"), options=(("a", "b"),), query=Fragment("SELECT 1")),
    ),
    (
        "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED)",
        CreateTable(name("t"), (PhysicalColumn("a", FlinkType("INT")),), primary_key=("a",)),
    ),
    (
        "CREATE TABLE t (a INT ARRAY, CONSTRAINT k PRIMARY KEY (a) NOT ENFORCED)",
        CreateTable(
            name("t"),
            (PhysicalColumn("a", FlinkType("ARRAY", elements=(FlinkType("INT"),))),),
            primary_key=("a",),
        ),
    ),
    (
        "CREATE VIEW v (a, b) COMMENT 'c' AS SELECT 1, 2",
        CreateView(name("v"), Fragment("SELECT 1, 2"), ("a", "b"), "c"),
    ),
    (
        "CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT 1",
        CreateView(name("v"), Fragment("SELECT 1"), temporary=True, if_not_exists=True),
    ),
    ("CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON", CreateFunction(name("f"), "m.f")),
    ("CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON NOT DETERMINISTIC", CreateFunction(name("f"), "m.f")),
    (
        "CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON DETERMINISTIC",
        CreateFunction(name("f"), "m.f", is_deterministic=True),
    ),
    ("CREATE DATABASE IF NOT EXISTS d", CreateDatabase(name("d"), if_not_exists=True)),
    ("SET", SetOption()),
    ("SET 'pipeline.name' = 'a job'", SetOption("pipeline.name", "a job")),
    ("SET execution.checkpointing.interval = 10s", SetOption("execution.checkpointing.interval", "10s")),
    ("RESET", ResetOption()),
    ("RESET 'pipeline.name'", ResetOption("pipeline.name")),
    ("SHOW TABLES LIKE 'a%'", Show("TABLES", like="a%")),
    ("SHOW CREATE TABLE d.t", Show("CREATE TABLE", name("d.t"))),
    ("SHOW COLUMNS FROM t", Show("COLUMNS", name("t"))),
    ("DESC t", Describe(name("t"))),
    ("DESCRIBE EXTENDED d.t", Describe(name("d.t"))),
    ("EXPLAIN SELECT 1", Explain(Select(Fragment("SELECT 1")))),
    ("EXPLAIN PLAN FOR INSERT INTO t SELECT 1", Explain(INSERT)),
    (
        "EXPLAIN CHANGELOG_MODE, PLAN_ADVICE SELECT 1",
        Explain(Select(Fragment("SELECT 1")), ("CHANGELOG_MODE", "PLAN_ADVICE")),
    ),
    ("EXPLAIN STATEMENT SET BEGIN INSERT INTO t SELECT 1; END", Explain(StatementSet((INSERT,)))),
    ("DROP TEMPORARY TABLE IF EXISTS t", Drop("TABLE", name("t"), if_exists=True, temporary=True)),
    ("DROP VIEW v", Drop("VIEW", name("v"))),
    ("USE d", Use(name("d"))),
    ("ALTER TABLE t SET ('a' = 'b')", AlterTable(name("t"), set_options=(("a", "b"),))),
    ("ALTER TABLE IF EXISTS t RESET ('a')", AlterTable(name("t"), if_exists=True, reset_options=("a",))),
    ("ALTER TABLE t RENAME TO u", AlterTable(name("t"), rename_to=name("u"))),
    ("ALTER TABLE t RENAME a TO b", AlterTable(name("t"), rename_column=("a", "b"))),
    (
        "ALTER TABLE t ADD (a INT, b AS a + 1)",
        AlterTable(
            name("t"), add=(PhysicalColumn("a", FlinkType("INT")), ComputedColumn("b", Fragment("a + 1")))
        ),
    ),
    (
        "ALTER TABLE t ADD WATERMARK FOR a AS a",
        AlterTable(name("t"), add_watermark=Watermark("a", Fragment("a"))),
    ),
]


@pytest.mark.parametrize(("text", "expected"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_a_statement_is_read(text: str, expected: Statement) -> None:
    assert parse_statement(text) == expected
    assert parse_statement(f"-- a comment\n{text} ; ") == expected


def test_types_and_their_synonyms() -> None:
    text = (
        "CREATE TABLE t (a DEC(10, 2), b INTEGER, c DOUBLE PRECISION, d TIMESTAMP(3) WITH LOCAL TIME ZONE, "
        "e TIMESTAMP WITHOUT TIME ZONE, f MAP<STRING, ARRAY<ROW<x INT NOT NULL>>>, g ROW(y INT), "
        "h INTERVAL DAY(3) TO SECOND(6), i MULTISET<INT>, j VARCHAR NULL)"
    )
    table = parse_statement(text)
    assert isinstance(table, CreateTable)
    types = [column.type for column in table.columns if isinstance(column, PhysicalColumn)]
    x = FlinkType("ROW", fields=(Field("x", FlinkType("INT", nullable=False)),))
    assert types == [
        FlinkType("DECIMAL", (10, 2)),
        FlinkType("INT"),
        FlinkType("DOUBLE"),
        FlinkType("TIMESTAMP_LTZ", (3,)),
        FlinkType("TIMESTAMP"),
        FlinkType("MAP", elements=(FlinkType("STRING"), FlinkType("ARRAY", elements=(x,)))),
        FlinkType("ROW", fields=(Field("y", FlinkType("INT")),)),
        FlinkType("INTERVAL", unit="DAY TO SECOND"),
        FlinkType("MULTISET", elements=(FlinkType("INT"),)),
        FlinkType("VARCHAR"),
    ]


WRONG = [
    ("SELCT 1", 1, "expected 'SELECT', 'INSERT'", "Did you mean 'SELECT'?"),
    ("CREATE TABEL t (a INT)", 8, "expected 'TABLE'", "Did you mean 'TABLE'?"),
    ("CREATE TABLE t (a INTT)", 19, "expected a type, got 'INTT'", "Did you mean 'INT'?"),
    ("CREATE TABLE t (a INT b INT)", 23, "expected ',', ')'", ""),
    ("CREATE TABLE t (a INT, a STRING)", 33, "", "declared twice"),
    (
        "CREATE TABLE t (a INT, PRIMARY KEY (a))",
        39,
        "expected 'NOT ENFORCED', got ')'",
        "Kafka does not check keys",
    ),
    ("CREATE TABLE t (a INT) WITH ('a' 'b')", 34, "expected '=', got a text in quotes", ""),
    ("CREATE TABLE t (a INT) WITH ('a' = b)", 36, "expected the value of 'a' in quotes", ""),
    ("CREATE TABLE t (a INT) WITH ('a' = 'b', 'a' = 'c')", 41, "the option 'a' is given twice", ""),
    ("CREATE TABLE t (a INT) WITH (...)", 30, "replace the '...' by options", ""),
    ("CREATE TABLE t (a DECIMAL(39, 2))", 26, "at most 38", ""),
    ("CREATE TABLE t (a TIMESTAMP WITH TIME ZONE)", 29, "Use TIMESTAMP_LTZ", ""),
    ("CREATE TABLE t (a RAW('x', 'y'))", 22, "RAW types hold serialized Java objects", ""),
    ("CREATE TABLE t", 15, "expected '(', 'WITH', 'LIKE' or 'AS', got the end", ""),
    ("CREATE TABLE a.b.c.d (x INT)", 14, "at most three parts", ""),
    ("CREATE FUNCTION f AS 'a.B'", 27, "only LANGUAGE PYTHON is served", ""),
    ("CREATE FUNCTION f AS 'a' LANGUAGE PYTHON", 22, "'module.function'", ""),
    ("CREATE OR REPLACE TABLE t (a INT)", 8, "OR REPLACE is not served", ""),
    ("INSERT t SELECT 1", 8, "expected 'INTO' or 'OVERWRITE'", ""),
    ("INSERT INTO t SELECT 1 ON CONFLICT DO UPDATE", 39, "expected 'NOTHING', 'ERROR' or 'DEDUPLICATE'", ""),
    ("INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING x", 47, "expected ';'", ""),
    ("INSERT INTO t", 14, "expected 'SELECT', 'VALUES' or 'WITH', got the end", ""),
    ("INSERT INTO t PARTITION (a = 1) SELECT 1", 15, "PARTITION (...) of INSERT is not served", ""),
    ("SELECT (1", 10, "expected ')', got the end", ""),
    ("SELECT 1)", 9, "expected ';', got ')'", ""),
    ("SELECT 1; SHOW TABLS", 16, "expected 'TABLES'", "Did you mean 'TABLES'?"),
    ("EXECUTE STATEMENT SET BEGIN END", 32, "at least one INSERT", ""),
    ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", 29, "expected 'INSERT' or 'END'", ""),
    ("ALTER TABLE t DROP a", 15, "ALTER TABLE ... DROP is not served", ""),
    ("EXPLAIN DROP TABLE t", 21, "EXPLAIN takes a query", ""),
    ("SET 'a'", 8, "expected '=', got the end", ""),
    ("CREATE TABLE t (a INT) LIKE u (INCLUDING EVERYTHING)", 42, "expected 'ALL'", ""),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), WRONG, ids=[each[0] for each in WRONG])
def test_a_wrong_text_is_refused_with_its_position(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(SqlError) as error:
        parse_script(f"SELECT 1;\n{text}")
    shown = str(error.value)
    assert shown.startswith(f"Line 2, column {column}: "), shown
    assert message in shown
    assert hint in shown
    assert shown.split("\n")[1] == f"  {text}"
    assert shown.split("\n")[2] == f"  {' ' * (column - 1)}^"
    assert error.value.facts == {"line": 2, "column": column}


UNSERVED = [
    "CREATE CATALOG c WITH ('type' = 'hive')",
    "CREATE MODEL m",
    "CREATE MATERIALIZED TABLE t AS SELECT 1",
    "CREATE TEMPORARY SYSTEM FUNCTION f AS 'a.b'",
    "ALTER VIEW v RENAME TO w",
    "DROP CATALOG c",
    "USE CATALOG c",
    "USE MODULES a",
    "LOAD MODULE hive",
    "ADD JAR '/x.jar'",
    "REMOVE JAR '/x.jar'",
    "CALL p()",
    "ANALYZE TABLE t COMPUTE STATISTICS",
    "TRUNCATE TABLE t",
    "UPDATE t SET a = 1",
    "DELETE FROM t",
    "QUIT",
    "COMPILE PLAN 'p' FOR INSERT INTO t SELECT 1",
    "EXECUTE PLAN 'p'",
]


@pytest.mark.parametrize("text", UNSERVED)
def test_a_statement_that_is_not_served_is_refused_by_name_with_what_to_use(text: str) -> None:
    with pytest.raises(SqlError, match=r"(?s)Line 1, column \d+: [A-Z ]+ is not served: .+\.\n") as error:
        parse_script(text)
    said = re.search(r": ([A-Z ]+) is not served", str(error.value))
    assert said is not None
    assert set(said.group(1).split()) <= set(text.split())


def test_an_empty_script_has_no_statements() -> None:
    assert parse_script(" ;; -- nothing\n /* at all */ ") == []
    with pytest.raises(SqlError, match="expected one statement, got 0"):
        parse_statement("")


def test_each_statement_keeps_its_text_and_offset() -> None:
    first, second = parse_script("SET 'a' = 'b' ;\n SELECT 1\n;")
    assert (first.text, first.offset) == ("SET 'a' = 'b'", 0)
    assert (second.text, second.offset) == ("SELECT 1", 17)


@pytest.mark.parametrize(("kind", "column"), [("ARRAY<" * 1_000, 265), ("INT" + " ARRAY" * 1_000, 263)])
def test_types_that_are_nested_too_deeply_are_refused(kind: str, column: int) -> None:
    with pytest.raises(SqlError, match="more than 40 types are nested") as error:
        parse_script(f"CREATE TABLE x (a {kind})")
    assert error.value.facts["column"] == column


def check_position(error: SqlError) -> None:
    assert str(error).startswith("Line ")


WORDS = sorted(set(re.findall(r"[A-Za-z_]+|[^\sA-Za-z]", " ".join(text for text, _ in STATEMENTS) + ORDERS)))


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=20))
def test_no_text_ends_in_anything_but_statements_or_a_position(words: list[str]) -> None:
    try:
        parse_script(" ".join(words))
    except SqlError as error:
        check_position(error)


@given(st.sampled_from([ORDERS, *(text for text, _ in STATEMENTS)]), st.data())
def test_a_text_with_a_mistake_ends_in_statements_or_a_position(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(start + 5, len(text))))
    try:
        parse_script(
            text[:start] + data.draw(st.sampled_from(["", ")", "(", "'", ",", ";", "`", "AS"])) + text[stop:]
        )
    except SqlError as error:
        check_position(error)
