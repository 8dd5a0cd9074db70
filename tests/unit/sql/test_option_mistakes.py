"""Mistakes in options: where each is found, and what the message shows. No Spark and no broker runs."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from penstock.errors import SqlError
from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment, Insert
from penstock.sql.run import _tables as tables
from penstock.sql.run._inserts import Inserts
from penstock.sql.run._queries import Queries
from penstock.sql.run.catalog import Table
from penstock.sql.run.session import Session
from penstock.sql.run.settings import NEEDED
from tests.unit.sql.declared import FOUND

ROWS = StructType().add("id", LongType()).add("s", StringType())
SERVERS = "'properties.bootstrap.servers' = 'localhost:9092'"
PLAIN = f"'connector' = 'kafka', 'topic' = 'x', 'format' = 'json', {SERVERS}"
UPSERT = (
    f"'connector' = 'upsert-kafka', 'topic' = 'x', 'key.format' = 'json', 'value.format' = 'json', {SERVERS}"
)
EXACTLY_ONCE = "'sink.delivery-guarantee' = 'exactly-once'"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose Spark does nothing."""
    monkeypatch.setattr(tables, "parsed_type", {"BIGINT": LongType(), "STRING": StringType()}.__getitem__)
    spark = MagicMock()
    spark.conf.get.side_effect = lambda key, *_: NEEDED.get(key, ("false", ""))[0]
    return Session(spark)


def created(options: str, columns: str = "id BIGINT, s STRING") -> str:
    return f"CREATE TABLE t (\n  {columns}\n) WITH (\n  {options}\n)"


def refusal(session: Session, text: str) -> SqlError:
    with pytest.raises(SqlError) as found:
        session.execute(text)
    return found.value


def read(session: Session) -> None:
    text = "SELECT * FROM t"
    session._queries.query(Fragment(text), Source(text))


def write(session: Session, hint: str = "", end: str = "") -> None:
    """Prepare an INSERT of two columns, as INSERT and EXPLAIN do."""
    frame = MagicMock(schema=ROWS, columns=["id", "s"], isStreaming=True)
    frame.selectExpr.return_value = frame
    queries = MagicMock(spec=Queries, views=MagicMock(zone_is_utc=True, foreign_zone=None))
    queries.in_its_zone.side_effect = lambda work: work()
    queries.query.return_value = replace(FOUND, frame=frame)
    inserts = Inserts(session.spark, session._catalog, session._settings, queries, print)
    text = f"INSERT INTO t {hint} SELECT 1, 'a'{end}"
    insert = parse_script(text)[0].statement
    assert isinstance(insert, Insert)
    inserts.prepare(insert, Source(text), is_explained=True)


