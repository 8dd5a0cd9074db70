"""Turn functions of the user over rows into columns. Flink's sink has interfaces for the same.

`function_column` runs in the user's program, RowFunction on the executors. Invariants: a function travels by
value, like a partitioner; its result is checked, because Spark turns a value of another type into null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError, RowError
from penstock.flink._pickling import to_text
from penstock.options.python_objects import FUNCTION
from penstock.spark.connect import functions_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


class RecordPart(Enum):
    """The part of a record that a function returns."""

    KEY = "key"
    VALUE = "value"
    TOPIC = "topic"
    HEADERS = "headers"
    RECORD = "record"
    """Everything at once: a ProducerRecord of the older API."""


def _spark_type(role: RecordPart) -> DataType:
    """Return the type of a column. A text would need a classic session on Spark Connect."""
    from pyspark.sql import types  # noqa: PLC0415 - `import penstock` stays light

    header = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
    if role is RecordPart.HEADERS:
        return types.ArrayType(header)
    if role is RecordPart.RECORD:
        record = types.StructType().add("topic", types.StringType()).add("partition", types.IntegerType())
        record = record.add("timestamp_ms", types.LongType()).add("key", types.BinaryType())
        return record.add("value", types.BinaryType()).add("headers", types.ArrayType(header))
    return types.StringType() if role is RecordPart.TOPIC else types.BinaryType()


def function_column(rows: DataFrame, function: Callable[..., Any], role: RecordPart, *more: Column) -> Column:
    """Return a column with the result of `function` for each row.

    Args:
        rows: the DataFrame.
        function: is called with a Row of all columns.
        role: the part of a record that it returns.
        more: further arguments of the function.

    Raises:
        OptionError: the function cannot be pickled.
    """
    functions = functions_for(rows)
    checked = RowFunction(to_text(function, FUNCTION), role)
    # Spark needs a plain function and reads its type hints, so it may not have any.
    # Arrow is off even if the session turns it on, so that a row is a Row and pairs are structs.
    wrapped = functions.udf(lambda row, *more: checked(row, *more), _spark_type(role), useArrow=False)  # noqa: PLW0108
    column: Column = wrapped(functions.struct("*"), *more)
    return column


class RowFunction:
    """Call the user's function for a row and check its result. The first row loads the function."""

    def __init__(self, text: str, role: RecordPart) -> None:
        self._text = text
        self._role = role
        self._function: Callable[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None}

    def __call__(self, row: Any, *more: Any) -> Any:
        """Return the key, value, topic or headers of a row."""
        if self._function is None:
            self._function = FUNCTION.load(self._text, "record serializer")
        try:
            given = self._function(row, *more)
        except PenstockError:
            raise
        except Exception as error:
            raise RowError(
                f"The function for the {self._role.value} of a record failed: {type(error).__name__}: "
                f"{error}. The row was not written, and its task fails.",
                role=self._role.value,
            ) from error
        return _CHECKS[self._role](given, self._role)


def _bytes(given: Any, role: RecordPart) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, (bytes, bytearray, memoryview)):
        raise _refused(role, given, "bytes or None")
    return bytes(given)


def _topic(given: Any, role: RecordPart) -> str:
    if not isinstance(given, str) or not given:
        raise _refused(role, given, "the name of a topic")
    return given


def _headers(given: Any, role: RecordPart) -> list[tuple[str, bytes | None]] | None:
    if given is None:
        return None
    pairs = given.items() if isinstance(given, Mapping) else given
    wanted = "a mapping or (name, value) pairs; names are text, values bytes, text or None"
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise _refused(role, given, wanted)
    found = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise _refused(role, pair, wanted)
        name, value = pair
        if isinstance(value, str):
            value = value.encode()
        if value is not None and not isinstance(value, (bytes, bytearray)):
            raise _refused(role, pair, wanted)
        found.append((name, None if value is None else bytes(value)))
    return found


def _record(given: Any, role: RecordPart) -> tuple[Any, ...]:
    names = ("topic", "partition", "timestamp", "key", "value", "headers")
    if any(not hasattr(given, name) for name in names):
        raise _refused(role, given, "a ProducerRecord")
    for number in (given.partition, given.timestamp):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
            raise _refused(role, number, "whole numbers of at least 0 as partition and timestamp, or None")
    return (
        _topic(given.topic, role),
        given.partition,
        given.timestamp,
        _bytes(given.key, role),
        _bytes(given.value, role),
        _headers(given.headers or None, role),
    )


_CHECKS: Mapping[RecordPart, Callable[[Any, RecordPart], Any]] = {
    RecordPart.KEY: _bytes,
    RecordPart.VALUE: _bytes,
    RecordPart.TOPIC: _topic,
    RecordPart.HEADERS: _headers,
    RecordPart.RECORD: _record,
}


def _refused(role: RecordPart, given: Any, wanted: str) -> RowError:
    return RowError(
        f"The function for the {role.value} of a record has to return {wanted}; it returned "
        f"{type(given).__name__}. The row was not written, and its task fails.",
        role=role.value,
        type=type(given).__name__,
    )
