"""Rows of a query as a table takes them: whether it can take updates, and in which order.

Runs on the driver. Invariant: rows of a table with a primary key come in an order in which the last row of a
key is the right one, or the INSERT is refused before it starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.spark.map_rows import map_rows
from penstock.sql.connectors.described import Connector, Files, Jdbc
from penstock.sql.plan.hidden import KIND, OFFSETS, PLACE
from penstock.sql.plan.nodes import Changelog
from penstock.sql.plan.texts import quoted, widens
from penstock.sql.plan.traits import OF_WINDOWS
from penstock.sql.run._changing import has_kind_column, written_as
from penstock.sql.run._net import NetChanges, OldRowsFirst
from penstock.sql.run._record_order import InRecordOrder, OfOnePlace
from penstock.sql.run._rows import RowTraits
from penstock.sql.run.catalog import Table, stored_columns

_ONLY_UPDATES = ("GroupAggregate", "Deduplicate")
_OF_CHANGES = (
    "Its windows are over rows that change, and a row may change when its window is over. {hint}, or put "
    "TO_CHANGELOG around the query. If the rows change by ROW_NUMBER() alone, put window_start and "
    "window_end into its PARTITION BY, and GROUP BY these"
)
_TIMES = ("timestamp", "timestamp_ntz")
_MILLISECONDS, _MICROSECONDS = 3, 6
"""The digits of a second."""


def check_updates(table: Table, rows: RowTraits, changes: Changelog) -> None:
    """Check that a table takes the updates of a query.

    Raises:
        ValueError: it only takes new rows. The message is that of Flink.
    """
    if rows.changes is None or changes is not Changelog.APPEND or table.connector.takes_all_changes:
        return
    hint = (
        "Leave out its column for the row kind"
        if has_kind_column(table)
        else "Write into a table of 'upsert-kafka' or 'jdbc' with a PRIMARY KEY, into a format such as "
        "'debezium-json' or into 'print'"
    )
    if rows.changes == OF_WINDOWS:
        hint = _OF_CHANGES.format(hint=hint)
    kind = "update" if rows.changes in _ONLY_UPDATES else "update and delete"
    raise ValueError(
        f"Table sink '{table.definition.name}' doesn't support consuming {kind} changes "
        f"which is produced by node {rows.changes}. {hint}."
    )


def check_overwrite(connector: Connector, *, is_stream: bool) -> None:
    """Check that the rows of a table can be replaced by those of INSERT OVERWRITE.

    Raises:
        ValueError: rows can only be added.
    """
    if not isinstance(connector, Files):
        raise ValueError(
            f"INSERT OVERWRITE is for 'filesystem'. The connector '{connector.name}' only adds rows."
        )
    if is_stream:
        raise ValueError(
            "INSERT OVERWRITE is not for a stream, which only adds files. Use INSERT INTO, or the batch "
            "mode: SET 'execution.runtime-mode' = 'batch'."
        )


def cut_columns(
    given: dict[str, str], written: dict[str, str], rows: RowTraits, table: Table, *, is_utc: bool
) -> frozenset[str]:
    """Return the columns in which INSERT may make different values equal, in lower case.

    `given` has the types that the query gives, for the columns that INSERT fills, and `written` those of the
    table, both as Spark's simple strings. `rows` has the names of the table's columns.
    """
    types = {each.name: each.type for each in stored_columns(table.definition)}

    def is_kept(name: str, first: str) -> bool:
        second = written[name]
        if widens(first, second):
            return True
        if first in _TIMES and second in _TIMES:
            digits = types[name].args[0] if types[name].args else _MICROSECONDS
            enough = _MILLISECONDS if name.lower() in rows.millisecond_keys else _MICROSECONDS
            return (first == second or is_utc) and digits >= enough
        return first == second

    return frozenset(name.lower() for name, first in given.items() if not is_kept(name, first))


def check_conflict(table: Table, rows: RowTraits, cut: frozenset[str], action: str) -> None:
    """Check that no two rows of a query have one PRIMARY KEY, unless the last one is wanted.

    `action` is that of ON CONFLICT. `rows` and `cut` are those of `fitted`.

    Raises:
        ValueError: the table has no rows of a key, or it is unknown whether two rows have one key.
    """
    name, keys = str(table.definition.name), table.definition.primary_key
    if not has_last_rows(table):
        raise ValueError(
            f"ON CONFLICT is for a table that finds its rows by a PRIMARY KEY ('upsert-kafka', 'jdbc'), and "
            f"'{name}' takes each row. Leave it out."
        )
    if action == DEDUPLICATE or _differ(rows, keys, cut):
        return
    key = ", ".join(keys)
    raise ValueError(
        f"ON CONFLICT DO {action} is served if it is known that no two rows have one PRIMARY KEY ({key}) of "
        f"'{name}', and {_known(rows)}. {_INSTEAD[action].format(keys=key)}"
    )


DEDUPLICATE = "DEDUPLICATE"
_INSTEAD = {
    "NOTHING": "For the first row of a key write ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY ...) = 1.",
    "ERROR": "Group by the PRIMARY KEY, or leave ON CONFLICT out: a query whose rows could overwrite one "
    "another in any order is refused.",
}
"""What to use instead of an action of ON CONFLICT."""


def _differ(rows: RowTraits, keys: tuple[str, ...], cut: frozenset[str]) -> bool:
    """Return whether it is known that no two rows of a query have one PRIMARY KEY."""
    own = {key.lower() for key in keys}
    return rows.keys is not None and not cut & rows.keys and rows.keys <= own


def fitted(frame: Any, rows: RowTraits, table: Table, cut: frozenset[str] = frozenset()) -> Any:
    """Return the rows in an order that the table can take, without the columns of their offsets.

    `rows` has the names of the table's columns. In the columns of `cut`, INSERT may make different values
    equal.

    Raises:
        ValueError: rows of one key would come in no order.
    """
    keys, name = table.definition.primary_key, str(table.definition.name)
    if not has_last_rows(table):
        found = _without_offsets(frame, rows)
        return _old_rows_first(found, rows, keys) if written_as(table) is Changelog.RETRACT else found
    hint = ""
    lost = sorted(cut & rows.keys) if rows.keys is not None else []
    if lost:
        rows = replace(rows, keys=None, is_grouped_in_order=False)
        hint = (
            f" INSERT may make different values of '{lost[0]}' equal, because the table declares another "
            "type than the query gives. Declare the same type in both, a time with 6 digits."
        )
    differ = _differ(rows, keys, cut)
    if differ and (rows.is_grouped_in_order or rows.changes is None):
        return _without_offsets(frame, rows)
    if rows.changes is not None and not differ:
        raise ValueError(
            f"the rows of the query change ({rows.changes}), and {_known(rows)}. So rows of one PRIMARY "
            f"KEY ({', '.join(keys)}) of '{table.definition.name}' would overwrite one another in any order. "
            f"Use the columns by which the rows differ as PRIMARY KEY.{hint}"
        )
    if rows.has_offsets:
        return _run(frame, keys, InRecordOrder(keys, name)).drop(*OFFSETS)
    is_jdbc = isinstance(table.connector, Jdbc)
    if is_jdbc and rows.is_read:
        # Each task has its rows in order, and the target refuses a key that two tasks have.
        return (
            map_rows(frame, OfOnePlace(keys, name).run, frame.schema).drop(PLACE) if rows.has_place else frame
        )
    if rows.changes is None and frame.isStreaming and (rows.is_mixed or not is_jdbc):
        raise ValueError(
            f"rows of one PRIMARY KEY ({', '.join(keys)}) of '{table.definition.name}' would come in any "
            "order, because the query joins or changes its rows, or reads several topics. Say which one "
            f"stays: ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY ...) = 1, or GROUP BY.{hint}"
        )
    frame = _without_offsets(frame, rows)
    return _run(frame, keys, NetChanges(keys, KIND if KIND in frame.columns else "", name))


def _old_rows_first(frame: Any, rows: RowTraits, keys: tuple[str, ...]) -> Any:
    """Return changes in which the old row of a key is before its new one, if they come in any order.

    A row may have moved from one task to another. Who reads the messages in their order would end with its
    old row.

    Args:
        frame: the rows.
        rows: what is known of them.
        keys: the PRIMARY KEY of the table; () without one. Then it is the key of the rows, if they have one.
    """
    known = frozenset() if rows.keys is None else rows.keys
    keys = keys or tuple(sorted(known))
    is_of_keys = rows.keys is not None and known <= {key.lower() for key in keys}
    # Rows with another key may be in another task each, also those that one operator made of a read.
    is_scattered = rows.is_scattered or (rows.keys is not None and not is_of_keys)
    if rows.changes is None or not keys or not is_scattered or (rows.is_grouped_in_order and is_of_keys):
        return frame
    return _run(frame, keys, OldRowsFirst(KIND))


def _without_offsets(frame: Any, rows: RowTraits) -> Any:
    hidden = [*(OFFSETS if rows.has_offsets else ()), *([PLACE] if rows.has_place else ())]
    return frame.drop(*hidden) if hidden else frame


def has_last_rows(table: Table) -> bool:
    """Return whether the last row of each PRIMARY KEY stays in the table, so that the order counts."""
    return written_as(table) is Changelog.UPSERT


def of_no_key(table: Table, targets: list[str]) -> tuple[bool, ...]:
    """Return for each column that is written whether the table finds no row by it.

    A table with a primary key takes the last row of a key, and deletes by the key alone. So its other columns
    may have a value of another micro-batch when their row is taken back. In one micro-batch the value must be
    the same, because the changes of a batch cancel out (`NetChanges`).
    """
    if not has_last_rows(table):
        return ()
    keys = {key.lower() for key in table.definition.primary_key}
    return tuple(name.lower() not in keys for name in targets)


def _known(rows: RowTraits) -> str:
    if rows.keys is None:
        return "no columns are known by which they differ"
    return f"they differ by ({', '.join(sorted(rows.keys))})"


def _run(frame: Any, keys: tuple[str, ...], function: InRecordOrder | NetChanges | OldRowsFirst) -> Any:
    together = frame.repartition(*(frame[quoted(key)] for key in keys))
    return map_rows(together, function.run, frame.schema)


def of_columns(rows: RowTraits, given: list[str], targets: list[str]) -> RowTraits:
    """Return what is known of rows by the names of the columns that they are written into."""
    lower = [name.lower() for name in given]
    names = {
        name: target.lower() for name, target in zip(lower, targets, strict=True) if lower.count(name) == 1
    }
    return rows.renamed(names)
