"""Tables for tests, made of their declarations."""

from __future__ import annotations

from penstock.sql.language.parse import parse_statement
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateTable
from penstock.sql.plan.nodes import Output, Values
from penstock.sql.run._cuts import Notes
from penstock.sql.run._queries import QueryRows
from penstock.sql.run._rows import RowTraits
from penstock.sql.run.catalog import Table

SERVERS = "'properties.bootstrap.servers' = 'b:9092'"
TOPIC = f"'topic' = 'x', {SERVERS}"
KAFKA = f"'connector' = 'kafka', 'format' = 'json', {TOPIC}"
UPSERT = f"'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', {TOPIC}"
FILES = "'connector' = 'filesystem', 'path' = '/x', 'format' = 'csv'"
JDBC = "'connector' = 'jdbc', 'url' = 'jdbc:sqlite:x', 'table-name' = 'x'"
FOUND = QueryRows(None, RowTraits(), "", "", {}, {}, Notes(), Output(Values((), ()), (), ()))
"""A query of append-only rows, of which nothing else is known."""


def table_of(text: str) -> Table:
    found = parse_statement(text)
    assert isinstance(found, CreateTable)
    return Table(found, Source(text))


def with_options(options: str, columns: str = "id INT, v INT") -> Table:
    return table_of(f"CREATE TABLE x ({columns}) WITH ({options})")
