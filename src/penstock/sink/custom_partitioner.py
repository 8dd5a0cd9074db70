"""Partitioners that users write in Python: the class, how one is found and asked, how its answer is checked.

Found on the driver, so that a wrong one is an error before a job starts, and again by each task that uses it.
Invariant: a row goes to the partition that the user's code names for it, and to no other. An answer that is
not one partition of the topic for each row is an error.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import OptionError, PenstockError, RowError
from penstock.options.config import PARTITIONER_WORDS
from penstock.options.python_objects import PARTITIONER

_OPTION = "sink.partitioner"


class KafkaPartitioner(ABC):
    """Chooses the partition of each record, as Flink's `KafkaPartitioner` does.

    Subclass it and give an instance to `set_partitioner`, or the name of the class, which is then made
    without arguments, to the option `sink.partitioner`. Each task has an instance of its own.
    """

    def open(self, parallel_instance_id: int) -> None:  # noqa: B027 - overriding it is up to the user
        """Prepare; called once in each task, before its first record.

        Args:
            parallel_instance_id: the number of the task among those of the batch (Spark's partition id).
        """

    @abstractmethod
    def partition(
        self,
        record: Mapping[str, Any],
        key: bytes | None,
        value: bytes | None,
        target_topic: str,
        partitions: Sequence[int],
    ) -> int:
        """Return the partition of one record.

        Args:
            record: the row as it is written: those of key, value, topic, headers, timestamp that it has.
            key: of the record.
            value: of the record; None for a tombstone.
            target_topic: where it goes.
            partitions: all that the topic has now, in order.
        """

    def partition_batch(self, rows: pa.RecordBatch, target_topic: str, partitions: Sequence[int]) -> pa.Array:
        """Return the partitions of many records at once. Override it to save a call for each record.

        Args:
            rows: as they are written, in order; all go to one topic.
            target_topic: where they go.
            partitions: all that the topic has now, in order.

        Returns:
            One integer for each row.
        """
        return pa.array(
            [
                self.partition(record, key, value, target_topic, partitions)
                for record, key, value in zip(
                    rows.to_pylist(), _bytes_of(rows, "key"), _bytes_of(rows, "value"), strict=True
                )
            ]
        )


PartitionFunction = Callable[[bytes | None, bytes | None, str, Sequence[int]], int]
"""The signature of a plain function: `(key, value, topic, partitions) -> partition`."""


class _OfFunction(KafkaPartitioner):
    """A plain function as a partitioner."""

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def partition(
        self,
        record: Mapping[str, Any],
        key: bytes | None,
        value: bytes | None,
        target_topic: str,
        partitions: Sequence[int],
    ) -> int:
        return self._function(key, value, target_topic, partitions)

    def partition_batch(self, rows: pa.RecordBatch, target_topic: str, partitions: Sequence[int]) -> pa.Array:
        pairs = zip(_bytes_of(rows, "key"), _bytes_of(rows, "value"), strict=True)
        return pa.array([self._function(key, value, target_topic, partitions) for key, value in pairs])


def check_partitioner(chosen: str) -> None:
    """Raise OptionError on the driver unless the partitioner of option `sink.partitioner` can be loaded."""
    if chosen not in PARTITIONER_WORDS:
        load_partitioner(chosen)


def load_partitioner(text: str) -> tuple[str, KafkaPartitioner]:
    """Return the partitioner that the option names or holds, and its name for messages.

    Args:
        text: a dotted name of a class or function, or the text that `set_partitioner` made.

    Raises:
        OptionError: it cannot be found, made or loaded here, or is not a partitioner.
    """
    if not PARTITIONER.is_text(text):
        return text, as_partitioner(_named(text), text)
    found = PARTITIONER.load(text, _OPTION)
    return _name_of(found), as_partitioner(found, _name_of(found))


def as_partitioner(found: object, name: str) -> KafkaPartitioner:
    """Return `found` as a partitioner; OptionError if it is not one."""
    if isinstance(found, type):
        if not issubclass(found, KafkaPartitioner):
            raise OptionError(
                f"Expected a subclass of penstock.flink.KafkaPartitioner for option '{_OPTION}', got class "
                f"'{name}'. Nothing was written.",
                option=_OPTION,
                value=name,
            )
        try:
            return found()
        except Exception as error:
            raise OptionError(
                f"Partitioner class '{name}' cannot be instantiated without arguments: "
                f"{type(error).__name__}: {error}. Nothing was written. Give an instance to set_partitioner.",
                option=_OPTION,
                value=name,
            ) from error
    if isinstance(found, KafkaPartitioner):
        return found
    if callable(found):
        return _OfFunction(found)
    raise OptionError(
        "Expected a subclass of penstock.flink.KafkaPartitioner, or a function (key, value, topic, "
        f"partitions) -> partition, for option '{_OPTION}', got '{name}', a {type(found).__name__}. "
        "Nothing was written.",
        option=_OPTION,
        value=name,
    )


def _named(name: str) -> object:
    """Return the class or function of a dotted name, also a nested one."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:length])
        try:
            found: object = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and (module_name + ".").startswith(error.name + "."):
                continue  # it is not a module, but a class in one
            raise _not_found(name, error) from error
        except Exception as error:
            raise _not_found(name, error) from error
        try:
            for part in parts[length:]:
                found = getattr(found, part)
        except AttributeError as error:
            raise _not_found(name, error) from error
        return found
    raise _not_found(name, ModuleNotFoundError(f"No module named {parts[0]!r}"))


def _not_found(name: str, error: Exception) -> OptionError:
    return OptionError(
        f"Could not find the partitioner '{name}': {type(error).__name__}: {error}. Nothing was written. "
        "Name a Python class or function, in a module that is installed on the driver and on the executors. "
        "(Java classes do not run here.)",
        option=_OPTION,
        value=name,
    )


def ask_partitioner(
    name: str, partitioner: KafkaPartitioner, rows: pa.RecordBatch, topic: str, partitions: Sequence[int]
) -> pa.Int32Array:
    """Return the partition of each row, as the user's code chooses it.

    Raises:
        RowError: it failed, or did not answer with one partition of the topic for each row.
    """
    try:
        given = partitioner.partition_batch(rows, topic, partitions)
    except PenstockError:
        raise
    except Exception as error:
        raise RowError(
            f"The partitioner {name} failed on rows of topic {topic!r}: {type(error).__name__}: {error}. "
            "These rows were not written, and the task fails.",
            partitioner=name,
            topic=topic,
        ) from error
    return _checked(name, given, rows.num_rows, topic, partitions)


def _checked(name: str, given: Any, row_count: int, topic: str, partitions: Sequence[int]) -> pa.Int32Array:
    numbers = _as_integers(given)
    if numbers is None:
        raise _refused(name, topic, "an integer for each row, got something else")
    if len(numbers) != row_count:
        raise _refused(name, topic, f"{row_count} partitions, one for each row, got {len(numbers)}")
    is_there = pc.is_in(numbers, value_set=pa.array(partitions, pa.int64()))
    if pc.all(is_there).as_py():
        return numbers.cast(pa.int32())
    wrong = numbers[pc.index(is_there, pa.scalar(value=False)).as_py()].as_py()
    raise _refused(name, topic, f"partitions from 0 to {partitions[-1]}, got {wrong}")


def _as_integers(given: Any) -> pa.Int64Array | None:
    """Return an answer that has only integers, in any form, as an array; None for anything else."""
    try:
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        array = given if isinstance(given, pa.Array) else pa.array(given)
        is_integers = pa.types.is_integer(array.type) and not array.null_count
        return array.cast(pa.int64()) if is_integers else None
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _refused(name: str, topic: str, what: str) -> RowError:
    return RowError(
        f"Expected from the partitioner {name}, for rows of topic {topic!r}: {what}. These rows were not "
        "written, and the task fails. A partitioner must return one of the partitions that it was given.",
        partitioner=name,
        topic=topic,
    )


def _bytes_of(rows: pa.RecordBatch, column: str) -> list[bytes | None]:
    """Return keys or values as Kafka stores them: text in UTF-8."""
    index = rows.schema.get_field_index(column)
    if index < 0 or pa.types.is_null(rows.schema.field(index).type):
        return [None] * rows.num_rows
    found: list[bytes | None] = rows.column(index).cast(pa.large_binary()).to_pylist()
    return found


def _name_of(found: object) -> str:
    return getattr(found, "__qualname__", type(found).__qualname__)
