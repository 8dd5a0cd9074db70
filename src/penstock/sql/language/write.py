"""Write statements as text.

Runs on the driver. Invariant: what is written is read again as an equal statement. Names stand in backticks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.statements import (
    AlterTable,
    Column,
    ComputedColumn,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    DescribeJob,
    Drop,
    Explain,
    Insert,
    MetadataColumn,
    Name,
    Options,
    ResetOption,
    Select,
    SetOption,
    Show,
    Statement,
    StatementSet,
    StopJob,
    Use,
    Watermark,
)


def quoted_name(name: str) -> str:
    """Return a name in backticks."""
    return f"`{name.replace('`', '``')}`"


def quoted_text(text: str) -> str:
    """Return a text in single quotes, as Flink reads it."""
    return f"'{text.replace(chr(39), chr(39) * 2)}'"


def type_text(kind: FlinkType) -> str:
    """Return the text of a type."""
    inner = ""
    if kind.name == "ROW":
        fields = (f"{quoted_name(f.name)} {type_text(f.type)}{_after(f.comment)}" for f in kind.fields)
        inner = f"<{', '.join(fields)}>"
    elif kind.elements:
        inner = f"<{', '.join(map(type_text, kind.elements))}>"
    elif kind.args:
        inner = f"({', '.join(map(str, kind.args))})"
    unit = f" {kind.unit}" if kind.unit else ""
    return f"{kind.name}{inner}{unit}{'' if kind.nullable else ' NOT NULL'}"


def statement_text(statement: Statement) -> str:
    """Return the text of a statement without a `;` at its end."""
    return _WRITERS[type(statement)](statement)


def _after(text: str | None, word: str = "") -> str:
    return "" if text is None else f" {word}{quoted_text(text)}"


def _name(name: Name) -> str:
    return ".".join(map(quoted_name, name.parts))


def _names(names: Iterable[str]) -> str:
    return f"({', '.join(map(quoted_name, names))})"


def _options(options: Options) -> str:
    return f"({', '.join(f'{quoted_text(key)} = {quoted_text(value)}' for key, value in options)})"


def _column(column: Column) -> str:
    comment = _after(column.comment, "COMMENT ")
    name = quoted_name(column.name)
    if isinstance(column, ComputedColumn):
        return f"{name} AS {column.expression.text}{comment}"
    written = f"{name} {type_text(column.type)}"
    if isinstance(column, MetadataColumn):
        written += f" METADATA{_after(column.key, 'FROM ')}{' VIRTUAL' if column.virtual else ''}"
    return f"{written}{comment}"


def _watermark(mark: Watermark) -> str:
    column = ".".join(quoted_name(part) for part in mark.column.split("."))
    return f"WATERMARK FOR {column} AS {mark.expression.text}"


def _elements(columns: Iterable[Column], watermark: Watermark | None, key: tuple[str, ...]) -> str:
    parts = [_column(column) for column in columns]
    if watermark is not None:
        parts.append(_watermark(watermark))
    if key:
        parts.append(f"PRIMARY KEY {_names(key)} NOT ENFORCED")
    return ",\n  ".join(parts)


def _created(kind: str, statement: Any) -> str:
    temporary = "TEMPORARY " if getattr(statement, "temporary", False) else ""
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    return f"CREATE {temporary}{kind} {exists}{_name(statement.name)}"


def _create_table(table: CreateTable) -> str:
    text = _created("TABLE", table)
    if elements := _elements(table.columns, table.watermark, table.primary_key):
        text += f" (\n  {elements}\n)"
    text += _after(table.comment, "COMMENT ")
    if table.partitioned_by:
        text += f" PARTITIONED BY {_names(table.partitioned_by)}"
    if table.options:
        text += f" WITH {_options(table.options)}"
    if table.like is not None:
        words = " ".join(f"{word} {part}" for word, part in table.like.options)
        text += f" LIKE {_name(table.like.table)}{f' ({words})' if words else ''}"
    return text if table.query is None else f"{text} AS {table.query.text}"


def _create_view(view: CreateView) -> str:
    columns = f" {_names(view.columns)}" if view.columns else ""
    return f"{_created('VIEW', view)}{columns}{_after(view.comment, 'COMMENT ')} AS {view.query.text}"


def _create_function(function: CreateFunction) -> str:
    declared = " DETERMINISTIC" if function.is_deterministic else ""
    return f"{_created('FUNCTION', function)} AS {quoted_text(function.path)} LANGUAGE PYTHON{declared}"


def _create_database(database: CreateDatabase) -> str:
    return f"{_created('DATABASE', database)}{_after(database.comment, 'COMMENT ')}"


def _insert(insert: Insert) -> str:
    hints = f" /*+ OPTIONS{_options(insert.hints)} */" if insert.hints else ""
    columns = f" {_names(insert.columns)}" if insert.columns else ""
    word = "OVERWRITE" if insert.overwrite else "INTO"
    conflict = f" ON CONFLICT DO {insert.on_conflict.action}" if insert.on_conflict is not None else ""
    return f"INSERT {word} {_name(insert.table)}{hints}{columns} {insert.query.text}{conflict}"


def _statement_set(statements: StatementSet) -> str:
    return f"EXECUTE {_set_body(statements)}"


def _set_body(statements: StatementSet) -> str:
    return f"STATEMENT SET BEGIN {' '.join(f'{_insert(each)};' for each in statements.inserts)} END"


def _set(option: SetOption) -> str:
    return (
        "SET" if option.key is None else f"SET {quoted_text(option.key)} = {quoted_text(option.value or '')}"
    )


def _reset(option: ResetOption) -> str:
    return f"RESET{_after(option.key)}"


def _show(show: Show) -> str:
    between = " FROM " if not show.what.startswith("CREATE") else " "
    name = "" if show.name is None else f"{between}{_name(show.name)}"
    return f"SHOW {show.what}{name}{_after(show.like, 'LIKE ')}"


def _stop_job(stop: StopJob) -> str:
    return f"STOP JOB {quoted_text(stop.job)}{' WITH SAVEPOINT' if stop.with_savepoint else ''}"


def _explain(explain: Explain) -> str:
    details = f" {', '.join(explain.details)}" if explain.details else ""
    inner = explain.statement
    body = _set_body(inner) if isinstance(inner, StatementSet) else statement_text(inner)
    return f"EXPLAIN{details} {body}"


def _drop(drop: Drop) -> str:
    temporary = "TEMPORARY " if drop.temporary else ""
    return f"DROP {temporary}{drop.kind} {'IF EXISTS ' if drop.if_exists else ''}{_name(drop.name)}"


def _alter(alter: AlterTable) -> str:
    head = f"ALTER TABLE {'IF EXISTS ' if alter.if_exists else ''}{_name(alter.name)}"
    if alter.rename_to is not None:
        return f"{head} RENAME TO {_name(alter.rename_to)}"
    if alter.rename_column is not None:
        old, new = alter.rename_column
        return f"{head} RENAME {quoted_name(old)} TO {quoted_name(new)}"
    if alter.reset_options:
        return f"{head} RESET ({', '.join(map(quoted_text, alter.reset_options))})"
    if elements := _elements(alter.add, alter.add_watermark, alter.add_primary_key):
        return f"{head} ADD ({elements})"
    return f"{head} SET {_options(alter.set_options)}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    CreateTable: _create_table,
    CreateView: _create_view,
    CreateFunction: _create_function,
    CreateDatabase: _create_database,
    Select: lambda select: str(select.query.text),
    Insert: _insert,
    StatementSet: _statement_set,
    SetOption: _set,
    ResetOption: _reset,
    Show: _show,
    Describe: lambda describe: f"DESCRIBE {_name(describe.name)}",
    DescribeJob: lambda describe: f"DESCRIBE JOB {quoted_text(describe.job)}",
    StopJob: _stop_job,
    Explain: _explain,
    Drop: _drop,
    Use: lambda use: f"USE {_name(use.name)}",
    AlterTable: _alter,
}
