"""Tables as DataFrames.

Runs on the driver. Invariant: nothing is read before a query starts. Options are passed on as they were
written, so penstock's own messages say what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from penstock.options import parse
from penstock.spark import check_options
from penstock.spark.connect import is_connect
from penstock.sql.bind.windows import no_time, watermark_delay_ms
from penstock.sql.connectors.described import Datagen, Files, Jdbc, Kafka
from penstock.sql.connectors.files import open_files
from penstock.sql.connectors.jdbc.frames import open_jdbc
from penstock.sql.functions.zones import SET_UTC, depends_on_zone, is_zoned
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    MetadataColumn,
    PhysicalColumn,
)
from penstock.sql.plan.declared_types import spark_type
from penstock.sql.plan.hidden import HIDDEN
from penstock.sql.plan.texts import literal, quoted
from penstock.sql.plan.types import spark_text
from penstock.sql.run._changing import check_changing
from penstock.sql.run.catalog import Table, stored_columns

METADATA_TYPES = {
    "topic": "STRING",
    "partition": "INT",
    "headers": "MAP<STRING, BINARY>",
    "leader-epoch": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp-type": "STRING",
}
_HIDDEN_TYPES = {"row-kind": "string", "topic": "string", "partition": "int", "offset": "bigint"}
_NOTHING: Mapping[str, str] = MappingProxyType({})
MARK = "penstock.metadata"
_NOT_IN_CSV = ("ARRAY", "MAP", "MULTISET", "ROW", "BYTES", "BINARY", "VARBINARY")
_PARTITION_TYPES = ("STRING", "VARCHAR", "CHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")


def check_use(table: Table, *, is_read: bool, is_batch: bool = False) -> None:
    """Check that a statement can read or write a table.

    Raises:
        NoConnectorError: its options name no connector that there is.
        WrongOptionError: an option is wrong, here or by itself.
        ValueError: the connector cannot do this, or an option is missing.
    """
    connector, name = table.connector, table.connector.name
    if is_read and not connector.can_read:
        raise ValueError(f"the connector '{name}' only writes, so the table cannot be read.")
    if not is_read and not connector.can_write:
        raise ValueError(f"the connector '{name}' only makes rows, so INSERT cannot write the table.")
    if isinstance(connector, Kafka):
        check_changing(table, connector, is_read=is_read, is_batch=is_batch)
    else:
        _check_no_metadata(table, is_read=is_read)
    if isinstance(connector, Files):
        _check_files(table, connector)
    elif table.definition.partitioned_by and not is_read and not connector.takes_all_changes:
        raise ValueError(f"PARTITIONED BY is for 'filesystem', and the connector is '{name}'. Leave it out.")


def _check_no_metadata(table: Table, *, is_read: bool) -> None:
    for column in table.definition.columns:
        if isinstance(column, MetadataColumn) and (is_read or not column.virtual):
            raise ValueError(
                f"the connector '{table.connector.name}' has no metadata, so '{column.name}' cannot be "
                f"{'read' if is_read else 'written'}."
            )


def _check_files(table: Table, files: Files) -> None:
    """Check that files of this format and their folders can hold the columns."""
    files.check_complete()
    columns, partitions = stored_columns(table.definition), table.definition.partitioned_by
    nested = next((each for each in columns if each.type.name in _NOT_IN_CSV), None)
    if files.format == "csv" and nested is not None:
        raise ValueError(
            f"the column '{nested.name}' is {nested.type.name}, which the format 'csv' cannot hold."
        )
    types = {each.name: each.type.name for each in columns}
    wrong = next((name for name in partitions if types.get(name) not in _PARTITION_TYPES), None)
    if wrong is not None:
        raise ValueError(
            f"the column '{wrong}' of PARTITIONED BY is {types.get(wrong, 'computed')}. Its values are names "
            "of folders: use a column of STRING, BOOLEAN, DATE or a whole number."
        )
    if types and types.keys() <= set(partitions):
        raise ValueError("PARTITIONED BY names all columns, so files would have none. Leave one out.")


def read_schema(table: CreateTable, hidden: Mapping[str, str] = _NOTHING) -> Any:
    """Return the schema that a read of the table declares: physical and metadata columns, and hidden ones.

    Raises:
        ValueError: a type is not served.
    """
    from pyspark.sql.types import StructType  # noqa: PLC0415 - this module loads without Spark

    schema = StructType()
    for name, kind, metadata in declared_types(table):
        schema = schema.add(name, parsed_type(kind), nullable=True, metadata=metadata or None)
    for name, key in hidden.items():
        schema = schema.add(name, parsed_type(_HIDDEN_TYPES[key]), nullable=True, metadata={MARK: key})
    return schema


def declared_types(table: CreateTable) -> list[tuple[str, str, dict[str, str]]]:
    """Return name, Spark's type and metadata of the columns that are read.

    Raises:
        ValueError: a type is not served.
    """
    parts: list[tuple[str, str, dict[str, str]]] = []
    for column in table.columns:
        if isinstance(column, PhysicalColumn):
            parts.append((column.name, _declared(column.type, column.name), {}))
        elif isinstance(column, MetadataColumn):
            key = column.metadata_key
            declared = METADATA_TYPES.get(key) or _declared(column.type, column.name)
            parts.append((column.name, declared, {MARK: key}))
    return parts


@cache
def parsed_type(kind: str) -> Any:
    """Return Spark's type of its text. Spark is asked once, because no option that may change decides it."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 - this module loads without Spark

    fields: Any = StructType.fromDDL(f"x {kind}")
    return fields.fields[0].dataType


