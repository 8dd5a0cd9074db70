"""What the options of a table say is read once, and what EXPLAIN and INSERT ask of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.sql
from penstock.errors import OptionError
from penstock.options.config import TopicList
from penstock.options.unknown import OPTIONS
from penstock.sql.connectors.datagen.plan import TABLE_OPTIONS
from penstock.sql.connectors.described import CONNECTORS, FILE_OPTIONS, Kafka, NoConnectorError
from penstock.sql.connectors.jdbc.settings import OPTIONS as JDBC_OPTIONS
from penstock.sql.connectors.options import WrongOptionError
from penstock.sql.plan.nodes import Changelog
from penstock.sql.run import _tables as tables
from penstock.sql.run._changing import changes_of
from tests.unit.sql.declared import FILES, JDBC, KAFKA, SERVERS, UPSERT, table_of, with_options

SQL = Path(penstock.sql.__file__).parent
KEYS = {each.key for each in OPTIONS} | {*FILE_OPTIONS, *TABLE_OPTIONS, *JDBC_OPTIONS}
READS = ("get", "pop", "setdefault", "__getitem__", "__contains__")


def keys_that_are_read(text: str) -> Iterator[str]:
    """Yield each key of an option that a module looks up by itself: as a literal, a constant or of an Option."""
    tree = ast.parse(text)
    constants = {
        name.id: value.value
        for each in tree.body
        if isinstance(each, ast.Assign)
        for name, value in _pairs(each.targets[0], each.value)
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant)
    }
    for node in ast.walk(tree):
        looked_up: ast.expr | None = None
        if isinstance(node, ast.Subscript):
            looked_up = None if _is_of_error(node.value) else node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS:
            looked_up = node.args[0] if node.args and not _is_of_error(node.func.value) else None
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            looked_up = node.left
        if isinstance(looked_up, ast.Attribute) and looked_up.attr == "key":
            if isinstance(looked_up.value, ast.Name) and looked_up.value.id.isupper():
                yield looked_up.value.id
            continue
        found = looked_up.value if isinstance(looked_up, ast.Constant) else None
        if isinstance(looked_up, ast.Name):
            found = constants.get(looked_up.id)
        if isinstance(found, str) and (found.lower() in KEYS or found.startswith("properties.")):
            yield found


def _is_of_error(looked_into: ast.expr) -> bool:
    return isinstance(looked_into, ast.Attribute) and looked_into.attr == "facts"


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def test_no_room_of_sql_but_that_of_connectors_reads_an_option() -> None:
    modules = [each for each in SQL.rglob("*.py") if SQL / "connectors" not in each.parents]
    assert len(modules) > 60
    found = {
        str(each.relative_to(SQL)): keys
        for each in modules
        if (keys := list(keys_that_are_read(each.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        'options.get("connector")',
        'x = given["topic-pattern"]',
        'if "scan.bounded.mode" in options: pass',
        'GROUP, SERVERS = "properties.group.id", "x"\ndef f(options): return options.get(GROUP)',
        "options[EVENT_TIME_COLUMN.key]",
        'table.options.pop("source.monitor-interval", None)',
    ],
)
def test_a_second_reader_of_options_is_found(text: str) -> None:
    assert len(list(keys_that_are_read(text))) == 1


def test_a_table_is_described_once_and_a_hint_describes_another_one() -> None:
    table = with_options(KAFKA)
    connector = table.connector
    assert isinstance(connector, Kafka)
    assert table.connector is connector
    assert connector.config.stream is connector.config.stream
    assert table.hinted(()) is table
    hinted = table.hinted((("topic", "a;b"),)).connector
    assert isinstance(hinted, Kafka)
    assert hinted.config.stream.source.subscription == TopicList(("a", "b"))
    assert connector.config.stream.source.subscription == TopicList(("x",))


@pytest.mark.parametrize(
    ("options", "name", "changes"),
    [
        (KAFKA, "kafka", Changelog.APPEND),
        (KAFKA.replace("'kafka'", "'penstock'"), "penstock", Changelog.APPEND),
        (f"'connector' = 'kafka', 'topic' = 'x', 'VALUE.format' = 'Debezium-JSON ', {SERVERS}", "kafka", Changelog.RETRACT),
        (f"'connector' = 'kafka', 'topic' = 'x', 'key.format' = 'canal-json', {SERVERS}", "kafka", Changelog.APPEND),
        (UPSERT, "upsert-kafka", Changelog.UPSERT),
        (FILES, "filesystem", Changelog.APPEND),
        (JDBC, "jdbc", Changelog.APPEND),
        ("'connector' = 'datagen'", "datagen", Changelog.APPEND),
        ("'connector' = 'print'", "print", Changelog.APPEND),
        ("'connector' = 'blackhole'", "blackhole", Changelog.APPEND),
    ],
)  # fmt: skip
def test_each_connector_has_a_description(options: str, name: str, changes: Changelog) -> None:
    table = with_options(options)
    assert name in CONNECTORS
    assert table.connector.name == name
    assert changes_of(table) is changes


@pytest.mark.parametrize(
    ("options", "error", "option"),
    [
        ("'a' = 'b'", NoConnectorError, "connector"),
        ("'connector' = 'kafak'", NoConnectorError, "connector"),
        ("'connector.type' = 'filesystem', 'format.type' = 'csv'", WrongOptionError, "connector.type"),
        ("'update-mode' = 'append'", WrongOptionError, "update-mode"),
        (f"{FILES}, 'sink.partition-commit.trigger' = 'process-time'", WrongOptionError, "sink.partition-commit.trigger"),
        ("'connector' = 'filesystem', 'format' = 'raw'", WrongOptionError, "format"),
        ("'connector' = 'jdbc', 'url' = 'postgresql://h/d'", WrongOptionError, "url"),
        ("'connector' = 'datagen', 'fields.id.min' = '5', 'fields.id.max' = '2'", WrongOptionError, "fields.id.min"),
        ("'connector' = 'datagen', 'fields.id.length' = '5'", WrongOptionError, "fields.id.length"),
        ("'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '5', 'fields.id.end' = '2'", WrongOptionError, "fields.id.end"),
        (f"{KAFKA}, 'primary-key' = 'id'", OptionError, "primary-key"),
        (f"{KAFKA}, 'value.format' = 'csv'", OptionError, "value.format"),
    ],
)  # fmt: skip
def test_what_is_wrong_by_itself_names_its_option(options: str, error: type[Exception], option: str) -> None:
    with pytest.raises(error) as found:
        _ = with_options(options).connector
    named = found.value.option if isinstance(found.value, WrongOptionError) else found.value.facts["option"]  # type: ignore[attr-defined]  # of OptionError
    assert named == option


def test_two_ways_to_name_topics_are_refused_where_the_table_is_declared() -> None:
    with pytest.raises(OptionError, match="'topic' and 'topic-pattern' exclude each other") as found:
        _ = with_options(f"{KAFKA}, 'topic-pattern' = 'a.*'").connector
    assert found.value.facts["options"] == ("topic", "topic-pattern")


PARTITIONED = "id INT, dt STRING, at TIMESTAMP(3), n AS id + 1"


@pytest.mark.parametrize(
    ("options", "by", "is_read", "message"),
    [
        (FILES, "dt", False, ""),
        (FILES, "dt, id", True, ""),
        (FILES, "at", False, "the column 'at' of PARTITIONED BY is TIMESTAMP"),
        (FILES, "n", True, "the column 'n' of PARTITIONED BY is computed"),
        (FILES, "id, dt, at", False, "the column 'at' of PARTITIONED BY is TIMESTAMP"),
        (KAFKA, "dt", True, ""),
        (KAFKA, "dt", False, "PARTITIONED BY is for 'filesystem', and the connector is 'kafka'"),
        (JDBC, "dt", False, "PARTITIONED BY is for 'filesystem', and the connector is 'jdbc'"),
        ("'connector' = 'print'", "dt", False, ""),
    ],
)
def test_only_files_have_partitions_of_columns(options: str, by: str, is_read: bool, message: str) -> None:
    table = table_of(f"CREATE TABLE x ({PARTITIONED}) PARTITIONED BY ({by}) WITH ({options})")
    if not message:
        tables.check_use(table, is_read=is_read)
        return
    with pytest.raises(ValueError, match=message):
        tables.check_use(table, is_read=is_read)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "'connector.type' = 'filesystem', 'connector.path' = '/x', 'format.type' = 'csv'",
            "Write 'connector' for 'connector.type', 'path' for 'connector.path', 'format' for 'format.type'.",
        ),
        (
            "'connector.type' = 'kafka', 'connector.version' = 'universal', 'connector.topic' = 'x', "
            "'connector.properties.bootstrap.servers' = 'b:9092', 'format.derive-schema' = 'true'",
            "Write 'connector' for 'connector.type', 'topic' for 'connector.topic', 'properties.bootstrap.servers' for "
            "'connector.properties.bootstrap.servers'. Leave 'connector.version', 'format.derive-schema' out.",
        ),
        ("'update-mode' = 'append'", "which penstock does not read. Leave 'update-mode' out."),
    ],
)
def test_old_keys_are_refused_with_their_newer_names(options: str, message: str) -> None:
    with pytest.raises(WrongOptionError, match=re.escape(message)):
        _ = with_options(options).connector
