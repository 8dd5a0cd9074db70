"""Turn the deserializer of a user into options and columns of a read.

Runs in the user's program. Invariant: a deserializer becomes a format if a format does the same in compiled
code. Only Python code of the user becomes `scan.deserializer`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import MissingOptionError, OptionError
from penstock.flink._pickling import to_text
from penstock.flink.schemas import ByteArraySchema, SimpleStringSchema
from penstock.options.python_objects import DESERIALIZER
from penstock.table.user_decoder import (
    ArrowDeserializationSchema,
    CalledWith,
    DeserializationSchema,
    KafkaRecordDeserializationSchema,
    PickledDeserializer,
    ValueOnly,
)

_ONE_TYPE = re.compile(r"\s*[A-Za-z_]+\s*(\(.*\)|<.*>)?\s*", re.DOTALL)


@dataclass(frozen=True)
class Deserialization:
    """The options of a read with a deserializer, and its columns in the form of `DataFrameReader.schema`."""

    options: Mapping[str, str]
    schema: Any


class FormatDeserializationSchema:
    """Any format for values, with its options: `FormatDeserializationSchema("csv", "id BIGINT")`.

    Flink does not have it.

    Args:
        format_name: a value of the option `format`.
        produced_type: the columns, as a StructType or a text such as `id BIGINT, name STRING`.
        options: of the format, e.g. `{"csv.field-delimiter": ";"}`.
    """

    def __init__(
        self, format_name: str, produced_type: Any, options: Mapping[str, str] | None = None
    ) -> None:
        self.format_name = format_name
        self.produced_type = produced_type
        self.options = dict(options or {})


class JsonRowDeserializationSchema(FormatDeserializationSchema):
    """PyFlink's schema of this name: the format `json`. Use `builder()`."""

    @staticmethod
    def builder() -> JsonRowDeserializationSchemaBuilder:
        """Return a builder."""
        return JsonRowDeserializationSchemaBuilder()


class JsonRowDeserializationSchemaBuilder:
    """Builder with PyFlink's methods. Each method returns the builder."""

    def __init__(self) -> None:
        self._type_info: Any = None
        self._options: dict[str, str] = {}

    def type_info(self, type_info: Any) -> JsonRowDeserializationSchemaBuilder:
        """Set the columns: a StructType, or a text such as `id BIGINT, name STRING`. Required."""
        self._type_info = type_info
        return self

    def ignore_parse_errors(self) -> JsonRowDeserializationSchemaBuilder:
        """Make a field null if it cannot be converted, and drop a value that is not JSON."""
        self._options["json.ignore-parse-errors"] = "true"
        return self

    def fail_on_missing_field(self) -> JsonRowDeserializationSchemaBuilder:
        """Make a missing field an error. Without this call it is null."""
        self._options["json.fail-on-missing-field"] = "true"
        return self

    def build(self) -> JsonRowDeserializationSchema:
        """Return the schema.

        Raises:
            MissingOptionError: `type_info` was not called.
        """
        if self._type_info is None:
            raise MissingOptionError("JsonRowDeserializationSchema needs its columns: call type_info.")
        return JsonRowDeserializationSchema("json", self._type_info, self._options)


# Kafka's classes of these names. Each is the format `raw` with the type that reads the same bytes.
class _KafkasDeserializer(FormatDeserializationSchema):
    kind = "STRING"

    def __init__(self) -> None:
        super().__init__("raw", self.kind)


class StringDeserializer(_KafkasDeserializer):
    """Read values as text in UTF-8, as Kafka's class of this name."""


class ByteArrayDeserializer(_KafkasDeserializer):
    """Read values as bytes, as Kafka's class of this name."""

    kind = "BINARY"


class ShortDeserializer(_KafkasDeserializer):
    """Read values of two bytes, big-endian, as Kafka's class of this name."""

    kind = "SMALLINT"


class IntegerDeserializer(_KafkasDeserializer):
    """Read values of four bytes, big-endian, as Kafka's class of this name."""

    kind = "INT"


class LongDeserializer(_KafkasDeserializer):
    """Read values of eight bytes, big-endian, as Kafka's class of this name."""

    kind = "BIGINT"


class FloatDeserializer(_KafkasDeserializer):
    """Read values of four bytes, big-endian, as Kafka's class of this name."""

    kind = "FLOAT"


class DoubleDeserializer(_KafkasDeserializer):
    """Read values of eight bytes, big-endian, as Kafka's class of this name."""

    kind = "DOUBLE"


