"""Read the options of a datagen table.

Runs on the driver and in tasks. Invariant: each option of `fields.` belongs to a column that can have it;
anything else is refused, so that no misspelt option is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from penstock.options.values import BOOLEAN, DURATION, LONG_MAX, ValueType, choice, decimal, integer
from penstock.sql.connectors.datagen import values
from penstock.sql.connectors.options import WrongOptionError, check_known, read_value
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.statements import ComputedColumn, CreateTable, MetadataColumn, PhysicalColumn

T = TypeVar("T")
N = TypeVar("N", int, float)

NAME = "datagen"
_RATE, _ROWS, _SPLITS = "rows-per-second", "number-of-rows", "scan.parallelism"
TABLE_OPTIONS = ("connector", _RATE, _ROWS, _SPLITS)
FIELD_OPTIONS = ("kind", "min", "max", "max-past", "length", "var-len", "start", "end", "null-rate")
_DEFAULT_RATE = 10_000
_DEFAULT_LENGTH, _DEFAULT_ELEMENTS, _LENGTH_MAX = 100, 3, 10_000_000
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_LONG = integer(-LONG_MAX - 1, LONG_MAX)
_LARGEST = {"FLOAT": 3.4028234663852886e38, "DOUBLE": 1.7976931348623157e308}
_KIND = choice("random", "sequence")
_SHARE = decimal(0, 1)
_COUNT = integer(1, LONG_MAX)
_LENGTH = integer(1, _LENGTH_MAX)
_TEXTS, _BINARIES = ("CHAR", "VARCHAR", "STRING"), ("BINARY", "VARBINARY", "BYTES")
_LENGTHS_NEEDED = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_SEQUENCED = ("CHAR", "VARCHAR", "STRING", *_BITS, "FLOAT", "DOUBLE", "DECIMAL")


def _parse_decimal(text: str) -> Decimal:
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError("a number") from None
    if not found.is_finite():
        raise ValueError("a number")
    return found


_DECIMAL = ValueType("number", "a number", _parse_decimal)


@dataclass(frozen=True)
class Plan:
    """A datagen table.

    Attributes:
        columns: the names and makers of the physical columns.
        rows_per_second: of a stream.
        total: the number of rows; None without an end.
        splits: the tasks of a batch; None for as many as fit.
    """

    columns: tuple[tuple[str, values.Maker], ...]
    rows_per_second: int
    total: int | None
    splits: int | None


def plan_of(table: CreateTable) -> Plan:
    """Return the plan of a table.

    Raises:
        ValueError: an option or a column does not fit.
    """
    physical = [column for column in table.columns if isinstance(column, PhysicalColumn)]
    metadata = next((column for column in table.columns if isinstance(column, MetadataColumn)), None)
    if metadata is not None:
        raise ValueError(f"the connector 'datagen' has no metadata, so '{metadata.name}' cannot be read.")
    options = dict(table.options)
    computed = {column.name for column in table.columns if isinstance(column, ComputedColumn)}
    reader = _Reader(options)
    columns = tuple((column.name, reader.maker(column.name, column.type)) for column in physical)
    _check_rest(options, reader.read, [column.name for column in physical], computed)
    ends = list(reader.ends)
    total = read_value(options, _ROWS, _COUNT)
    if total is not None:
        ends.append(total)
    return Plan(
        columns,
        read_value(options, _RATE, _COUNT) or _DEFAULT_RATE,
        min(ends) if ends else None,
        read_value(options, _SPLITS, _COUNT),
    )


def _check_rest(options: Mapping[str, str], read: set[str], columns: list[str], computed: set[str]) -> None:
    for key in options:
        if not key.startswith("fields.") or key in read:
            continue
        name, _, option = key.removeprefix("fields.").rpartition(".")
        if name in computed:
            raise WrongOptionError(f"'{key}': the column '{name}' is computed. Leave the option out.", key)
        if option in FIELD_OPTIONS and name in columns:
            message = f"'{key}': the column '{name}' cannot have '{option}' with its type and kind."
            raise WrongOptionError(message, key)
    check_known(NAME, [key for key in options if key not in read], (*TABLE_OPTIONS, *_names(columns)))


def _names(columns: list[str]) -> list[str]:
    return [f"fields.{column}.{option}" for column in columns for option in FIELD_OPTIONS]


class _Reader:
    """Reads the options of columns, and notes which it has read and where sequences end."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self.read = set(TABLE_OPTIONS)
        self.ends: list[int] = []

    def maker(self, path: str, kind: FlinkType) -> values.Maker:
        """Return the maker of a column, or of a part of a nested one.

        Raises:
            ValueError: an option or the type does not fit.
        """
        is_sequence = self._value(path, "kind", _KIND) == "sequence"
        made = self._sequence(path, kind) if is_sequence else self._random(path, kind)
        rate = self._value(path, "null-rate", _SHARE)
        if rate and not kind.nullable:
            raise _wrong(path, "null-rate", "': the column is NOT NULL.")
        return values.Sparse(made, rate) if rate else made

    def _value(self, path: str, option: str, kind: ValueType[T]) -> T | None:
        key = f"fields.{path}.{option}"
        self.read.add(key)
        return read_value(self._options, key, kind)

    def _element(self, path: str, kind: FlinkType) -> values.Maker:
        if self._value(path, "kind", _KIND) == "sequence":
            raise _wrong(path, "kind", "': the elements of a collection cannot be a sequence.")
        return self.maker(path, kind)

    def _sequence(self, path: str, kind: FlinkType) -> values.Maker:
        if kind.name not in _SEQUENCED:
            raise _wrong(path, "kind", f"': a column of type {kind.name} cannot be a sequence.")
        start = self._value(path, "start", _LONG)
        end = self._value(path, "end", _LONG)
        if start is None or end is None:
            raise ValueError(f"the sequence of '{path}' needs 'fields.{path}.start' and 'fields.{path}.end'.")
        if end < start:
            raise _wrong(path, "end", f"' is {end}, which is before the start {start}.")
        low, high = _whole_range(kind)
        if not low <= start <= end <= high:
            message = f"the sequence of '{path}' leaves the range of {kind.name}: {low} to {high}."
            raise WrongOptionError(message, f"fields.{path}.end")
        self.ends.append(end - start + 1)
        return values.Sequence(start, end)

    def _random(self, path: str, kind: FlinkType) -> values.Maker:
        if kind.name in _BITS:
            return self._whole(path, kind)
        if kind.name in _LARGEST:
            return self._real(path, kind)
        if kind.name == "DECIMAL":
            return self._exact(path, kind)
        if kind.name in _TEXTS or kind.name in _BINARIES:
            return self._bytes(path, kind)
        if kind.name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            return values.Moment((self._value(path, "max-past", DURATION) or 0) * 1_000)
        return self._other(path, kind)

    def _other(self, path: str, kind: FlinkType) -> values.Maker:
        if kind.name == "BOOLEAN":
            return values.Truth()
        if kind.name == "DATE":
            return values.Today()
        if kind.name == "ROW":
            return values.Row(tuple(self.maker(f"{path}.{each.name}", each.type) for each in kind.fields))
        return self._collection(path, kind)

    def _whole(self, path: str, kind: FlinkType) -> values.Maker:
        least, most = _whole_range(kind)
        bounds = integer(least, most)
        low, high = self._value(path, "min", bounds), self._value(path, "max", bounds)
        return values.Whole(*_ordered(path, least if low is None else low, most if high is None else high))

    def _real(self, path: str, kind: FlinkType) -> values.Maker:
        most = _LARGEST[kind.name]
        bounds = decimal(-most, most)
        low, high = self._value(path, "min", bounds), self._value(path, "max", bounds)
        return values.Real(*_ordered(path, 0.0 if low is None else low, most if high is None else high))

    def _exact(self, path: str, kind: FlinkType) -> values.Maker:
        precision, scale = (*kind.args, 0)[:2] if kind.args else (10, 0)
        most = 10**precision - 1
        low, high = self._value(path, "min", _DECIMAL), self._value(path, "max", _DECIMAL)
        # The least and the largest number of this scale between the bounds.
        least = 0 if low is None else math.ceil(low.scaleb(scale, values.EXACT))
        largest = most if high is None else math.floor(high.scaleb(scale, values.EXACT))
        if least < -most or largest > most:
            raise _wrong(path, "min", f"' and '.max' have to fit into DECIMAL({precision}, {scale}).")
        return values.Exact(*_ordered(path, least, largest))

    def _bytes(self, path: str, kind: FlinkType) -> values.Maker:
        length = self._value(path, "length", _LENGTH)
        declared = (kind.args[0] if kind.args else 1) if kind.name in _LENGTHS_NEEDED else None
        if kind.name in ("CHAR", "BINARY") and length not in (None, declared):
            raise _wrong(path, "length", f"': {kind.name} has the fixed length {declared}.")
        if declared is not None and length is not None and length > declared:
            raise _wrong(path, "length", f"' is {length}, and the column holds {declared} at most.")
        varies = False
        if kind.name not in ("CHAR", "BINARY"):
            varies = self._value(path, "var-len", BOOLEAN) or False
        if declared is None or declared > _LENGTH_MAX:  # VARCHAR(2147483647) is STRING
            declared = _DEFAULT_LENGTH
        return values.Bytes(length or declared, kind.name in _TEXTS, varies)

    def _collection(self, path: str, kind: FlinkType) -> values.Maker:
        if kind.name not in ("ARRAY", "MAP"):
            raise ValueError(f"the connector 'datagen' has no values of the type {kind.name} ('{path}').")
        length = self._value(path, "length", _LENGTH) or _DEFAULT_ELEMENTS
        if kind.name == "ARRAY":
            return values.Many(self._element(f"{path}.element", kind.elements[0]), length)
        key, value = kind.elements
        return values.Pairs(
            self._element(f"{path}.key", replace(key, nullable=False)),
            self._element(f"{path}.value", value),
            length,
        )


def _wrong(path: str, option: str, rest: str) -> WrongOptionError:
    key = f"fields.{path}.{option}"
    return WrongOptionError(f"'{key}{rest}", key)


def _whole_range(kind: FlinkType) -> tuple[int, int]:
    bits = _BITS.get(kind.name, 64)
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _ordered(path: str, low: N, high: N) -> tuple[N, N]:
    if low > high:
        raise _wrong(path, "min", f"' is {low}, which is above the maximum {high}.")
    return low, high
