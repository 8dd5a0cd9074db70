"""Check the arguments that all operators over changelogs have: columns, names, durations, aggregates.

Runs in the user's program, before a query starts. Invariant: a wrong argument is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType, TimestampType

from penstock.changelog.row_kinds import ROW_KIND, has_row_kind
from penstock.errors import OptionError, SchemaError
from penstock.options.values import parse_duration_ms
from penstock.state.files import folder_in
from penstock.state.lineage import RUNS
from penstock.state.plans import PLANS
from penstock.state.store import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Duration = str | timedelta
_OWN_FOLDERS = (PARTITIONS, PLANS, RUNS)
"""A `state` may have the state of one operator, and folders with names beside it."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
KIND_FIELD = StructField(ROW_KIND, StringType(), nullable=False)
"""The column of row kinds in the output of an operator."""
CallT = TypeVar("CallT")


def columns_without_kind(df: DataFrame) -> StructType:
    """Return the columns beside `row_kind`.

    Raises:
        SchemaError: `row_kind` is not a STRING, or its name is spelled in another way.
    """
    has_row_kind(df.columns)
    for field in df.schema:
        if field.name == ROW_KIND and field.dataType != StringType():
            raise SchemaError(
                f"Expected STRING for the column {ROW_KIND}, got {field.dataType.simpleString()}. Cast it.",
                column=ROW_KIND,
            )
    return StructType([field for field in df.schema if field.name != ROW_KIND])


def kind_expression(df: DataFrame) -> str:
    """Return the SQL of the row kinds. Without the column every row is +I."""
    return ROW_KIND if ROW_KIND in df.columns else f"'+I' AS {ROW_KIND}"


def folder_of(state: str | None, name: str | None) -> str | None:
    """Return the folder of an operator's state: `state`, or the folder `name` in it.

    Raises:
        OptionError: the name cannot be that of a folder, or a state has such a folder itself.
    """
    if name is None:
        return state
    if not _NAME.fullmatch(name) or name in _OWN_FOLDERS:
        raise OptionError(
            f"Expected letters, digits, '_' and '-' for `name`, beginning with a letter, and none of "
            f"{', '.join(_OWN_FOLDERS)}; got {name!r}.",
            option="name",
        )
    return None if state is None else folder_in(state, name)


def check_names(option: str, names: Sequence[str]) -> None:
    """Raise OptionError unless `names` are columns in a list."""
    if isinstance(names, str):
        raise OptionError(f"Expected a list of columns for `{option}`, got {names!r}.", option=option)
    if not names:
        raise OptionError(f"`{option}` is empty. Name at least one column.", option=option)


def check_texts(columns: StructType, names: Iterable[str]) -> None:
    """Raise SchemaError if one of the columns is a text that Spark does not compare by its bytes."""
    for name in names:
        kind = columns[name].dataType
        if isinstance(kind, StringType) and kind != StringType():
            raise SchemaError(
                f"The column {name!r} is a {kind.simpleString()}, and texts are compared by their bytes "
                "here. Values that Spark takes for equal would be different. Nothing was started. Write "
                f"{name} COLLATE UTF8_BINARY, or lower({name}), in place of the column.",
                column=name,
            )


def direction(text: str) -> tuple[str, bool]:
    """Return a column of an order, and whether it is descending: of `name`, `name asc` or `name desc`."""
    name, separator, word = text.rpartition(" ")
    if separator and word.lower() in ("asc", "desc"):
        return name.strip(), word.lower() == "desc"
    return text, False


def check_time(columns: StructType, name: str) -> None:
    """Raise SchemaError unless a column is a timestamp."""
    if not isinstance(columns[name].dataType, TimestampType | TimestampNTZType):
        raise SchemaError(
            f"Expected a TIMESTAMP for the column {name}, got {columns[name].dataType.simpleString()}.",
            column=name,
        )


def duration_ms(option: str, duration: Duration, *, is_zero_allowed: bool = False) -> int:
    """Return a duration in milliseconds. Raises OptionError if it is not a duration, or too short."""
    if isinstance(duration, timedelta):
        found = duration // timedelta(milliseconds=1)
    else:
        try:
            found = parse_duration_ms(duration)
        except ValueError as error:
            raise OptionError(f"The duration in `{option}` is wrong: {error}", option=option) from None
    if found < 0 or (found == 0 and not is_zero_allowed):
        expected = "a duration from 0" if is_zero_allowed else "a positive duration"
        raise OptionError(f"Expected {expected} for `{option}`, got {duration}.", option=option)
    return found


def time_to_live_ms(option: str, duration: Duration | None) -> int | None:
    """Return a time to live in milliseconds; None for ever.

    Raises:
        OptionError: it is not a positive duration.
    """
    return None if duration is None else duration_ms(option, duration)


def parsed_calls(
    parse: Callable[[Mapping[str, str]], Iterable[CallT]], calls: Mapping[str, str]
) -> tuple[CallT, ...]:
    """Return the aggregates that a user asks for.

    Raises:
        OptionError: there are none, or `parse` does not know one.
    """
    try:
        found = tuple(parse(calls))
    except ValueError as error:
        raise OptionError(f"`calls` is wrong: {error}.", option="calls") from None
    if not found:
        raise OptionError("`calls` is empty. Name at least one aggregate.", option="calls")
    return found
