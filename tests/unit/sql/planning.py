"""Plans of queries over a few declared tables, without Spark: it was asked before, and its answers are recorded.

`python -m tests.unit.sql.record_types` asks Spark all questions of the tests and records the answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from penstock.errors import SqlError
from penstock.sql.bind.context import UnknownTypeError
from penstock.sql.emit.select import Query
from penstock.sql.emit.spark_sql import FrameNode
from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateFunction, CreateTable, CreateView, Fragment, Options
from penstock.sql.passes.check_determinism import STRATEGY
from penstock.sql.plan.nodes import Output, Scan, Stateful
from penstock.sql.plan.rewrite import nodes_in
from penstock.sql.plan.show import shown
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.run._planned import Planner
from penstock.sql.run._queries import _rows_of as rows_of
from penstock.sql.run.catalog import Catalog, Table, View
from penstock.sql.run.settings import MODE, TTL, Settings
from tests.judges.sql.corpus import DATA

TYPES = DATA / "spark_types.json"
COLUMNS = (
    "i INT, s STRING, l BIGINT, ltz TIMESTAMP_LTZ(3), d DOUBLE, p DECIMAL(10, 2), b BOOLEAN, ts TIMESTAMP(6), "
    "`day` DATE, a ARRAY<INT>, r ARRAY<ROW<x INT, y STRING>>, m MAP<STRING, INT>, o ROW<x INT, i INT>"
)
SERVERS = "'properties.bootstrap.servers' = 'b:9092'"
INSERTS = f"'connector' = 'kafka', 'format' = 'json', {SERVERS}"
CHANGES = f"'connector' = 'kafka', 'format' = 'debezium-json', 'topic' = 'c', {SERVERS}"
KEY = "PRIMARY KEY (i) NOT ENFORCED"
DECLARED = f"""
CREATE TABLE t ({COLUMNS}, WATERMARK FOR ltz AS ltz - INTERVAL '5' SECOND) WITH ({INSERTS}, 'topic' = 't');
CREATE TABLE `T T` ({COLUMNS}) WITH ({INSERTS}, 'topic' = 'x');
CREATE TABLE u ({COLUMNS}) WITH ({INSERTS}, 'topic' = 'u;v');
CREATE TABLE w ({COLUMNS}, WATERMARK FOR ltz AS ltz) WITH ({INSERTS}, 'topic' = 'w;v');
CREATE TABLE c ({COLUMNS}, {KEY}, WATERMARK FOR ltz AS ltz - INTERVAL '1' SECOND) WITH ({CHANGES});
CREATE TABLE k ({COLUMNS}, {KEY}) WITH ('connector' = 'upsert-kafka', 'topic' = 'k', 'key.format' = 'json',
    'value.format' = 'json', {SERVERS});
CREATE TABLE static ({COLUMNS}) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:x', 'table-name' = 'x');
CREATE TABLE local (i INT, s STRING, l BIGINT, ts TIMESTAMP(3), r ARRAY<ROW<x INT, y STRING>>) WITH ({INSERTS},
    'topic' = 'z');
