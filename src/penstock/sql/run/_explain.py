"""EXPLAIN: how a query would run, in words.

Runs on the driver. Invariant: nothing starts, and no secret is shown. `Explanation` is the structure to which
each part of the planner adds its section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from penstock.options.config import DeliveryGuarantee
from penstock.options.flink import DELIVERY_GUARANTEE
from penstock.spark.native import explained
from penstock.sql.connectors.described import Connector, Files, Jdbc, Kafka
from penstock.sql.connectors.sessions import first_line
from penstock.sql.language.source import without_secrets
from penstock.sql.plan.nodes import Changelog, Source
from penstock.sql.run._cuts import Notes, mode_of
from penstock.sql.run._late_rows import late_rows
from penstock.sql.run._rows import RowTraits
from penstock.sql.run.catalog import Catalog, Table

SQL_OF_SPARK, _PLAN_OF_SPARK = "SQL of Spark", "Plan of Spark"
OF_SPARK = (SQL_OF_SPARK, _PLAN_OF_SPARK)
"""Sections with the texts of Spark."""
_GUARANTEES = {
    DeliveryGuarantee.EXACTLY_ONCE: "Each row is written once, for readers with isolation.level = "
    "read_committed.",
    DeliveryGuarantee.AT_LEAST_ONCE: "No row is lost. After a failure the rows of a micro-batch may be "
    "written twice.",
    DeliveryGuarantee.NONE: "Rows may be lost, and may be written twice.",
}
_STATES = {
    "StateStoreSave": "an aggregation keeps one entry for each group",
    "SessionWindowStateStoreSave": "session windows keep their open sessions",
    "StreamingSymmetricHashJoin": "a join keeps the rows of both sides",
    "StreamingDeduplicate": "DISTINCT keeps one entry for each row",
    "StreamingGlobalLimit": "LIMIT keeps the number of rows that were given",
}
"""Operators of Spark's plan and what they keep."""
_NAME = r"[^\s#(\[,]+"
_MARKED = re.compile(rf"({_NAME})#\d+-T\d+ms")
"""A column that has a watermark, as Spark prints it."""
_WINDOW_NAMES = ("window", "session_window", "__window", "window_end")
_NOTHING: Mapping[str, str] = MappingProxyType({})
_FOR_EVER = "it grows without an end"
_ENDLESS_JOIN = re.compile(r"StreamingSymmetricHashJoin.*(?:left = null|right = null)")


@dataclass
class Explanation:
    """What EXPLAIN shows of one query: a title and sections of lines."""

    title: str
    sections: dict[str, list[str]] = field(default_factory=dict)

    def add(self, section: str, lines: Iterable[str]) -> None:
        """Add lines to a section, which stands behind the earlier ones when it is new."""
        found = [each for line in lines for each in without_secrets(line).splitlines()]
        if found:
            self.sections.setdefault(section, []).extend(found)

    def lines(self, hidden: Sequence[str] = ()) -> Iterator[str]:
        """Return the lines of the explanation, without some sections."""
        yield self.title
        for section, lines in self.sections.items():
            if section in hidden:
                continue
            yield f"  {section}:"
            yield from (f"    {line}" for line in lines)


def add_reads(explanation: Explanation, notes: Notes, catalog: Catalog) -> list[Connector]:
    """Add the tables that a query reads, and return their connectors."""
    connectors = []
    for parts, hinted in notes.reads:
        found = catalog.find(parts)
        name = ".".join(parts)
        if isinstance(found, Table):
            connectors.append(found.hinted(hinted).connector)
            shown = [option_text(key, value) for key, value in connectors[-1].given.items()]
            explanation.add("Reads", [f"{name}: {', '.join(shown)}"])
        else:
            kind = "a view" if found is not None else "a table of Spark"
            explanation.add("Reads", [f"{name}: {kind}"])
    return connectors


def add_changes(explanation: Explanation, notes: Notes, rows: RowTraits) -> None:
    """Add how the rows of a stream change, from the tables to the result, and its cuts."""
    reads = dict.fromkeys(
        f"{'.'.join(parts)} gives {_mode_of(source)}"
        for (parts, _), source in notes.reads.items()
        if source.key
    )
    explanation.add("Cuts", [cut.line for cut in notes.cuts] or ["none"])
    given = mode_of(changes=rows.changes is not None, keys=rows.keys)
    explanation.add("Changes", [*reads, f"the query gives {given}"])


def _mode_of(source: Source) -> str:
    return mode_of(
        changes=source.changelog is not Changelog.APPEND,
        keys=[each.lower() for each in source.keys] or None,
    )


def warnings_of(notes: Notes, catalog: Catalog) -> Iterator[str]:
    """Return what a user should know of a stream before it starts: rows that Spark may drop, many windows."""
    yield from (*notes.hops, *notes.told)
    yield from [" ".join(dict.fromkeys(notes.varying))] if notes.varying else []
    if not notes.drops_late_rows:
        return
    for _, table in catalog.tables_of(notes.reads):
        warning = late_rows(table)
        if warning is not None:
            yield warning


def option_text(key: str, value: str) -> str:
    quoted = value.replace("'", "''")
    return f"'{key}' = '{quoted}'"