@pytest.mark.parametrize(
    ("options", "column", "message"),
    [
        (f"{PLAIN}, 'scan.startup.mod' = 'x'", "scan.startup.mod", "Did you mean 'scan.startup.mode'?"),
        (f"{PLAIN}, 'scan.startup.mode' = 'earliest'", "scan.startup.mode", "cannot be 'earliest'. Allowed: "),
        (f"{PLAIN}, 'Scan.Startup.Mode' = 'earliest'", "Scan.Startup.Mode", "cannot be 'earliest'"),
        (f"{PLAIN}, 'scan.idle-timeout' = 'soon'", "scan.idle-timeout", "cannot be 'soon'"),
        (f"{PLAIN}, 'sink.delivery-guarantee' = 'once'", "sink.delivery-guarantee", "cannot be 'once'"),
        (PLAIN.replace("servers", "server"), "properties.bootstrap.server", "Did you mean 'properties.bootstrap.servers'?"),
        (f"{PLAIN}, 'properties.max.pol.records' = '5'", "properties.max.pol.records", "Did you mean 'properties.max.poll.records'?"),
        (f"{PLAIN}, 'properties.acks' = 'some'", "properties.acks", "cannot be 'some'"),
        (f"{UPSERT}, 'scan.startup.mode' = 'latest-offset'", "scan.startup.mode", "cannot be set with 'connector' = 'upsert-kafka'"),
        (f"{PLAIN}, 'sink.buffer-flush.max-rows' = '5'", "sink.buffer-flush.max-rows", "needs 'connector' = 'upsert-kafka'"),
        (f"{PLAIN}, 'primary-key' = 'id'", "primary-key", "is not for SQL. Write PRIMARY KEY"),
        (PLAIN.replace("json", "jsn"), "format", "cannot be 'jsn'. Did you mean 'json'?"),
        (f"{PLAIN}, 'key.format' = 'jsn'", "key.format", "cannot be 'jsn'"),
        (f"{PLAIN}, 'json.fail-on-missing-fild' = 'true'", "json.fail-on-missing-fild", "Did you mean 'json.fail-on-missing-field'?"),
        (f"{PLAIN}, 'json.ignore-parse-errors' = 'yes'", "json.ignore-parse-errors", "cannot be 'yes'. Allowed: "),
        (f"{PLAIN}, 'Json.Ignore-Parse-Errors' = 'yes'", "Json.Ignore-Parse-Errors", "cannot be 'yes'"),
        (PLAIN.replace("json", "csv") + ", 'csv.field-delimitr' = ';'", "csv.field-delimitr", "Did you mean 'csv.field-delimiter'?"),
        (PLAIN.replace("json", "csv") + ", 'csv.ignore-parse-errors' = '1'", "csv.ignore-parse-errors", "cannot be '1'"),
        (PLAIN.replace("json", "CSV ") + ", 'csv.field-delimiter' = ';;'", "csv.field-delimiter", "cannot be ';;'"),
        (PLAIN.replace("json", "avro-confluent") + ", 'avro-confluent.ur' = 'http://r'", "avro-confluent.ur", "Did you mean 'avro-confluent.url'?"),
        (PLAIN.replace("json", "avro-confluent") + ", 'avro-confluent.url' = 'hunter2'", "avro-confluent.url", "(a secret, not shown) is not allowed"),
        (f"{UPSERT}, 'value.json.ignore-parse-errors' = '1'", "value.json.ignore-parse-errors", "cannot be '1'"),
        (f"{UPSERT}, 'key.json.ignore-parse-eror' = 'true'", "key.json.ignore-parse-eror", "Did you mean 'key.json.ignore-parse-errors'?"),
        (f"{PLAIN}, 'subscribe' = 'x'", "subscribe", "Options of two dialects are mixed"),
        ("'connector' = 'jdbc', 'url' = 'jdbc:x:y', 'tablename' = 'x'", "tablename", "Did you mean 'table-name'?"),
        ("'connector' = 'jdbc', 'scan.partition.num' = '0'", "scan.partition.num", "cannot be '0'"),
        ("'connector' = 'filesystem', 'path' = '/x', 'formt' = 'csv'", "formt", "Did you mean 'format'?"),
        ("'connector' = 'datagen', 'rows-per-secund' = '1'", "rows-per-secund", "Did you mean 'rows-per-second'?"),
    ],
)  # fmt: skip
def test_an_option_that_is_wrong_by_itself_is_refused_by_create_table(
    session: Session, options: str, column: str, message: str
) -> None:
    text = created(options)
    line = text.split("\n")[3]
    found = refusal(session, text)
    assert message in found.message
    assert (found.facts["line"], found.facts["column"]) == (4, line.index(f"'{column}'") + 1)
    assert found.message.endswith(f"{' ' * (found.facts['column'] + 1)}^") or len(line) > 75
    assert session._catalog.find(("t",)) is None


@pytest.mark.parametrize(
    "options",
    [
        "'connector' = 'nats'",
        "'connector' = 'kafka'",
        "'connector' = 'upsert-kafka', 'scan.startup.mode' = 'earliest-offset'",
        "'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1'",
        f"{PLAIN}, {EXACTLY_ONCE}",
        f"{PLAIN}, 'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'SCRAM-SHA-512', "
        "'properties.sasl.jaas.config' = 'x password=\"${env:PENSTOCK_NO_SUCH}\";'",
        f"{PLAIN}, 'properties.enable.auto.commit' = 'true', 'properties.no.such.thing' = '1'",
        PLAIN.replace("json", "avro-confluent"),
        PLAIN.replace("json", "avro-confluent")
        + ", 'avro-confluent.url' = '${env:PENSTOCK_NO_SUCH}', 'avro-confluent.basic-auth.credentials-source' = "
        "'USER_INFO', 'avro-confluent.basic-auth.user-info' = '${env:PENSTOCK_NO_SUCH}'",
        PLAIN.replace("json", "protobuf") + ", 'protobuf.message-class-name' = 'no.such.Message'",
        PLAIN.replace("json", "avro") + ", 'avro.timestamp_mapping.legacy' = 'true'",
        f"{PLAIN}, 'csv.field-delimitr' = ';'",
    ],
)
def test_create_table_takes_what_only_a_statement_can_judge(session: Session, options: str) -> None:
    session.execute(created(options))
    assert isinstance(session._catalog.find(("t",)), Table)


