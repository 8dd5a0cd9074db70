"""KafkaRecords to rows by a deserializer of the user, in Python.

Runs on executors, instead of a TableDecoder. Invariant: each record gives rows of exactly the declared
columns, or one failure. A failure does not change the rows of other records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import DecodeError, OptionError, PenstockError
from penstock.formats.base import excerpt
from penstock.options.python_objects import DESERIALIZER
from penstock.table._decode import RecordFailure, TableRows
from penstock.table._row_maker import RowMaker, UnfitRowError
from penstock.table.user_decoder import CalledWith, ConsumerRecord, PickledDeserializer

OPTION = "scan.deserializer"

_FEW = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns that the policy for bad records may need."""

REASON_LENGTH_MAX = 1_000


class PythonDecoder:
    """Decodes KafkaRecords with the deserializer in the text of an option."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        """Load the deserializer. Raises OptionError if the deserializer cannot be loaded here."""
        loaded = DESERIALIZER.load(text, OPTION)
        if not isinstance(loaded, PickledDeserializer):
            raise OptionError(f"Option '{OPTION}': expected a deserializer, got {type(loaded).__name__}.")
        self._travelling = loaded
        self._schema = schema
        self._made = RowMaker(schema, gives_values=loaded.gives_values)
        self._call: Callable[..., Any] = _prepared(loaded)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def record_columns(self) -> tuple[str, ...]:
        few = self._travelling.gets in (CalledWith.VALUE, CalledWith.TOPIC_AND_VALUE)
        return tuple(name for name in KAFKA_RECORDS.names if name in _FEW or not few)

    def decode(self, records: pa.RecordBatch) -> TableRows:
        if self._travelling.gets is CalledWith.BATCH:
            return self._decode_batch(records)
        rows: list[tuple[Any, ...]] = []
        indices: list[int] = []
        failures: list[RecordFailure] = []
        for index, arguments in enumerate(self._arguments(records)):
            try:
                found = self._rows_of(arguments)
            except UnfitRowError as error:
                failures.append(_failure(records, index, str(error)))
                continue
            rows.extend(found)
            indices.extend([index] * len(found))
        try:
            batch = self._made.batch(rows)
        except UnfitRowError:
            batch, indices = self._good_rows(records, rows, indices, failures)
        failures.sort(key=lambda one: one.record_index)
        return TableRows(batch, len(indices), pa.array(indices, pa.int32()), failures, 0)

    def _arguments(self, records: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        gets = self._travelling.gets
        if gets is CalledWith.VALUE:
            return ((value,) for value in records.column("value").to_pylist())
        if gets is CalledWith.TOPIC_AND_VALUE:
            columns = (records.column("topic").to_pylist(), records.column("value").to_pylist())
            return zip(*columns, strict=True)
        return ((record,) for record in consumer_records(records))

    def _rows_of(self, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Call the user's code for one record.

        Raises:
            UnfitRowError: the user's code failed, or returned something that is not a row.
        """
        try:
            # An iterator of the user runs here too.
            return self._made.rows(self._call(*arguments))
        except (UnfitRowError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            _reraise_ours(error)
            raise UnfitRowError(f"the deserializer failed: {type(error).__name__}: {error}") from None

    def _good_rows(
        self,
        records: pa.RecordBatch,
        rows: Sequence[tuple[Any, ...]],
        indices: Sequence[int],
        failures: list[RecordFailure],
    ) -> tuple[pa.RecordBatch, list[int]]:
        """Leave out every record that has a row that does not fit, with all of its rows."""
        bad: dict[int, str] = {}
        for index, row in zip(indices, rows, strict=True):
            if index not in bad and (reason := self._made.problem(row)):
                bad[index] = reason
        failures.extend(_failure(records, index, reason) for index, reason in bad.items())
        good = [i for i, index in enumerate(indices) if index not in bad]
        return self._made.batch([rows[i] for i in good]), [indices[i] for i in good]

    def _decode_batch(self, records: pa.RecordBatch) -> TableRows:
        try:
            batch = self._called(records)
        except UnfitRowError as error:
            if records.num_rows == 1:
                return TableRows(self._made.batch([]), 0, None, [_failure(records, 0, str(error))], 0)
            return self._one_by_one(records)
        return TableRows(batch, batch.num_rows, None, (), 0)

    def _one_by_one(self, records: pa.RecordBatch) -> TableRows:
        failures: list[RecordFailure] = []
        batches = [self._made.batch([])]
        for index in range(records.num_rows):
            found = self._decode_batch(records.slice(index, 1))
            batches.append(found.rows)
            failures.extend(dataclasses.replace(one, record_index=index) for one in found.failures)
        columns = range(len(self._schema))
        arrays = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in columns]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return TableRows(rows, rows.num_rows, None, failures, 0)

    def _called(self, records: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return self._made.fitted(self._call(records))
        except (UnfitRowError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            _reraise_ours(error)
            raise UnfitRowError(f"the deserializer failed: {type(error).__name__}: {error}") from None


def _reraise_ours(error: Exception) -> None:
    # A record is not bad because a Schema Registry is down.
    if isinstance(error, PenstockError) and not isinstance(error, DecodeError):
        raise error


def _prepared(travelling: PickledDeserializer) -> Callable[..., Any]:
    """Open the user's object and return the function to call."""
    user_object = travelling.user_object
    if travelling.gets is CalledWith.TOPIC_AND_VALUE and hasattr(user_object, "configure"):
        user_object.configure({}, False)
    if hasattr(user_object, "open"):
        user_object.open()
    name = "deserialize_batch" if travelling.gets is CalledWith.BATCH else "deserialize"
    found: Callable[..., Any] = getattr(user_object, name, user_object)
    return found


def _failure(records: pa.RecordBatch, index: int, reason: str) -> RecordFailure:
    value = records.column("value")[index].as_py()
    # Errors of users may contain whole records, and characters that UTF-8 cannot encode.
    text = reason[:REASON_LENGTH_MAX].encode(errors="backslashreplace").decode()
    return RecordFailure(index, "record", text, excerpt(value or b""))


def consumer_records(records: pa.RecordBatch) -> Iterator[ConsumerRecord]:
    """Return KafkaRecords one by one."""
    timestamps = records.column("timestamp").view(pa.int64()).to_pylist()
    columns = {name: records.column(name).to_pylist() for name in KAFKA_RECORDS.names if name != "timestamp"}
    for i, timestamp_us in enumerate(timestamps):
        headers = columns["headers"][i] or ()
        yield ConsumerRecord(
            columns["topic"][i],
            columns["partition"][i],
            columns["offset"][i],
            timestamp_us // 1000,
            columns["timestamp_type"][i],
            columns["key"][i],
            columns["value"][i],
            [(one["key"], one["value"]) for one in headers],
            columns["leader_epoch"][i],
        )
