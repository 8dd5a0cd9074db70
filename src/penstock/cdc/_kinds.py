"""Debezium's and Kafka Connect's semantic types: the type of a column, and how its values become it.

Runs on driver and executors; pure. A schema comes as Kafka Connect's JSON has it (`type`, `name`,
`parameters`, `items`, `fields`). Invariant: a value keeps all of its digits, or it is a failure. Where no
type of a table holds all values of a semantic type, the column is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.cdc import _values
from penstock.cdc._values import Converted
from penstock.errors import SchemaError

Convert = Callable[[pa.Array], Converted]
Described = Mapping[str, Any]
"""A schema in the JSON of Kafka Connect."""

_DIGITS_MAX = 38
_DEPTH_MAX = 20
_TIMESTAMP, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
_PLAIN = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


@dataclass(frozen=True)
class Kind:
    """How a column is read.

    Attributes:
        physical: the type to decode.
        logical: the type of the column.
        convert: makes a column of `logical` from one of `physical`. None if they are the same.
    """

    physical: pa.DataType
    logical: pa.DataType
    convert: Convert | None = None

    def converted(self, column: pa.Array) -> Converted:
        """Return the values in the type of the column."""
        return Converted(column) if self.convert is None else self.convert(column)


_NAMED: dict[tuple[str, str], Kind] = {
    ("int32", "io.debezium.time.Date"): Kind(pa.int32(), pa.date32(), _values.dates),
    ("int32", "org.apache.kafka.connect.data.Date"): Kind(pa.int32(), pa.date32(), _values.dates),
    ("int32", "io.debezium.time.Time"): Kind(pa.int32(), pa.string(), _values.times_of(1_000)),
    ("int32", "org.apache.kafka.connect.data.Time"): Kind(pa.int32(), pa.string(), _values.times_of(1_000)),
    ("int64", "io.debezium.time.MicroTime"): Kind(pa.int64(), pa.string(), _values.times_of(1)),
    ("int64", "io.debezium.time.NanoTime"): Kind(pa.int64(), pa.string(), _values.nano_times),
    ("int64", "io.debezium.time.Timestamp"): Kind(pa.int64(), _TIMESTAMP, _values.timestamps(1_000, None)),
    ("int64", "org.apache.kafka.connect.data.Timestamp"): Kind(
        pa.int64(), _TIMESTAMP, _values.timestamps(1_000, None)
    ),
    ("int64", "io.debezium.time.MicroTimestamp"): Kind(pa.int64(), _TIMESTAMP, _values.timestamps(1, None)),
    ("int64", "io.debezium.time.NanoTimestamp"): Kind(pa.int64(), pa.string(), _values.nano_timestamps),
    ("string", "io.debezium.time.ZonedTimestamp"): Kind(pa.string(), _INSTANT, _values.zoned_timestamps),
    ("int64", "avro.timestamp-millis"): Kind(pa.int64(), _INSTANT, _values.timestamps(1_000, "UTC")),
    ("int64", "avro.timestamp-micros"): Kind(pa.int64(), _INSTANT, _values.timestamps(1, "UTC")),
}
"""The types whose values are converted. The others are what they look like: their physical type."""

_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def kind_of(given: Described, path: str, depth: int = 0) -> Kind:
    """Return how values of a schema are read.

    Args:
        given: the schema.
        path: the column, for messages.
        depth: how deep it is nested.

    Raises:
        SchemaError: the schema has a type that cannot be a column.
    """
    if depth > _DEPTH_MAX:
        raise _unreadable(path, f"a type that nests deeper than {_DEPTH_MAX} levels")
    type_name, name = str(given.get("type")), str(given.get("name") or "")
    if name == _VARIABLE_SCALE:
        physical = pa.struct([pa.field("scale", pa.int32()), pa.field("value", pa.binary())])
        return Kind(physical, pa.string(), _values.variable_scale_decimals)
    if name == _DECIMAL and type_name == "bytes":
        return _decimal(given.get("parameters") or {}, path)
    if (type_name, name) in _NAMED:
        return _NAMED[type_name, name]
    if type_name in _PLAIN:
        return Kind(_PLAIN[type_name], _PLAIN[type_name])
    return _nested(given, type_name, path, depth)


def _decimal(parameters: Mapping[str, Any], path: str) -> Kind:
    try:
        scale = int(parameters.get("scale", 0))
        digits = int(parameters.get("connect.decimal.precision", 0))
    except (TypeError, ValueError):
        raise _unreadable(path, f"a decimal with the parameters {dict(parameters)}") from None
    if 0 < digits <= _DIGITS_MAX and 0 <= scale <= digits:
        return Kind(pa.binary(), pa.decimal128(digits, scale), _values.decimals(digits, scale))
    return Kind(pa.binary(), pa.string(), _values.long_decimals(scale))


def _nested(given: Described, type_name: str, path: str, depth: int) -> Kind:
    if type_name == "array":
        item = kind_of(given.get("items") or {}, f"{path}[]", depth + 1)
        convert = None if item.convert is None else _values.lists(item.converted)
        return Kind(pa.list_(item.physical), pa.list_(item.logical), convert)
    if type_name == "map":
        key = kind_of(given.get("keys") or {"type": "string"}, f"{path}{{}}", depth + 1)
        item = kind_of(given.get("values") or {}, f"{path}{{}}", depth + 1)
        if key.logical != pa.string() or key.convert is not None or item.convert is not None:
            raise _unreadable(path, f"a map from {key.logical} to {item.logical}")
        kind = pa.map_(key.physical, item.physical)
        return Kind(kind, kind)
    if type_name == "struct":
        fields = given.get("fields") or ()
        found = {str(one["field"]): kind_of(one, f"{path}.{one['field']}", depth + 1) for one in fields}
        physical = pa.struct([pa.field(name, one.physical) for name, one in found.items()])
        logical = pa.struct([pa.field(name, one.logical) for name, one in found.items()])
        if all(one.convert is None for one in found.values()):
            return Kind(physical, logical)
        return Kind(physical, logical, _values.structs(logical, [one.converted for one in found.values()]))
    raise _unreadable(path, f"the type {type_name}")


def _unreadable(path: str, what: str) -> SchemaError:
    return SchemaError(
        f"The source's column '{path}' has {what}, which penstock cannot read. Nothing of this batch was "
        "written. Leave the column out with Debezium's 'column.exclude.list', or let Debezium or the "
        "database write it as text.",
        column=path,
    )