@pytest.mark.parametrize(
    ("options", "option", "message"),
    [
        ("'connector' = 'nats', 'x' = 'y'", "connector", "there is no connector 'nats'"),
        ("'connector.type' = 'kafka', 'x' = 'y'", "connector.type", "is a key of Flink before 1.11"),
        (PLAIN.replace(", 'format' = 'json'", ", 'json.ignore-parse-errors' = 'true'"), "", "A table needs a format for its values"),
        (PLAIN.replace(", 'format' = 'json'", ""), "", "The schema of this read does not match: there is no column id"),
        (f"{PLAIN}, 'topic-pattern' = 'x.*'", "topic", "Options 'topic' and 'topic-pattern' exclude each other"),
        (f"{PLAIN}, 'csv.field-delimiter' = ';'", "csv.field-delimiter", "is for format 'csv', which is not in use"),
        (PLAIN.replace("json", "avro-confluent"), "", "Option 'avro-confluent.url' is required"),
        (PLAIN.replace("json", "avro") + ", 'avro.timestamp_mapping.legacy' = 'true'", "avro.timestamp_mapping.legacy", "is not supported"),
        (PLAIN.replace("json", "protobuf") + ", 'protobuf.descriptor-file' = '/no/such'", "protobuf.descriptor-file", "cannot be read"),
        (PLAIN.replace("json", "protobuf") + ", 'protobuf.message-class-name' = 'no.such.Message'", "protobuf.message-class-name", "cannot import the generated"),
        (f"{PLAIN}, 'metrics.http.port' = '0'", "metrics.http.port", "needs the extra 'prometheus' of penstock"),
        (f"'connector' = 'kafka', 'format' = 'json', {SERVERS}", "", "'topic'"),
        ("'connector' = 'kafka', 'format' = 'json', 'topic' = 'x'", "", "'properties.bootstrap.servers' is required"),
        (f"{PLAIN}, 'properties.isolation.level' = 'none'", "properties.isolation.level", "cannot be 'none'"),
        (f"{PLAIN}, 'properties.security.protocol' = 'SASL_SSL'", "", "sasl.mechanism"),
        (f"{PLAIN}, 'key.fields' = 'nope', 'key.format' = 'json'", "key.fields", "nope"),
    ],
)  # fmt: skip
def test_what_a_read_is_missing_is_refused_by_the_statement(
    session: Session, monkeypatch: pytest.MonkeyPatch, options: str, option: str, message: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *of: None if name == "prometheus_client" else find(name, *of),
    )
    text = created(options)
    try:
        session.execute(text)
        with pytest.raises(SqlError) as raised:
            read(session)
        found = raised.value
    except SqlError as error:
        found = error
    assert message in found.message
    wanted = (4, text.split("\n")[3].index(f"'{option}'") + 1) if option else (1, 14)
    assert (found.facts["line"], found.facts["column"]) == wanted


def test_what_a_write_is_missing_is_refused_by_the_statement(session: Session) -> None:
    session.execute(created(f"{PLAIN}, 'scan.startup.mode' = 'group-offsets'"))
    write(session)  # a read would need a group
    with pytest.raises(SqlError, match=r"group\.id"):
        read(session)
    with pytest.raises(SqlError, match="transactional-id-prefix' is required") as found:
        write(session, f"/*+ OPTIONS({EXACTLY_ONCE}) */")
    assert found.value.facts["column"] == 13
    with pytest.raises(SqlError, match=r"Did you mean 'sink.partitioner'\?") as found:
        write(session, "/*+ OPTIONS('sink.partitionr' = '1') */")
    assert found.value.facts["column"] == 27
    named = f"{EXACTLY_ONCE}, 'sink.transactional-id-prefix' = 'p', 'sink.write-id' = 'w'".replace(" = ", "=")
    with pytest.raises(SqlError, match="names a batch write") as found:
        write(session, f"/*+ OPTIONS({named}) */")
    assert found.value.facts["column"] == 15 + len("/*+ OPTIONS(") + named.index("'sink.write-id'")
    with pytest.raises(SqlError, match=r"no_such\.Partitioner"):
        write(session, "/*+ OPTIONS('sink.partitioner'='no_such.Partitioner') */")
    session.execute(f"ALTER TABLE t SET ({EXACTLY_ONCE})")
    with pytest.raises(SqlError, match="transactional-id-prefix' is required"):
        write(session)


