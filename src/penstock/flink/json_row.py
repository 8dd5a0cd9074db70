"""Serialize rows as JSON with PyFlink's methods: `JsonRowSerializationSchema`.

Runs in the user's program. Invariant: the schema is an expression of Spark and needs no Python on executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.flink._functions import RecordPart
from penstock.flink.schemas import ColumnSerializationSchema
from penstock.spark.connect import functions_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class JsonRowSerializationSchema(ColumnSerializationSchema):
    """Write a row as a JSON object, with its nulls. Use `builder()`."""

    def __init__(self, type_info: Any = None) -> None:
        self._type_info = type_info

    @staticmethod
    def builder() -> JsonRowSerializationSchemaBuilder:
        """Return a builder."""
        return JsonRowSerializationSchemaBuilder()

    def column(self, rows: DataFrame, role: RecordPart) -> Column:
        """Return the row as text. See `ColumnSerializationSchema.column`."""
        functions = functions_for(rows)
        wanted = self._type_info
        if isinstance(wanted, str):
            # The session of the rows parses the text. `fromDDL` may use another session, which may not exist.
            wanted = rows.sparkSession.createDataFrame([], wanted).schema
        columns = [functions.col("*")]
        if wanted is not None:
            quoted = {one.name: "`" + one.name.replace("`", "``") + "`" for one in wanted}
            columns = [rows[quoted[one.name]].cast(one.dataType).alias(one.name) for one in wanted]
        text: Column = functions.to_json(functions.struct(*columns), {"ignoreNullFields": "false"})
        return text


class JsonRowSerializationSchemaBuilder:
    """Builder with PyFlink's methods. Each method returns the builder."""

    def __init__(self) -> None:
        self._type_info: Any = None

    def with_type_info(self, type_info: Any) -> JsonRowSerializationSchemaBuilder:
        """Set the columns to write and their types: a StructType or a text. Default: all columns.

        Spark casts columns of other types. A value that does not fit fails the query. If the session sets
        `spark.sql.ansi.enabled` to false, the value becomes null or another number instead.
        """
        self._type_info = type_info
        return self

    def build(self) -> JsonRowSerializationSchema:
        """Return the schema."""
        return JsonRowSerializationSchema(self._type_info)
