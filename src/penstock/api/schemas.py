"""Serialization schemas: how the rows of a DataFrame become the keys and values of Kafka records.

Used in the user's program, when a DataFrame is to be written; the functions of users run on the executors.
Invariant: what a schema gives is bytes, text or null for each row, and a row that it cannot serialize fails
the query, so that none is written as something else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.api._functions import Role, function_column, functions_for
from penstock.errors import OptionError, RowError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

CHARSETS = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32")
"""What Spark can encode to."""


class SerializationSchema(ABC):
    """Serializes a row in Python, on the executors: Flink's `SerializationSchema`. Subclass it.

    An instance travels to Spark by value. For speed prefer what Spark can do by itself: SimpleStringSchema,
    ByteArraySchema, or a Spark expression such as `to_json(struct("*"))`.
    """

    @abstractmethod
    def serialize(self, element: Row) -> bytes | None:
        """The bytes of one row; None makes a null key or a tombstone."""


class ColumnSerializationSchema(ABC):
    """Serializes with an expression of Spark, without Python."""

    @abstractmethod
    def column(self, rows: DataFrame, role: Role) -> Column:
        """The expression: binary or string.

        Args:
            rows: which will be written.
            role: whether it makes keys or values.

        Raises:
            RowError: the rows do not fit.
        """


class SimpleStringSchema(ColumnSerializationSchema):
    """Writes a string column as text; for `set_value_only_deserializer` reads values as text.

    Args:
        charset: one of CHARSETS.
        column: which. Without it: the only column, or among several the one named `key` or `value`.
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
        """How text is encoded, also where values are read."""
        return self._charset

    def column(self, rows: DataFrame, role: Role) -> Column:
        """The text in the charset."""
        name = _named(self, rows, self._column, role)
        _check_type(self, rows, name, "string", 'cast it, e.g. .withColumn("{}", col("{}").cast("string"))')
        text = rows[_quoted(name)]
        if self._charset == "UTF-8":
            return text
        encoded: Column = functions_for(rows).encode(text, self._charset)
        return encoded


class ByteArraySchema(ColumnSerializationSchema):
    """Writes a binary column as it is; for `set_value_only_deserializer` reads values as they are.

    Args:
        column: which. Without it: the only column, or among several the one named `key` or `value`.
    """

    def __init__(self, column: str | None = None) -> None:
        self._column = column

    def column(self, rows: DataFrame, role: Role) -> Column:
        """The bytes."""
        name = _named(self, rows, self._column, role)
        _check_type(self, rows, name, "binary", "serialize it, e.g. with SimpleStringSchema")
        return rows[_quoted(name)]


def serialized(schema: Any, rows: DataFrame, role: Role) -> Column:
    """The column that a schema of the user makes of the rows."""
    if isinstance(schema, ColumnSerializationSchema):
        return schema.column(rows, role)
    if isinstance(schema, SerializationSchema):
        return function_column(rows, schema.serialize, role)
    if is_column(schema):
        column: Column = schema
        return column
    return function_column(rows, schema, role)


def check_schema(schema: Any, role: Role) -> Any:
    """Return `schema` if it can serialize; OptionError if it is something else."""
    is_schema = isinstance(schema, (ColumnSerializationSchema, SerializationSchema)) or is_column(schema)
    if not is_schema and (isinstance(schema, type) or not callable(schema)):
        raise OptionError(
            f"The {role.value} serialization schema has to be a SerializationSchema, SimpleStringSchema, "
            "ByteArraySchema, a Spark column or a function of a row, not "
            f"{schema.__name__ + ' itself' if isinstance(schema, type) else type(schema).__name__}."
        )
    return schema


def is_column(value: object) -> bool:
    """Whether it is a Column of Spark, classic or Connect; asked so that PySpark need not be loaded."""
    return any(
        kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "Column"
        for kind in type(value).__mro__
    )


def _named(schema: object, rows: DataFrame, column: str | None, role: Role) -> str:
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
        f"{problem}: there are {', '.join(names)}. Nothing was written. Name it: {kind}(column=...).",
        column=column or role.value,
    )


def _check_type(schema: object, rows: DataFrame, name: str, wanted: str, advice: str) -> None:
    found = rows.schema[name].dataType.simpleString()
    is_text = wanted == "string" and found.partition("(")[0] in ("varchar", "char")
    if found.partition(" ")[0] != wanted and not is_text:
        raise RowError(
            f"{type(schema).__name__} writes a {wanted} column, but {name} is {found}. Nothing was written; "
            f"{advice.format(name, name)}.",
            column=name,
            type=found,
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
