"""What `run_sql` replaces in a script, and what it refuses, before the first statement runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.errors import SqlError
from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateTable, ResetOption, SetOption, Statement
from penstock.testing.script import ScriptOfTest

FOLDER = "execution.checkpointing.dir"
SPARKS = "spark.sql.streaming.checkpointLocation"
MODE = "execution.runtime-mode"
REAL = "prod.example.com:9092"


def replaced(
    text: str,
    *,
    records: Mapping[str, list[Any]] | None = None,
    batches: int = 1,
    options: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[ScriptOfTest, list[Statement]]:
    test = ScriptOfTest(
        Source(text),
        "test:1",
        folder="/tmp/test",  # noqa: S108 - no file is opened
        records=records or {},
        batches=batches,
        mode="batch",
        options=options or {},
    )
    return test, [each.statement for parsed in parse_script(text) for each in test.replaced(parsed)]


def table(options: str, name: str = "t") -> str:
    return f"CREATE TABLE {name} (k INT) WITH ({options});"


def kafka(name: str = "t", topic: str = "orders", more: str = "", connector: str = "kafka") -> str:
    bootstrap = f"'properties.bootstrap.servers' = '{REAL}'"
    return table(
        f"'connector' = '{connector}', 'topic' = '{topic}', {bootstrap}, 'format' = 'json' {more}", name
    )


def options_of(text: str, name: str = "t", **arguments: Any) -> dict[str, str]:
    _, statements = replaced(text, **arguments)
    (found,) = [each for each in statements if isinstance(each, CreateTable) and each.name.parts[-1] == name]
    return dict(found.options)


@pytest.mark.parametrize("key", [FOLDER, " execution.checkpointing.dir ", "state.checkpoints.dir", SPARKS])
def test_checkpoints_are_in_the_folder_of_the_test_however_they_are_set(key: str) -> None:
    _, (found,) = replaced(f"SET '{key}' = 's3://prod/checkpoints';")
    assert isinstance(found, SetOption)
    assert found.value == "/tmp/test/checkpoints"  # noqa: S108 - no file is opened


def test_the_folder_and_the_mode_are_those_of_the_test_after_reset() -> None:
    of_test = {MODE: SetOption(MODE, "batch"), FOLDER: SetOption(FOLDER, "/tmp/test/checkpoints")}  # noqa: S108
    assert replaced("RESET;")[1] == [ResetOption(), *of_test.values()]
    old = "state.checkpoints.dir"
    assert replaced(f"RESET '{old}';")[1] == [ResetOption(old), of_test[FOLDER]]
    old = "table.execution.mode"
    assert replaced(f"RESET '{old}';")[1] == [ResetOption(old), of_test[MODE]]
    assert replaced("RESET 'pipeline.name';")[1] == [ResetOption("pipeline.name")]
    assert replaced("SET 'pipeline.name' = 'a'; SET;")[1] == [SetOption("pipeline.name", "a"), SetOption()]


@pytest.mark.parametrize("connector", ["kafka", "penstock", "upsert-kafka"])
def test_a_kafka_table_is_of_the_test(connector: str) -> None:
    more = ", 'properties.sasl.jaas.config' = 'x', 'Properties.Bootstrap.Servers' = 'b', 'TOPIC' = 'b'"
    more += ", 'sink.transactional-id-prefix' = 'job', 'sink.commit-log.topic' = 'job-log'"
    found = options_of(kafka(connector=connector, topic="orders; more", more=more))
    first, second = found.pop("topic").split(";")
    assert first.startswith("orders-")
    assert second.startswith("more-")
    assert found.pop("sink.transactional-id-prefix").startswith("job-")
    assert (found.pop("scan.startup.mode", None) is None) == (connector == "upsert-kafka")
    assert found == {
        "connector": connector,
        "format": "json",
        "properties.bootstrap.servers": "test:1",
        "scan.bounded.mode": "latest-offset",
    }


@pytest.mark.parametrize(
    ("mode", "key", "value"),
    [
        ("timestamp", "timestamp-millis", "1700000000000"),
        ("timestamp", "timestamp", "-10 min"),
        ("specific-offsets", "specific-offsets", "partition:0,offset:3"),
    ],
)
@pytest.mark.parametrize("end", ["startup", "bounded"])
def test_what_belongs_to_the_replaced_start_and_end_is_dropped(
    end: str, mode: str, key: str, value: str
) -> None:
    found = options_of(kafka(more=f", 'scan.{end}.mode' = '{mode}', 'scan.{end}.{key}' = '{value}'"))
    modes = {"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
    assert {
        key: each for key, each in found.items() if key.startswith(("scan.startup", "scan.bounded"))
    } == modes


def test_the_topic_of_dead_letters_is_of_the_test() -> None:
    more = ", 'scan.on-decode-error' = 'dead-letter', 'scan.dead-letter.topic' = 'bad'"
    test, statements = replaced(kafka(more=more) + kafka("b", topic="bad"))
    first, second = (dict(each.options) for each in statements if isinstance(each, CreateTable))
    assert test.topics.keys() == {"orders", "bad"}
    assert first["scan.dead-letter.topic"] == second["topic"] == test.topics["bad"] != "bad"


def test_a_limit_says_its_trigger_because_older_versions_of_spark_want_it() -> None:
    found = options_of(kafka(), records={"orders": [1, 2, 3, 4, 5]}, batches=2)
    assert found["scan.max-records-per-batch"] == "3"
    assert found["scan.trigger"] == "processing-time"
    assert "scan.trigger" not in options_of(kafka(), records={"orders": [1]})


@pytest.mark.parametrize(
    "options",
    [
        "'topic-pattern' = 'o.*'",
        "'topic-partitions' = 'orders:0'",
        "'subscribePattern' = 'o.*'",
        "'topic' = 'orders', 'kafka.bootstrap.servers' = 'prod:9092'",
    ],
)
def test_other_names_of_topics_and_brokers_are_refused(options: str) -> None:
    with pytest.raises(ValueError, match=r"^Table t has a `.*Nothing was run\. Test the script with"):
        replaced(table(f"'connector' = 'kafka', 'format' = 'json', {options}"))


def test_a_table_without_a_topic_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Table t has no option `topic`"):
        replaced(table("'connector' = 'kafka', 'format' = 'json'"))


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE b WITH ('topic' = 'real') LIKE t;",
        "CREATE TABLE b (k INT) WITH ('properties.bootstrap.servers' = 'prod:9092');",
    ],
)
def test_options_without_their_connector_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Table b has options and no `connector`"):
        replaced(kafka() + text)


def test_like_takes_what_the_test_has_replaced() -> None:
    assert options_of(kafka() + "CREATE TABLE b LIKE t;", "b") == {}
    like = "CREATE TABLE b WITH ('connector' = 'kafka', 'topic' = 'real') LIKE t;"
    assert options_of(kafka() + like, "b")["topic"].startswith("real-")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SELECT * FROM t /*+ OPTIONS('topic' = 'real') */;", "Line 2, column 17"),
        ("INSERT INTO t /*+ options('topic' = 'real') */ SELECT 1;", "Line 2, column 15"),
        ("CREATE VIEW v AS SELECT * FROM t /*+ STATE_TTL('a' = '1d'), OPTIONS('a' = 'b') */;", "column 34"),
        ("ALTER TABLE t SET ('topic' = 'real');", "Line 2, column 13"),
        ("ALTER TABLE t RESET ('properties.bootstrap.servers');", "Line 2, column 13"),
    ],
)
def test_options_outside_of_create_table_are_refused_at_their_position(text: str, position: str) -> None:
    with pytest.raises(
        SqlError, match=rf"{position}: .*refused in a test.*Nothing was run\. Write these"
    ) as found:
        replaced(f"{kafka()}\n{text}")
    assert "real" not in str(found.value).partition("\n")[0]


def test_other_hints_and_changes_run() -> None:
    text = (
        "SELECT /*+ STATE_TTL('t' = '1d') */ k FROM t; ALTER TABLE t RENAME TO u; ALTER TABLE t ADD (n INT);"
    )
    assert len(replaced(kafka() + text)[1]) == 4


OUTSIDE = [
    ("'connector' = 'jdbc', 'url' = 'jdbc:postgresql://prod/shop', 'table-name' = 't'", "url"),
    ("'connector' = 'filesystem', 'path' = 's3://prod/t', 'format' = 'json'", "path"),
    (
        "'connector' = 'kafka', 'topic' = 'orders', 'format' = 'avro-confluent', "
        "'avro-confluent.url' = 'http://prod'",
        "avro-confluent.url",
    ),
    (
        "'connector' = 'kafka', 'topic' = 'orders', 'value.format' = 'debezium-avro-confluent', "
        "'value.debezium-avro-confluent.URL' = 'http://prod'",
        "value.debezium-avro-confluent.URL",
    ),
]


@pytest.mark.parametrize(("options", "key"), OUTSIDE)
def test_what_is_not_of_the_test_is_refused_unless_it_is_replaced(options: str, key: str) -> None:
    with pytest.raises(
        ValueError, match=rf'^Table t has a `{key}`.*options={{"t": {{"{key}": "..."}}}}'
    ) as found:
        replaced(table(options))
    assert "prod" not in str(found.value)
    assert options_of(table(options), options={"t": {key: "of the test"}})[key] == "of the test"


def test_options_with_a_connector_replace_all_of_the_table() -> None:
    own = {"connector": "blackhole"}
    assert options_of(table(OUTSIDE[0][0]), options={"t": own}) == own
    own = {"connector": "kafka", "topic": "shops", "format": "json"}
    test, (found,) = replaced(table(OUTSIDE[0][0]), options={"t": own})
    assert isinstance(found, CreateTable)
    assert dict(found.options)["topic"] == test.topics["shops"]


SET = "EXECUTE STATEMENT SET BEGIN INSERT INTO b SELECT * FROM t; INSERT INTO c SELECT * FROM {}; END;"


@pytest.mark.parametrize("read", ["b", "(SELECT * FROM `b`)", "v", "d"])
def test_a_topic_that_a_statement_set_fills_and_reads_is_refused(read: str) -> None:
    tables = kafka() + kafka("b", "filled") + kafka("c", "last") + "CREATE TABLE d LIKE b;"
    tables += "CREATE VIEW v AS SELECT * FROM b;"
    with pytest.raises(SqlError, match=r"INSERT INTO c reads topic filled.*Nothing was run"):
        replaced(tables + SET.format(read))
    assert replaced(tables + SET.format("t"))
    printed = "CREATE TABLE p WITH ('connector' = 'print') LIKE t;" + SET.format("t").replace(
        "INTO b", "INTO p"
    )
    assert replaced(tables + printed)
    one_by_one = "INSERT INTO b SELECT * FROM t; INSERT INTO c SELECT * FROM b;"
    assert replaced(tables + one_by_one)
