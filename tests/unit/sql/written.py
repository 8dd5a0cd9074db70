"""Statements as text, so that what is read can be compared with what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.sql.language.statements import (
    AlterTable,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    DescribeJob,
    Drop,
    Explain,
    Insert,
    ResetOption,
    Select,
    SetOption,
    Show,
    Statement,
    StatementSet,
    StopJob,
    Use,
)
from penstock.sql.language.write import (
    after,
    created_text,
    elements_text,
    name_text,
    names_text,
    options_text,
    quoted_name,
    quoted_text,
    statement_text,
)


def written(statement: Statement) -> str:
    return _WRITERS[type(statement)](statement)


def _function(function: CreateFunction) -> str:
    text = created_text(
        "FUNCTION", function.name, temporary=function.temporary, if_not_exists=function.if_not_exists
    )
    declared = " DETERMINISTIC" if function.is_deterministic else ""
    return f"{text} AS {quoted_text(function.path)} LANGUAGE PYTHON{declared}"


def _database(database: CreateDatabase) -> str:
    text = created_text("DATABASE", database.name, temporary=False, if_not_exists=database.if_not_exists)
    return f"{text}{after(database.comment, 'COMMENT ')}"


def _insert(insert: Insert) -> str:
    hints = f" /*+ OPTIONS{options_text(insert.hints)} */" if insert.hints else ""
    columns = f" {names_text(insert.columns)}" if insert.columns else ""
    word = "OVERWRITE" if insert.overwrite else "INTO"
    conflict = f" ON CONFLICT DO {insert.on_conflict.action}" if insert.on_conflict is not None else ""
    return f"INSERT {word} {name_text(insert.table)}{hints}{columns} {insert.query.text}{conflict}"


def _set_body(statements: StatementSet) -> str:
    return f"STATEMENT SET BEGIN {' '.join(f'{_insert(each)};' for each in statements.inserts)} END"


def _set(option: SetOption) -> str:
    if option.key is None:
        return "SET"
    return f"SET {quoted_text(option.key)} = {quoted_text(option.value or '')}"


def _show(show: Show) -> str:
    between = " FROM " if not show.what.startswith("CREATE") else " "
    name = "" if show.name is None else f"{between}{name_text(show.name)}"
    return f"SHOW {show.what}{name}{after(show.like, 'LIKE ')}"


def _explain(explain: Explain) -> str:
    details = f" {', '.join(explain.details)}" if explain.details else ""
    inner = explain.statement
    body = _set_body(inner) if isinstance(inner, StatementSet) else written(inner)
    return f"EXPLAIN{details} {body}"


def _drop(drop: Drop) -> str:
    temporary = "TEMPORARY " if drop.temporary else ""
    return f"DROP {temporary}{drop.kind} {'IF EXISTS ' if drop.if_exists else ''}{name_text(drop.name)}"


def _alter(alter: AlterTable) -> str:
    head = f"ALTER TABLE {'IF EXISTS ' if alter.if_exists else ''}{name_text(alter.name)}"
    if alter.rename_to is not None:
        return f"{head} RENAME TO {name_text(alter.rename_to)}"
    if alter.rename_column is not None:
        old, new = alter.rename_column
        return f"{head} RENAME {quoted_name(old)} TO {quoted_name(new)}"
    if alter.reset_options:
        return f"{head} RESET ({', '.join(map(quoted_text, alter.reset_options))})"
    if elements := elements_text(alter.add, alter.add_watermark, alter.add_primary_key):
        return f"{head} ADD ({elements})"
    return f"{head} SET {options_text(alter.set_options)}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    CreateTable: statement_text,
    CreateView: statement_text,
    CreateFunction: _function,
    CreateDatabase: _database,
    Select: lambda select: str(select.query.text),
    Insert: _insert,
    StatementSet: lambda statements: f"EXECUTE {_set_body(statements)}",
    SetOption: _set,
    ResetOption: lambda option: f"RESET{after(option.key)}",
    Show: _show,
    Describe: lambda describe: f"DESCRIBE {name_text(describe.name)}",
    DescribeJob: lambda describe: f"DESCRIBE JOB {quoted_text(describe.job)}",
    StopJob: lambda stop: (
        f"STOP JOB {quoted_text(stop.job)}{' WITH SAVEPOINT' if stop.with_savepoint else ''}"
    ),
    Explain: _explain,
    Drop: _drop,
    Use: lambda use: f"USE {name_text(use.name)}",
    AlterTable: _alter,
}