def add_plan(explanation: Explanation, frame: Any, reads: Sequence[Connector], notes: Notes) -> None:
    """Add what a query keeps, warnings about its input, and Spark's plan."""
    own = [f"{cut.name} ({cut.where}): {cut.keeps}" for cut in notes.cuts]
    plan = plan_text(frame)
    if plan is None:
        explanation.add("State", own)
        explanation.add(_PLAN_OF_SPARK, ["Spark shows the plan of this stream only when it runs."])
        return
    if frame.isStreaming:
        explanation.add("State", [*own, *states(plan, notes.columns)] or ["none"])
        explanation.add("Warnings", read_warnings(plan, reads, has_endless_join=notes.has_endless_join))
    explanation.add(_PLAN_OF_SPARK, plan.strip().splitlines())


def plan_text(frame: Any) -> str | None:
    """Return Spark's physical plan, on Spark classic and Connect; None if Spark refuses to show it."""
    try:
        return explained(frame)
    except Exception as error:
        if first_line(error) is None:
            raise
        return None  # through Connect, Spark takes a stream of SQL for a batch


def states(plan: str, names: Mapping[str, str] = _NOTHING) -> list[str]:
    """Return what each operator of a streaming plan keeps, and when it goes.

    `names` has the names of columns for the user, by those in Spark's SQL.
    """
    found = []
    for line in plan.splitlines():
        for operator, keeps in _STATES.items():
            if re.search(rf"\b{operator}\b", line):
                found.append(f"{keeps}: {_until(operator, line, names)}")
    return found


def _until(operator: str, line: str, names: Mapping[str, str]) -> str:
    """Return when the state of a line of a plan goes."""
    if operator == "StreamingGlobalLimit":
        return "one number"
    if operator == "StreamingSymmetricHashJoin":
        return _until_of_join(line, names)
    marked = _MARKED.search(line.partition("], state info")[0])
    if marked is None:
        until = _FOR_EVER
    else:
        name = names.get(marked[1], marked[1])
        what = "the end of its window" if name in _WINDOW_NAMES else f"its {name}"
        until = f"an entry goes when the watermark has passed {what}. Later rows are dropped"
    if "collect_set(" in line:
        until = f"{until}. For DISTINCT an entry has each different value, as one row of Spark's state"
    return until


def _until_of_join(line: str, names: Mapping[str, str]) -> str:
    if _ENDLESS_JOIN.search(line):
        return _FOR_EVER
    sides = []
    for side in ("left", "right"):
        found = re.search(rf"{side} value predicate: \(({_NAME})#", line)
        name = names.get(found[1], found[1]) if found else None
        sides.append(
            f"a {side} row goes when the watermark has passed its {name} and what ON adds" if name else ""
        )
    if not all(sides):
        sides = ["a row goes when the watermark has passed the time that ON compares by ="]
    return f"{', '.join(sides)}. Later rows are dropped"


def read_warnings(plan: str, reads: Sequence[Connector], *, has_endless_join: bool = False) -> list[str]:
    """Return what a user should know about the input of a streaming query, and its endless joins."""
    found = []
    ends = bool(reads) and all(each.is_bounded for each in reads)
    # Spark groups by a column with a watermark only if it is a window.
    if ends and any("StateStoreSave" in each and _MARKED.search(each) for each in plan.splitlines()):
        found.append("the tables are bounded: windows that no later record closes are not written.")
    if has_endless_join or _ENDLESS_JOIN.search(plan):
        found.append(
            "a join keeps all rows of both sides, so its state grows without an end: no conditions bound the "
            "WATERMARK columns of both by each other. SET 'table.exec.state.ttl' = '...' forgets rows that "
            "nothing has written for so long."
        )
    return found


def guarantee(table: Table) -> Iterator[str]:
    """Return what holds from the records that are read to the rows that are written, also after failures."""
    yield (
        "A micro-batch that failed is read again with the same records, and the state of operators goes back "
        "with it. So each record counts once in the rows of the query."
    )
    connector = table.connector
    if isinstance(connector, Kafka):
        is_last = connector.config.is_upsert and connector.guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        yield _GUARANTEES[connector.guarantee] + (" The last record of each key is right." if is_last else "")
    elif isinstance(connector, Jdbc) and table.definition.primary_key:
        yield "Each micro-batch changes the table once: one transaction has its rows and its marker."
    elif isinstance(connector, Files):
        yield "Each row is written once, for readers that follow Spark's folder _spark_metadata."
    else:
        yield "After a failure the rows of a micro-batch may come twice."


def write_warnings(table: Table, *, folder: str | None) -> list[str]:
    """Return what a user should know about the sink of a streaming query."""
    found, connector = [], table.connector
    if isinstance(connector, Kafka) and connector.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        found.append(
            f"after a failure rows may be written twice. '{DELIVERY_GUARANTEE.key}' = 'exactly-once' "
            "prevents it."
        )
    if isinstance(connector, Jdbc) and not table.definition.primary_key:
        found.append("after a failure rows may be written twice. A PRIMARY KEY prevents it.")
    if folder is None and connector.needs_folder:
        found.append("the job cannot start without SET 'execution.checkpointing.dir'.")
    return found
