"""What `set_deserializer` and `set_value_only_deserializer` take, as options and columns of a read.

Runs in the user's program. Invariant: where a format does the same in compiled code it becomes that format;
only what is the user's own Python becomes `scan.deserializer`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api._pickling import to_text
from penstock.api.schemas import ByteArraySchema, SimpleStringSchema
from penstock.errors import MissingOptionError, OptionError
from penstock.options.python_objects import DESERIALIZER
from penstock.table.user_decoder import (
    ArrowDeserializationSchema,
    DeserializationSchema,
    Gets,
    KafkaRecordDeserializationSchema,
    TravellingDeserializer,
    ValueOnly,
)

_ONE_TYPE = re.compile(r"\s*[A-Za-z_]+\s*(\(.*\)|<.*>)?\s*", re.DOTALL)


@dataclass(frozen=True)
class Deserialization:
    """How a read makes rows: its options, and its columns as `DataFrameReader.schema` takes them."""

    options: Mapping[str, str]
    schema: Any


class FormatDeserializationSchema:
    """Ours: any format for values, with its options: `FormatDeserializationSchema("csv", "id BIGINT")`.

    Args:
        format_name: what the option `format` takes.
        produced_type: the columns, a StructType or text such as `id BIGINT, name STRING`.
        options: of the format, e.g. `{"csv.field-delimiter": ";"}`.
    """

    def __init__(
        self, format_name: str, produced_type: Any, options: Mapping[str, str] | None = None
    ) -> None:
        self.format_name = format_name
        self.produced_type = produced_type
        self.options = dict(options or {})


class JsonRowDeserializationSchema(FormatDeserializationSchema):
    """PyFlink's schema of that name: the format `json`. Made by its builder."""

    @staticmethod
    def builder() -> JsonRowDeserializationSchemaBuilder:
        """Begin to describe one."""
        return JsonRowDeserializationSchemaBuilder()


class JsonRowDeserializationSchemaBuilder:
    """Describes it step by step, under PyFlink's names. Each method gives the builder back."""

    def __init__(self) -> None:
        self._type_info: Any = None
        self._options: dict[str, str] = {}

    def type_info(self, type_info: Any) -> JsonRowDeserializationSchemaBuilder:
        """The columns: a StructType, or text such as `id BIGINT, name STRING`. Required."""
        self._type_info = type_info
        return self

    def ignore_parse_errors(self) -> JsonRowDeserializationSchemaBuilder:
        """A field that cannot be converted is null, and a value that is not JSON is no row."""
        self._options["json.ignore-parse-errors"] = "true"
        return self

    def fail_on_missing_field(self) -> JsonRowDeserializationSchemaBuilder:
        """A field that a value does not have is an error, instead of null."""
        self._options["json.fail-on-missing-field"] = "true"
        return self

    def build(self) -> JsonRowDeserializationSchema:
        """The schema.

        Raises:
            MissingOptionError: the columns are not given.
        """
        if self._type_info is None:
            raise MissingOptionError("JsonRowDeserializationSchema needs its columns: call type_info.")
        return JsonRowDeserializationSchema("json", self._type_info, self._options)


# Kafka's own classes of these names, by the type of `raw` that reads the same bytes.
class _KafkasDeserializer(FormatDeserializationSchema):
    kind = "STRING"

    def __init__(self) -> None:
        super().__init__("raw", self.kind)


class StringDeserializer(_KafkasDeserializer):
    """Kafka's: text in UTF-8."""


class ByteArrayDeserializer(_KafkasDeserializer):
    """Kafka's: the bytes."""

    kind = "BINARY"


class ShortDeserializer(_KafkasDeserializer):
    """Kafka's: two bytes, the highest first."""

    kind = "SMALLINT"


class IntegerDeserializer(_KafkasDeserializer):
    """Kafka's: four bytes, the highest first."""

    kind = "INT"


class LongDeserializer(_KafkasDeserializer):
    """Kafka's: eight bytes, the highest first."""

    kind = "BIGINT"


class FloatDeserializer(_KafkasDeserializer):
    """Kafka's: four bytes, the highest first."""

    kind = "FLOAT"


class DoubleDeserializer(_KafkasDeserializer):
    """Kafka's: eight bytes, the highest first."""

    kind = "DOUBLE"


