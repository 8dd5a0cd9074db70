"""Decode changelogs with Spark's own functions, as a user without penstock does.

The plans are the shortest that give the same rows as penstock for the messages of `messages.py`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from benchmarks.changelogs.messages import AVRO, AVRO_SCHEMA, COLUMNS

_TYPES = dict(each.split() for each in COLUMNS.split(", "))
_TEXTS = ", ".join(f"{name} STRING" for name in _TYPES)
_OPERATIONS = {
    "debezium-json": ("op", "c", "u"),
    AVRO: ("op", "c", "u"),
    "canal-json": ("type", "INSERT", "UPDATE"),
    "maxwell-json": ("type", "insert", "update"),
    "ogg-json": ("op_type", "I", "U"),
}
"""Of each format: the field of the operation, an insert and an update. All others here are deletes."""


def changes(name: str, records: DataFrame) -> DataFrame:
    """Return the rows of changes, with their row kind, of records with the column `value`."""
    operation, insert, update = _OPERATIONS[name]
    parsed = _parsed(name, records)
    kind, before, after = F.col(operation), F.col("before"), F.col("after")
    rows = (
        F.when(kind == update, F.array(_row("-U", before), _row("+U", after)))
        .when(kind == insert, F.array(_row("+I", after)))
        .otherwise(F.array(_row("-D", before)))
    )
    return parsed.select(F.inline(rows))


def _parsed(name: str, records: DataFrame) -> DataFrame:
    """Return the operation and the structs `before` and `after`."""
    operation, _, update = _OPERATIONS[name]
    if name == AVRO:
        # The first five bytes are the id of the schema.
        message = from_avro(F.expr("substring(value, 6)"), AVRO_SCHEMA)
        return records.select(message.alias("m")).select("m.before", "m.after", "m.op")
    row = _TEXTS if name == "canal-json" else COLUMNS
    if name in ("debezium-json", "ogg-json"):
        fields = f"before STRUCT<{row}>, after STRUCT<{row}>, {operation} STRING"
        return _from_json(records, fields)
    kind = f"ARRAY<STRUCT<{row}>>" if name == "canal-json" else f"STRUCT<{row}>"
    parsed = _from_json(records, f"data {kind}, old {kind}, {operation} STRING")
    if name == "canal-json":
        rows = parsed.withColumn("old", F.coalesce("old", F.array()))
        pairs = rows.select(operation, F.explode(F.arrays_zip("data", "old")).alias("pair"))
        parsed = pairs.select(operation, "pair.*")
    old = F.when(F.col(operation) == update, _completed()).otherwise(_struct(F.col("data")))
    return parsed.select(operation, old.alias("before"), _struct(F.col("data")).alias("after"))


def _from_json(records: DataFrame, fields: str) -> DataFrame:
    message = F.from_json(F.col("value").cast("string"), fields)
    return records.select(message.alias("m")).select("m.*")


def _completed() -> Column:
    """Return the old row: the columns that have changed, and the others of the new row."""
    return F.struct(
        *(
            F.coalesce(F.col(f"old.{name}"), F.col(f"data.{name}")).cast(kind).alias(name)
            for name, kind in _TYPES.items()
        )
    )


def _struct(row: Column) -> Column:
    return F.struct(*(row[name].cast(kind).alias(name) for name, kind in _TYPES.items()))


def _row(kind: str, row: Column) -> Column:
    return F.struct(*(row[name].alias(name) for name in _TYPES), F.lit(kind).alias("row_kind"))
