"""Write types, tables and views as text.

Runs on the driver. Invariant: what is written is read again as an equal value. Names stand in backticks.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    CreateView,
    MetadataColumn,
    Name,
    Options,
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
        fields = (f"{quoted_name(f.name)} {type_text(f.type)}{after(f.comment)}" for f in kind.fields)
        inner = f"<{', '.join(fields)}>"
    elif kind.elements:
        inner = f"<{', '.join(map(type_text, kind.elements))}>"
    elif kind.args:
        inner = f"({', '.join(map(str, kind.args))})"
    unit = f" {kind.unit}" if kind.unit else ""
    return f"{kind.name}{inner}{unit}{'' if kind.nullable else ' NOT NULL'}"


def statement_text(created: CreateTable | CreateView) -> str:
    """Return the text of the statement that creates a table or view, without a `;` at its end."""
    return _table(created) if isinstance(created, CreateTable) else _view(created)


def after(text: str | None, word: str = "") -> str:
    """Return a text in quotes behind a word; "" without a text."""
    return "" if text is None else f" {word}{quoted_text(text)}"


def name_text(name: Name) -> str:
    """Return a name in backticks, with points between its parts."""
    return ".".join(map(quoted_name, name.parts))


def names_text(names: Iterable[str]) -> str:
    """Return names in brackets."""
    return f"({', '.join(map(quoted_name, names))})"


def options_text(options: Options) -> str:
    """Return options in brackets."""
    return f"({', '.join(f'{quoted_text(key)} = {quoted_text(value)}' for key, value in options)})"


def _column(column: Column) -> str:
    comment = after(column.comment, "COMMENT ")
    name = quoted_name(column.name)
    if isinstance(column, ComputedColumn):
        return f"{name} AS {column.expression.text}{comment}"
    written = f"{name} {type_text(column.type)}"
    if isinstance(column, MetadataColumn):
        written += f" METADATA{after(column.key, 'FROM ')}{' VIRTUAL' if column.virtual else ''}"
    return f"{written}{comment}"


def _watermark(mark: Watermark) -> str:
    column = ".".join(quoted_name(part) for part in mark.column.split("."))
    return f"WATERMARK FOR {column} AS {mark.expression.text}"


def elements_text(columns: Iterable[Column], watermark: Watermark | None, key: tuple[str, ...]) -> str:
    """Return the columns, the watermark and the key of a table."""
    parts = [_column(column) for column in columns]
    if watermark is not None:
        parts.append(_watermark(watermark))
    if key:
        parts.append(f"PRIMARY KEY {names_text(key)} NOT ENFORCED")
    return ",\n  ".join(parts)


def created_text(kind: str, name: Name, *, temporary: bool, if_not_exists: bool) -> str:
    """Return the beginning of CREATE, up to the name."""
    exists = "IF NOT EXISTS " if if_not_exists else ""
    return f"CREATE {'TEMPORARY ' if temporary else ''}{kind} {exists}{name_text(name)}"


def _table(table: CreateTable) -> str:
    text = created_text("TABLE", table.name, temporary=table.temporary, if_not_exists=table.if_not_exists)
    if elements := elements_text(table.columns, table.watermark, table.primary_key):
        text += f" (\n  {elements}\n)"
    text += after(table.comment, "COMMENT ")
    if table.partitioned_by:
        text += f" PARTITIONED BY {names_text(table.partitioned_by)}"
    if table.options:
        text += f" WITH {options_text(table.options)}"
    if table.like is not None:
        words = " ".join(f"{word} {part}" for word, part in table.like.options)
        text += f" LIKE {name_text(table.like.table)}{f' ({words})' if words else ''}"
    return text if table.query is None else f"{text} AS {table.query.text}"


def _view(view: CreateView) -> str:
    text = created_text("VIEW", view.name, temporary=view.temporary, if_not_exists=view.if_not_exists)
    columns = f" {names_text(view.columns)}" if view.columns else ""
    return f"{text}{columns}{after(view.comment, 'COMMENT ')} AS {view.query.text}"
