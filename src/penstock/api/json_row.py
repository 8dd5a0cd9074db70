"""`JsonRowSerializationSchema` with PyFlink's names.

Used in the user's program. Invariant: it is an expression of Spark and runs without Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.api._functions import Role, functions_for
from penstock.api.schemas import ColumnSerializationSchema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class JsonRowSerializationSchema(ColumnSerializationSchema):
    """Writes a row as a JSON object, nulls included. Made by its builder."""

    def __init__(self, type_info: Any = None) -> None:
        self._type_info = type_info

    @staticmethod
    def builder() -> JsonRowSerializationSchemaBuilder:
        """Begin to describe one."""
        return JsonRowSerializationSchemaBuilder()

    def column(self, rows: DataFrame, role: Role) -> Column:
        """The row as text. See `ColumnSerializationSchema.column`."""
        functions = functions_for(rows)
        wanted = self._type_info
        if isinstance(wanted, str):
            # Read by the session of the rows; `fromDDL` may ask another one, which need not exist.
            wanted = rows.sparkSession.createDataFrame([], wanted).schema
        columns = [functions.col("*")]
        if wanted is not None:
            quoted = {one.name: "`" + one.name.replace("`", "``") + "`" for one in wanted}
            columns = [rows[quoted[one.name]].cast(one.dataType).alias(one.name) for one in wanted]
        text: Column = functions.to_json(functions.struct(*columns), {"ignoreNullFields": "false"})
        return text


class JsonRowSerializationSchemaBuilder:
    """Describes it step by step, under PyFlink's names. Each method gives the builder back."""

    def __init__(self) -> None:
        self._type_info: Any = None

    def with_type_info(self, type_info: Any) -> JsonRowSerializationSchemaBuilder:
        """The columns to write and their types: a StructType or text; without it all as they are.

        Columns of other types are cast as Spark casts them: what does not fit fails the query, unless the
        session sets `spark.sql.ansi.enabled` to false, where it becomes null or another number.
        """
        self._type_info = type_info
        return self

    def build(self) -> JsonRowSerializationSchema:
        """The schema."""
        return JsonRowSerializationSchema(self._type_info)
