"""Serialize the rows of a DataFrame as keys and values of Kafka records.

Runs in the user's program; functions of users run on the executors. Invariant: a schema makes bytes, text or
null of each row. A row that it cannot serialize fails the query, and is never written as something else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.errors import OptionError, RowError
from penstock.flink._functions import RecordPart, function_column
from penstock.spark.connect import functions_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

CHARSETS = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32")
"""The charsets that Spark can write."""


class SerializationSchema(ABC):
    """Serialize a row in Python, on the executors: Flink's `SerializationSchema`. Subclass it.

    An instance travels to Spark by value. These are faster because Spark needs no Python for them:
    SimpleStringSchema, ByteArraySchema, and a Spark expression such as `to_json(struct("*"))`.
    """

    @abstractmethod
    def serialize(self, element: Row) -> bytes | None:
        """Return the bytes of a row. None makes a null key or a tombstone."""


class ColumnSerializationSchema(ABC):
    """Serialize with an expression of Spark, without Python."""

    @abstractmethod
    def column(self, rows: DataFrame, role: RecordPart) -> Column:
        """Return the expression, of type binary or string.

        Args:
            rows: the rows to write.
            role: whether it makes keys or values.

        Raises:
            RowError: the rows do not fit.
        """


class SimpleStringSchema(ColumnSerializationSchema):
    """Write a string column as text; in `set_value_only_deserializer` read values as text.

    Args:
        charset: UTF-8, US-ASCII, ISO-8859-1, UTF-16, UTF-16BE, UTF-16LE or UTF-32.
        column: the column. Default: the only column, or the column named `key` or `value` of several.
    """

    def __init__(self, charset: str = "UTF-8", column: str | None = None) -> None:
        if charset.upper() not in CHARSETS:
            raise OptionError(
                f"SimpleStringSchema cannot write the charset {charset!r}. Allowed: {', '.join(CHARSETS)}."
            )
        self._charset = charset.upper()
        self._column = column

    @property
    def charset(self) -> str:
        """Return the charset, which is also used to read values."""
        return self._charset

    def column(self, rows: DataFrame, role: RecordPart) -> Column:
        """Return the text in the charset."""
        name = _named(self, rows, self._column, role)
        _check_type(self, rows, name, "string", 'Cast it, e.g. .withColumn("{}", col("{}").cast("string"))')
        text = rows[_quoted(name)]
        if self._charset == "UTF-8":
            return text
        encoded: Column = functions_for(rows).encode(text, self._charset)
        return encoded


class ByteArraySchema(ColumnSerializationSchema):
    """Write a binary column unchanged; in `set_value_only_deserializer` read values unchanged.

    Args:
        column: the column. Default: the only column, or the column named `key` or `value` of several.
    """

    def __init__(self, column: str | None = None) -> None:
        self._column = column

    def column(self, rows: DataFrame, role: RecordPart) -> Column:
        """Return the bytes."""
        name = _named(self, rows, self._column, role)
        _check_type(self, rows, name, "binary", "Serialize it, e.g. with SimpleStringSchema")
        return rows[_quoted(name)]


def serialized(schema: Any, rows: DataFrame, role: RecordPart) -> Column:
    """Return the column that a schema of the user makes of the rows."""
    if isinstance(schema, ColumnSerializationSchema):
        return schema.column(rows, role)
    if isinstance(schema, SerializationSchema):
        return function_column(rows, schema.serialize, role)
    if is_column(schema):
        column: Column = schema
        return column
    return function_column(rows, schema, role)


def check_schema(schema: Any, role: RecordPart) -> Any:
    """Return `schema` after a check. Raise OptionError if it cannot serialize."""
    is_schema = isinstance(schema, (ColumnSerializationSchema, SerializationSchema)) or is_column(schema)
    if not is_schema and (isinstance(schema, type) or not callable(schema)):
        raise OptionError(
            "Expected a SerializationSchema, SimpleStringSchema, ByteArraySchema, a Spark column or a "
            f"function of a row as the {role.value} serialization schema, got "
            f"{'the class ' + schema.__name__ if isinstance(schema, type) else type(schema).__name__}."
        )
    return schema


def is_column(value: object) -> bool:
    """Return whether it is a Column of Spark, classic or Connect, without loading PySpark."""
    return any(
        kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "Column"
        for kind in type(value).__mro__
    )


def _named(schema: object, rows: DataFrame, column: str | None, role: RecordPart) -> str:
    names = rows.columns
    if column is not None and column in names:
        return column
    if column is None and len(names) == 1:
        return names[0]
    if column is None and role.value in names:
        return role.value
    kind = type(schema).__name__
    problem = (
        f"The DataFrame has no column {column}"
        if column is not None
        else f"{kind} does not know which column holds the {role.value}"
    )
    raise RowError(
        f"{problem}. The columns are {', '.join(names)}. Nothing was written. Name the column: "
        f"{kind}(column=...).",
        column=column or role.value,
    )


def _check_type(schema: object, rows: DataFrame, name: str, wanted: str, advice: str) -> None:
    found = rows.schema[name].dataType.simpleString()
    is_text = wanted == "string" and found.partition("(")[0] in ("varchar", "char")
    if found.partition(" ")[0] != wanted and not is_text:
        raise RowError(
            f"{type(schema).__name__} writes a {wanted} column, but {name} is {found}. Nothing was written. "
            f"{advice.format(name, name)}.",
            column=name,
            type=found,
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