def is_cast(column: Column) -> bool:
    """Return whether a column is metadata that is cast to the declared type."""
    if not isinstance(column, MetadataColumn):
        return False
    given = METADATA_TYPES.get(column.metadata_key)
    return given is not None and parsed_type(given).simpleString() != spark_text(column.type)


def _declared(kind: FlinkType, column: str) -> str:
    try:
        return spark_type(kind)
    except ValueError as error:
        raise ValueError(f"the column '{column}': {error}") from None


def open_table(spark: Any, table: Table, *, streaming: bool, hidden: Mapping[str, str] = _NOTHING) -> Any:
    """Return the stored columns of a table as a DataFrame, and hidden ones with the metadata of these keys.

    Files are read once, as in Flink, unless the table has `source.monitor-interval`. A value that does not
    fit its column stops the query.

    Raises:
        ValueError: a type is not served.
        OptionError: an option does not fit; nothing was asked for it.
        SchemaError: a column cannot be read.
    """
    connector, schema = table.connector, read_schema(table.definition, hidden)
    if isinstance(connector, Datagen):
        from penstock.sql.connectors.datagen.source import open_datagen  # noqa: PLC0415 - loads without Spark

        return open_datagen(spark, table.definition, connector.plan, schema, streaming=streaming)
    if isinstance(connector, Jdbc):
        return open_jdbc(spark, connector.settings, schema)
    if isinstance(connector, Kafka):
        config, options = connector.config.read(streaming=streaming), connector.options
        here = not is_connect(spark)
        check_options.check_read(config, options, schema, streaming=streaming, is_planned_here=here)
        reader = spark.readStream if streaming else spark.read
        return reader.format("penstock").schema(schema).options(**options).load()
    if isinstance(connector, Files):
        return open_files(spark, connector, schema, streaming=streaming)
    raise ValueError(f"the connector '{connector.name}' only writes, so the table cannot be read.")


def with_idle_timeout(table: Table, idle_timeout: str | None) -> Table:
    """Return a table that is read with the idle time-out of the session, unless it has its own."""
    if idle_timeout is None or not isinstance(table.connector, Kafka):
        return table
    options = parse.with_idle_timeout(table.connector.given, idle_timeout)
    return table.hinted(tuple(options.items()))


def stored_texts(table: Table) -> list[str]:
    """Return the stored columns of a table as texts of a SELECT, metadata with their declared types."""
    texts = []
    for column in table.definition.columns:
        name = quoted(column.name)
        if isinstance(column, MetadataColumn) and column.metadata_key in METADATA_TYPES:
            texts.append(f"CAST({name} AS {_declared(column.type, column.name)}) AS {name}")
        elif not isinstance(column, ComputedColumn):
            texts.append(name)
    return texts


def check_watermark(table: Table) -> None:
    """Check the watermark of a table, without reading it.

    Raises:
        SqlError: its column does not exist or is not a time, or Spark has no such watermark.
    """
    mark = table.definition.watermark
    if mark is None:
        return
    column = next((each for each in table.definition.columns if each.name == mark.column), None)
    if column is None:
        message = f"the watermark's column '{mark.column}' is not a column of the table."
        raise table.source.error(message, mark.expression.offset)
    if not isinstance(column, ComputedColumn) and column.type.name not in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        raise table.source.error(no_time(mark.column, spark_type(column.type)), mark.expression.offset)
    delay_ms(table)


def check_local(table: Table, zone: str) -> None:
    """Check that a table has no time of the zone of the session, because the query runs in UTC.

    Raises:
        SqlError: a column is TIMESTAMP_LTZ, or a metadata key gives its time with a zone.
    """
    mark = table.definition.watermark
    for column in table.definition.columns:
        if isinstance(column, ComputedColumn):
            continue  # its expression is checked where it is translated
        is_metadata = isinstance(column, MetadataColumn) and "time" in column.metadata_key
        if not is_zoned(column.type) and (not is_metadata or _is_local(column)):
            continue
        if mark is not None and mark.column == column.name:
            message = f"windows of TIMESTAMP_LTZ are cut at UTC. Your session is in {zone}: {SET_UTC}"
            raise table.source.error(message, mark.expression.offset)
        message = depends_on_zone(f"the column '{column.name}' of '{table.definition.name}'", zone)
        raise table.source.error(message, table.definition.name.offset)


def _is_local(column: PhysicalColumn | MetadataColumn) -> bool:
    """Return whether a metadata column is the time of the record, as a local time."""
    key = column.metadata_key if isinstance(column, MetadataColumn) else ""
    return (key == "timestamp" and column.type.name == "TIMESTAMP") or key == "timestamp-type"


def with_local_times(frame: Any, table: Table, zone: str) -> Any:
    """Return the stored columns with the times of records as local times of a zone, as Flink reads them."""
    texts = {
        column.name: f"convert_timezone('UTC', {literal(zone)}, CAST({quoted(column.name)} AS TIMESTAMP_NTZ))"
        for column in table.definition.columns
        if isinstance(column, MetadataColumn) and column.type.name == "TIMESTAMP" and _is_local(column)
    }
    if not texts:
        return frame
    names = [(name, quoted(name)) for name in frame.columns]
    return frame.selectExpr(*(f"{texts[name]} AS {text}" if name in texts else text for name, text in names))


def delay_ms(table: Table) -> int:
    """Return the delay of the watermark of a table that has one.

    Raises:
        SqlError: Spark has no such watermark.
    """
    mark = table.definition.watermark
    return 0 if mark is None else watermark_delay_ms(mark.expression, mark.column, table.source)


def shown_fields(frame: Any) -> list[Any]:
    """Return the fields of a DataFrame but those of hidden columns, as Spark has them."""
    return [field for field in frame.schema.fields if field.name not in HIDDEN]