CREATE TABLE marked (i INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({INSERTS}, 'topic' = 'z');
CREATE TABLE clocked (i INT, s STRING, ltz TIMESTAMP_LTZ(3), p AS PROCTIME(), {KEY}) WITH ({CHANGES});
CREATE TABLE random (i INT, x AS RAND(), {KEY}) WITH ({CHANGES});
CREATE TABLE meta (i INT, o BIGINT METADATA FROM 'offset', {KEY}) WITH ({CHANGES});
CREATE TABLE logged (i INT, op STRING, o BIGINT METADATA FROM 'offset', `partition` INT METADATA,
    at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', day TIMESTAMP_LTZ(0) METADATA FROM 'timestamp',
    later AS at + INTERVAL '1' HOUR) WITH ({INSERTS}, 'topic' = 'l');
CREATE VIEW ordered AS SELECT i, ltz FROM t ORDER BY ltz;
CREATE VIEW newest (shop, since, n) AS SELECT s, ltz, i FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY ltz DESC) AS n FROM t) WHERE n = 1;
CREATE TABLE stamped (op STRING, i INT, s STRING, o BIGINT METADATA FROM 'offset') WITH ({INSERTS}, 'topic' = 'z');
CREATE VIEW told AS SELECT * FROM TO_CHANGELOG(input => TABLE t);
CREATE VIEW told_changes AS SELECT * FROM TO_CHANGELOG(input => TABLE c);
CREATE VIEW changed AS SELECT * FROM FROM_CHANGELOG(input => TABLE t, op => DESCRIPTOR(s));
CREATE FUNCTION py_upper AS 'm.f' LANGUAGE PYTHON;
CREATE FUNCTION py_pure AS 'm.f' LANGUAGE PYTHON DETERMINISTIC;
"""
"""t, u and w are streams of new rows, with and without offsets and a watermark; c and k change."""


def catalog_of(script: str) -> Catalog:
    """Return a catalog of what a script creates."""
    made, source = Catalog(), Source(script)
    for each in parse_script(script):
        match each.statement:
            case CreateFunction() as function:
                made.functions[str(function.name)] = function
            case CreateView() as view:
                made.add(view.name, View(view, source), if_not_exists=False)
            case CreateTable() as table:
                made.add(table.name, Table(table, source), if_not_exists=False)
    return made


@cache
def declared() -> Catalog:
    """Return the catalog of `DECLARED`."""
    made = catalog_of(DECLARED)
    made.databases.add("d")
    made.objects["d", "t"] = made.objects[made.database, "t"]
    return made


class NotRecordedError(Exception):
    """A test asks Spark what is not recorded."""


@cache
def recorded() -> Mapping[str, Any]:
    """Return each question to Spark with its columns, or its message if it refuses the question."""
    found: dict[str, Any] = json.loads(TYPES.read_text()) if TYPES.exists() else {}
    return MappingProxyType(found)


def answer(question: str) -> Any:
    """Return what Spark has answered."""
    found = recorded().get(question)
    if found is None:
        raise NotRecordedError(
            f"{question} is not in {TYPES.name}. Record it: python -m tests.unit.sql.record_types"
        )
    return found


asking: Callable[[str], Any] = answer
"""How Spark is asked; the command that records replaces it."""


@dataclass
class RecordedViews:
    """Stands for Spark: its zone, its functions and its answers. It has no tables."""

    zone_is_utc: bool = True
    foreign_zone: str | None = None
    spark: Any = None
    knows_all: bool = True
    """Whether a question that is not recorded is a mistake of the test. If not, Spark does not know it."""

    def table(self, parts: tuple[str, ...]) -> None: ...

    def function_name(self, name: str) -> str:
        return name.lower()

    def types(self, question: str) -> list[tuple[str, str]]:
        try:
            found = asking(question)
        except NotRecordedError:
            if self.knows_all:
                raise
            found = "not recorded"
        if isinstance(found, str):
            raise UnknownTypeError(found)
        return [(name, kind) for name, kind in found]


class PlanOnly(Planner):
    """A planner whose tables and operators are names in the query: they have no rows."""

    made_of: list[str]
    """Each operator and mark with the query of each of its inputs."""

    def spark_types(self, select: str) -> list[tuple[str, str]]:
        views: Any = self.views
        found: list[tuple[str, str]] = views.types(select)
        return found

    def scan(self, node: Scan) -> str:
        return node.source.name

    def made(self, node: FrameNode, queries: Sequence[Query]) -> str:
        name = f"{type(getattr(node, 'operator', node)).__name__}_{len(self.made_of)}"
        self.made_of.append(f"{name}: {'; '.join(each.text for each in queries)}")
        return name


@dataclass(frozen=True)
class Planned:
    """A plan, and what is known of it.

    Attributes:
        plan: it.
        traits: of its nodes.
        sql: Spark's SQL.
        made: each operator and mark, with the queries that it is made of.
        reads: the tables, with the options of their hints.
        warnings: of values that may vary.
    """

    plan: Output
    traits: TraitsOf
    sql: str
    made: tuple[str, ...]
    reads: tuple[tuple[tuple[str, ...], Options], ...]
    warnings: tuple[str, ...]

    @property
    def text(self) -> str:
        return shown(self.plan, self.traits)

    @property
    def known(self) -> str:
        """Return what a table that is written knows of the rows."""
        rows = rows_of(self.plan, self.traits)
        parts = ["inserts" if rows.changes is None else f"changes of {rows.changes}"]
        parts += [] if rows.keys is None else [f"keys ({', '.join(sorted(rows.keys))})"]
        parts += [f"in ms ({', '.join(sorted(rows.millisecond_keys))})"] if rows.millisecond_keys else []
        names = ("is_grouped_in_order", "has_offsets", "is_read")
        return ", ".join([*parts, *(name for name in names if getattr(rows, name))])


@dataclass(frozen=True)
class How:
    """How queries are planned: the settings of the session, Spark, and what is known of the table that is written."""

    is_batch: bool = False
    ttl: str | None = None
    views: RecordedViews = field(default_factory=RecordedViews)
    catalog: Catalog = field(default_factory=declared)
    free: tuple[bool, ...] = ()
    wants_offsets: bool = False
    accepts_varying: bool = False
    is_insert: bool = False


STREAM, BATCH = How(), How(is_batch=True)


def planned(query: str, how: How = STREAM, part: Fragment | None = None) -> Planned:
    """Return the plan of a query, or of a part of a script. Raise what the session does."""
    values = {MODE: "batch" if how.is_batch else "streaming"} | ({TTL: how.ttl} if how.ttl else {})
    values |= {STRATEGY: "ignore"} if how.accepts_varying else {}
    warnings: list[str] = []

    views: Any = how.views
    planner = PlanOnly(how.catalog, Settings(values), views, lambda: "", warnings.append, {})
    planner.made_of = []
    traits, script = TraitsOf(), Source(query)
    fragment = part or Fragment(query)
    plan = planner.plan(
        fragment, script, traits, wants_offsets=how.wants_offsets, free=how.free, is_insert=how.is_insert
    )
    sql = planner.query(plan, traits).text
    return Planned(plan, traits, sql, tuple(planner.made_of), tuple(planner.reads), tuple(warnings))


def refused(query: str, how: How = STREAM) -> str | None:
    """Return the first line of the message that refuses a query; None if it is served."""
    try:
        planned(query, how)
    except SqlError as error:
        return str(error).split("\n", maxsplit=1)[0]
    return None


def operators(found: Planned) -> list[str]:
    """Return the operators of a plan, from the first one that runs to the last."""
    nodes = reversed([*nodes_in(found.plan)])
    return [type(each.operator).__name__ for each in nodes if isinstance(each, Stateful)]


def in_spark(expression: str, how: How = BATCH) -> str:
    """Return Spark's text of an expression over the table t."""
    sql = planned(f"SELECT {expression} AS x FROM t", how).sql
    return sql.removeprefix("SELECT ").removesuffix(" AS `x` FROM `t` AS `s0`").replace("`s0`.", "")