def test_a_new_query_may_fail_only_with_exactly_once(session: Session) -> None:
    session.execute(created(f"{PLAIN}, 'sink.on-new-query' = 'fail'"))
    with pytest.raises(SqlError, match=r"'sink\.on-new-query' = 'fail' needs 'sink\.delivery-guarantee'"):
        write(session)
    write(
        session,
        f"/*+ OPTIONS({EXACTLY_ONCE}, 'sink.transactional-id-prefix' = 'p') */".replace(" = ", "="),
    )


def test_a_read_does_not_ask_for_what_only_a_write_needs(session: Session) -> None:
    session.execute(created(f"{PLAIN}, {EXACTLY_ONCE}"))
    read(session)


def test_the_options_of_a_hint_are_shown_in_the_hint(session: Session) -> None:
    session.execute(created(PLAIN))
    found = refusal(session, "SELECT *\nFROM t /*+ OPTIONS('scan.startup.mode' = 'earliest') */")
    assert "Option 'scan.startup.mode' cannot be 'earliest'" in found.message
    assert (found.facts["line"], found.facts["column"]) == (2, 20)
    view = "CREATE VIEW v AS SELECT * FROM t /*+ OPTIONS('scan.startup.mod' = 'x') */"
    assert refusal(session, view).facts["column"] == view.index("'scan") + 1


def test_a_hint_of_a_view_is_refused_because_a_view_has_no_options(session: Session) -> None:
    session.execute(created(PLAIN))
    session.execute("CREATE VIEW v AS SELECT * FROM t")
    found = refusal(session, "SELECT * FROM v /*+ OPTIONS('scan.startup.mode' = 'earliest-offset') */")
    assert "an OPTIONS hint is for tables of CREATE TABLE, and 'v' is a view" in found.message
    assert found.facts["column"] == 15


def test_options_that_come_by_like_and_alter_table_are_checked(session: Session) -> None:
    session.execute(created(PLAIN))
    like = refusal(session, "CREATE TABLE u WITH ('scan.startup.mode' = 'soon') LIKE t")
    assert like.facts["column"] == 22
    text = "ALTER TABLE t SET ('scan.startup.mode' = 'soon')"
    found = refusal(session, text)
    assert (found.facts["line"], found.facts["column"]) == (1, text.index("'scan") + 1)
    session.execute("ALTER TABLE t SET ('scan.startup.mode' = 'earliest-offset')")
    read(session)
    text = "ALTER TABLE t SET ('json.timestamp-format.standard' = 'ISO')"
    found = refusal(session, text)
    assert "Option 'json.timestamp-format.standard' cannot be 'ISO'. Allowed: " in found.message
    assert found.facts["column"] == text.index("'json") + 1
    session.execute(text.replace("ISO", "ISO-8601"))
    read(session)


def test_a_secret_is_neither_looked_up_nor_shown(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_NO_SUCH", raising=False)
    login = (
        "'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'PLAIN', "
        "'properties.sasl.jaas.config' = 'PlainLoginModule required username=\"u\" password=\"{}\";'"
    )
    session.execute(created(f"{PLAIN}, {login.format('${env:PENSTOCK_NO_SUCH}')}"))
    read(session)
    write(session)
    session.execute("DROP TABLE t")
    found = refusal(session, created(f"{PLAIN}, {login.format('hunter2')}, 'scan.startup.mode' = 'soon'"))
    assert "hunter2" not in found.message


@pytest.mark.parametrize(
    ("options", "action", "message"),
    [
        (PLAIN, "DEDUPLICATE", "ON CONFLICT is for a table that finds its rows by a PRIMARY KEY"),
        (UPSERT, "NOTHING", "ON CONFLICT DO NOTHING is served if it is known"),
        (UPSERT, "ERROR", "ON CONFLICT DO ERROR is served if it is known"),
    ],
)
def test_on_conflict_is_refused_at_its_position(
    session: Session, options: str, action: str, message: str
) -> None:
    key = ", PRIMARY KEY (id) NOT ENFORCED" if options is UPSERT else ""
    session.execute(created(options, f"id BIGINT, s STRING{key}"))
    with pytest.raises(SqlError, match=message) as found:
        write(session, end=f" ON CONFLICT DO {action}")
    assert "Line 1, column 30" in str(found.value)