def record_deserialization(deserializer: Any, produced_type: Any) -> Deserialization:
    """What `set_deserializer` was given.

    Raises:
        OptionError: it is no deserializer, or nothing says which columns it makes.
    """
    if isinstance(deserializer, ValueOnly):
        return value_deserialization(deserializer.deserializer, produced_type)
    if isinstance(deserializer, KafkaRecordDeserializationSchema):
        return _python(deserializer, Gets.RECORD, produced_type)
    if isinstance(deserializer, ArrowDeserializationSchema):
        return _python(deserializer, Gets.BATCH, produced_type)
    values = (DeserializationSchema, FormatDeserializationSchema, SimpleStringSchema, ByteArraySchema)
    if isinstance(deserializer, values):
        raise OptionError(
            f"{type(deserializer).__name__} deserializes values, not records: call "
            "set_value_only_deserializer, or wrap it in KafkaRecordDeserializationSchema.value_only(...)."
        )
    if isinstance(deserializer, type) or not callable(deserializer):
        raise _no_deserializer(deserializer, "KafkaRecordDeserializationSchema", "a ConsumerRecord")
    return _python(deserializer, Gets.RECORD, produced_type)


def value_deserialization(deserializer: Any, produced_type: Any) -> Deserialization:
    """What `set_value_only_deserializer` was given.

    Raises:
        OptionError: it is no deserializer, or nothing says which columns it makes.
    """
    if isinstance(deserializer, SimpleStringSchema):
        return _format("raw", "STRING", {"raw.charset": deserializer.charset})
    if isinstance(deserializer, ByteArraySchema):
        return _format("raw", "BINARY", {})
    if isinstance(deserializer, FormatDeserializationSchema):
        return _format(deserializer.format_name, deserializer.produced_type, deserializer.options)
    if isinstance(deserializer, DeserializationSchema):
        return _python(deserializer, Gets.VALUE, produced_type)
    method = getattr(deserializer, "deserialize", None)
    if not isinstance(deserializer, type) and callable(method) and _argument_count(method) == 2:
        return _python(deserializer, Gets.TOPIC_AND_VALUE, produced_type)
    if isinstance(deserializer, type) or not callable(deserializer):
        raise _no_deserializer(deserializer, "DeserializationSchema", "a value")
    return _python(deserializer, Gets.VALUE, produced_type)


def _argument_count(method: Any) -> int:
    """How many arguments a method is called with; Kafka's `deserialize` takes topic and data."""
    needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in needed for one in inspect.signature(method).parameters.values())


def _no_deserializer(given: Any, wanted: str, argument: str) -> OptionError:
    name = f"{given.__name__} itself" if isinstance(given, type) else type(given).__name__
    return OptionError(f"A deserializer has to be a {wanted} or a function of {argument}, not {name}.")


def _format(name: str, produced_type: Any, options: Mapping[str, str]) -> Deserialization:
    columns, _ = _columns(produced_type)
    return Deserialization({"format": name, **options}, columns)


def _python(user_object: Any, gets: Gets, produced_type: Any) -> Deserialization:
    if produced_type is None and hasattr(user_object, "get_produced_type"):
        produced_type = user_object.get_produced_type()
    if produced_type is None:
        raise MissingOptionError(
            "Nothing says which columns the deserializer makes: give produced_type, e.g. 'id BIGINT, name "
            "STRING' or 'STRING', or define get_produced_type."
        )
    columns, is_value = _columns(produced_type)
    travelling = TravellingDeserializer(user_object, gets, is_value)
    return Deserialization({"scan.deserializer": to_text(travelling, DESERIALIZER)}, columns)


def _columns(produced_type: Any) -> tuple[Any, bool]:
    """The columns of a read, and whether they are one type alone, which is the column `value`."""
    if isinstance(produced_type, str):
        is_value = _ONE_TYPE.fullmatch(produced_type) is not None
        return (f"value {produced_type.strip()}" if is_value else produced_type), is_value
    if hasattr(produced_type, "fieldNames"):
        return produced_type, False
    if hasattr(produced_type, "simpleString"):
        return f"value {produced_type.simpleString()}", True
    raise OptionError(
        f"Columns are a StructType of Spark or text such as 'id BIGINT, name STRING', not "
        f"{type(produced_type).__name__}."
    )
