"""The columns that a user declares for `replicate`, because messages do not say them.

Runs in the user's program, on Spark classic and Connect. Invariant: what is wrong ends in an error before the
query starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from penstock.cdc.messages import MessageFormat
from penstock.errors import OptionError
from penstock.spark.versions import to_arrow_schema


def declared_columns(
    spark: Any, columns: Mapping[str, str | StructType], rest: str | None
) -> dict[str, pa.Schema]:
    """Return the columns of each topic, without the rest. All may be null.

    Args:
        spark: the session that parses texts.
        columns: of the tables, by topic.
        rest: the column of the other fields.

    Raises:
        OptionError: a text cannot be read, a column is VARIANT, or one has the name of the rest.
    """
    found = {}
    for topic, given in columns.items():
        fields = _parsed(spark, topic, given)
        for one in fields:
            if any(isinstance(kind, VariantType) for kind in _types_in(one.dataType)):
                raise _variant(topic, one.name)
        if rest is not None and rest.lower() in (name.lower() for name in fields.names):
            raise OptionError(
                f"`columns` declares a column '{rest}' for topic {topic}, and `rest` names it for the fields "
                "that are not declared. Nothing was started. Give `rest` another name.",
                option="rest",
                topic=topic,
            )
        found[topic] = _arrow(topic, fields)
    return found


def check_declared(
    columns: Mapping[str, pa.Schema] | None, rest: str | None, evolve: str, messages: MessageFormat
) -> None:
    """Check that each field of messages without schemas has a place.

    Args:
        columns: those that are declared, by topic.
        rest: the column of the other fields.
        evolve: `ignore` leaves them out by choice.
        messages: reads them.

    Raises:
        OptionError: a field would have none.
        SchemaError: the format cannot read a column.
    """
    if not columns:
        raise OptionError(
            "replicate needs messages that hold their schema: 'debezium-json' with "
            "'debezium-json.schema-include' = 'true' (in Kafka Connect 'value.converter.schemas.enable' and "
            "'key.converter.schemas.enable'), or 'debezium-avro-confluent'. For messages without it, declare "
            "the columns of each table: columns={'shop.public.goods': 'id BIGINT, name STRING'}. Nothing was "
            "started.",
            option="format" if columns is None else "columns",
        )
    if rest == "":
        raise OptionError("Expected the name of a column as `rest`, got ''.", option="rest")
    if rest is None and evolve != "ignore":
        raise OptionError(
            "Messages without schemas may have fields that `columns` does not declare, and nothing says "
            "where they go. Nothing was started. Name a column for them, as JSON text (rest='rest'), or "
            "leave them out (evolve='ignore').",
            option="rest",
        )
    nothing = pa.array([], pa.binary())
    for topic, each in columns.items():
        messages.of_topic(topic).changes(nothing, nothing, each)


def _parsed(spark: Any, topic: str, given: str | StructType) -> StructType:
    if isinstance(given, StructType):
        return given
    try:
        # The user's session parses the text. `fromDDL` may use another session, which may not exist.
        found: StructType = spark.createDataFrame([], given).schema
    except PySparkException as error:
        raise _no_columns(topic, given, str(error).strip().partition("\n")[0]) from None
    if found.names == ["value"] and "value" not in given:  # how Spark names the column of a type alone
        raise _no_columns(topic, given, "It is a type without a name.")
    return found


def _no_columns(topic: str, given: str, reason: str) -> OptionError:
    return OptionError(
        f"Expected columns such as 'id BIGINT, name STRING' in `columns` for topic {topic}, got {given!r}. "
        f"{reason} Nothing was started.",
        option="columns",
        topic=topic,
    )


def _arrow(topic: str, fields: StructType) -> pa.Schema:
    try:
        found = to_arrow_schema(fields)
    except PySparkException as error:
        raise OptionError(
            f"`columns` declares a type for topic {topic} that Arrow does not have: {error} Nothing was "
            "started.",
            option="columns",
            topic=topic,
        ) from None
    return pa.schema([pa.field(one.name, one.type) for one in found])


def _types_in(kind: DataType) -> Iterator[DataType]:
    """Yield a type and those in it."""
    yield kind
    inner: list[Any] = []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        inner = [one.dataType for one in kind.fields]
    for each in inner:
        yield from _types_in(each)


def _variant(topic: str, name: str) -> OptionError:
    return OptionError(
        f"Column '{name}' of topic {topic} is declared as VARIANT, and a message gives text for it. Nothing "
        "was started. Declare it as STRING, which gets the JSON text of the field. A SparkDeltaTable or a "
        f"SparkIcebergTable keeps it as VARIANT: variants=[{name!r}]. Other tables cannot have that type: "
        "read the text with parse_json.",
        option="columns",
        topic=topic,
        column=name,
    )