def record_deserialization(deserializer: Any, produced_type: Any) -> Deserialization:
    """Return the options and columns for the argument of `set_deserializer`.

    Raises:
        OptionError: the argument is not a deserializer.
        MissingOptionError: its columns are not known.
    """
    if isinstance(deserializer, ValueOnly):
        return value_deserialization(deserializer.deserializer, produced_type)
    if isinstance(deserializer, KafkaRecordDeserializationSchema):
        return _python(deserializer, CalledWith.RECORD, produced_type)
    if isinstance(deserializer, ArrowDeserializationSchema):
        return _python(deserializer, CalledWith.BATCH, produced_type)
    values = (DeserializationSchema, FormatDeserializationSchema, SimpleStringSchema, ByteArraySchema)
    if isinstance(deserializer, values):
        raise OptionError(
            f"{type(deserializer).__name__} deserializes values, not records: call "
            "set_value_only_deserializer, or wrap it in KafkaRecordDeserializationSchema.value_only(...)."
        )
    if isinstance(deserializer, type) or not callable(deserializer):
        raise _no_deserializer(deserializer, "KafkaRecordDeserializationSchema", "a ConsumerRecord")
    return _python(deserializer, CalledWith.RECORD, produced_type)


def value_deserialization(deserializer: Any, produced_type: Any) -> Deserialization:
    """Return the options and columns for the argument of `set_value_only_deserializer`.

    Raises:
        OptionError: the argument is not a deserializer.
        MissingOptionError: its columns are not known.
    """
    if isinstance(deserializer, SimpleStringSchema):
        return _format("raw", "STRING", {"raw.charset": deserializer.charset})
    if isinstance(deserializer, ByteArraySchema):
        return _format("raw", "BINARY", {})
    if isinstance(deserializer, FormatDeserializationSchema):
        return _format(deserializer.format_name, deserializer.produced_type, deserializer.options)
    if isinstance(deserializer, DeserializationSchema):
        return _python(deserializer, CalledWith.VALUE, produced_type)
    method = getattr(deserializer, "deserialize", None)
    if not isinstance(deserializer, type) and callable(method) and _argument_count(method) == 2:
        return _python(deserializer, CalledWith.TOPIC_AND_VALUE, produced_type)
    if isinstance(deserializer, type) or not callable(deserializer):
        raise _no_deserializer(deserializer, "DeserializationSchema", "a value")
    return _python(deserializer, CalledWith.VALUE, produced_type)


def _argument_count(method: Any) -> int:
    """Count the arguments of a method. Kafka's `deserialize` has two, topic and data."""
    needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in needed for one in inspect.signature(method).parameters.values())


def _no_deserializer(given: Any, wanted: str, argument: str) -> OptionError:
    name = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    return OptionError(f"Expected a {wanted} or a function of {argument} as the deserializer, got {name}.")


def _format(name: str, produced_type: Any, options: Mapping[str, str]) -> Deserialization:
    columns, _ = _columns(produced_type)
    return Deserialization({"format": name, **options}, columns)


def _python(user_object: Any, gets: CalledWith, produced_type: Any) -> Deserialization:
    if produced_type is None and hasattr(user_object, "get_produced_type"):
        produced_type = user_object.get_produced_type()
    if produced_type is None:
        raise MissingOptionError(
            "The columns that the deserializer makes are not known: set produced_type, e.g. 'id BIGINT, name "
            "STRING' or 'STRING', or define get_produced_type."
        )
    columns, is_value = _columns(produced_type)
    travelling = PickledDeserializer(user_object, gets, is_value)
    return Deserialization({"scan.deserializer": to_text(travelling, DESERIALIZER)}, columns)


def _columns(produced_type: Any) -> tuple[Any, bool]:
    """Return the columns of a read, and whether they are only a type, which means a column `value`."""
    if isinstance(produced_type, str):
        is_value = _ONE_TYPE.fullmatch(produced_type) is not None
        return (f"value {produced_type.strip()}" if is_value else produced_type), is_value
    if hasattr(produced_type, "fieldNames"):
        return produced_type, False
    if hasattr(produced_type, "simpleString"):
        return f"value {produced_type.simpleString()}", True
    raise OptionError(
        f"Expected a StructType of Spark or a text such as 'id BIGINT, name STRING' as the columns, got "
        f"{type(produced_type).__name__}."
    )
