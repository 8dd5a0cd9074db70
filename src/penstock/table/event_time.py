"""The event time of rows: a column that a timestamp assigner of the user fills.

Runs on executors, and on the driver, which aligns topic partitions by these times. Invariant: both get the
same times, because both use this decoder. A record whose assigner fails gives no row and one failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import OptionError, PenstockError
from penstock.options.python_objects import ASSIGNER
from penstock.options.table_spec import RECORD_TIMESTAMP, EventTimeSpec
from penstock.table._decode import RecordFailure, TableRows
from penstock.table.read import RecordDecoder

OPTION = "scan.event-time.assigner"
_TIME = pa.timestamp("us", tz="UTC")
_REASON_LENGTH_MAX = 1_000


class TimestampAssigner(ABC):
    """Finds the event time of an element: PyFlink's `TimestampAssigner`. Subclass it; it travels by value."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time in milliseconds since 1970. An exception makes the record bad.

        Args:
            value: the element: the value of the one column `value`, or else a row with its columns as
                attributes, by name and by number.
            record_timestamp: the timestamp of the Kafka record, in milliseconds.
        """


class Element(tuple[Any, ...]):
    """A row, with columns as attributes, by name and by number."""

    names: Sequence[str]

    @classmethod
    def of(cls, values: Sequence[Any], names: Sequence[str]) -> Element:
        made = cls(values)
        made.names = names
        return made

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("names", ())
        if name not in names:
            raise AttributeError(f"the row has no column {name!r}; its columns are {', '.join(names)}")
        return tuple.__getitem__(self, names.index(name))

    def __getitem__(self, key: Any) -> Any:
        return getattr(self, key) if isinstance(key, str) else tuple.__getitem__(self, key)


class EventTimeDecoder:
    """Decodes records with another decoder, and adds the column of event time."""

    def __init__(self, inner: RecordDecoder, spec: EventTimeSpec, schema: pa.Schema) -> None:
        self._inner = inner
        self._schema = schema
        self._index = schema.get_field_index(spec.column)
        self._assigner: Any = None
        if spec.assigner != RECORD_TIMESTAMP:
            self._assigner = ASSIGNER.load(spec.assigner or "", OPTION)

    @property
    def record_columns(self) -> tuple[str, ...]:
        needed = {*self._inner.record_columns, "timestamp"}
        return tuple(name for name in KAFKA_RECORDS.names if name in needed)

    def decode(self, records: pa.RecordBatch) -> TableRows:
        found = self._inner.decode(records)
        indices = found.record_indices
        if indices is None and found.row_count != records.num_rows:
            raise OptionError(
                f"Option '{OPTION}' needs to know the record of each row, which an "
                "ArrowDeserializationSchema does not say. Let it fill the column of the event time itself, "
                "and leave the assigner out.",
                option=OPTION,
            )
        times = records.column("timestamp").cast(_TIME)
        times = times if indices is None else times.take(indices)
        if self._assigner is None:
            return self._with(found, times)
        return self._assigned(records, found, times)

    def _assigned(self, records: pa.RecordBatch, found: TableRows, times: pa.Array) -> TableRows:
        """Ask the assigner for each row. A record with a failure loses all of its rows."""
        of_rows = range(found.row_count) if found.record_indices is None else found.record_indices.to_pylist()
        given_ms = pc.divide(times.cast(pa.int64()), 1000).to_pylist()
        event_us: list[int | None] = []
        bad: dict[int, str] = {}
        for index, element, time_ms in zip(of_rows, _elements(found.rows), given_ms, strict=True):
            answer = self._ask(element, time_ms)
            if isinstance(answer, str):
                bad.setdefault(index, answer)
            event_us.append(None if isinstance(answer, str) else answer * 1000)
        made = self._with(found, pa.array(event_us, pa.int64()).cast(_TIME))
        return _without(made, bad) if bad else made

    def _ask(self, element: Any, time_ms: int) -> int | str:
        """Return the event time in milliseconds, or the reason why there is none."""
        try:
            answer = self._assigner.extract_timestamp(element, time_ms)
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            return f"the timestamp assigner failed: {type(error).__name__}: {error}"
        if not isinstance(answer, int) or isinstance(answer, bool) or abs(answer) > 1 << 52:
            return f"expected milliseconds since 1970 from the timestamp assigner, got {answer!r}"
        return answer

    def _with(self, found: TableRows, times: pa.Array) -> TableRows:
        arrays = list(found.rows.columns)
        arrays.insert(self._index, times)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return TableRows(rows, found.row_count, found.record_indices, found.failures, found.dropped_count)


def _elements(rows: pa.RecordBatch) -> Iterator[Any]:
    names = rows.schema.names
    columns = [column.to_pylist() for column in rows.columns]
    if names == ["value"]:
        return iter(columns[0])
    return (Element.of(values, names) for values in zip(*columns, strict=True))


def _without(found: TableRows, bad: dict[int, str]) -> TableRows:
    indices = found.record_indices
    if indices is None:
        indices = pa.array(range(found.row_count), pa.int32())
    keeps = pc.invert(pc.is_in(indices, value_set=pa.array(list(bad), pa.int32())))
    failures = [RecordFailure(i, "record", reason[:_REASON_LENGTH_MAX], "") for i, reason in bad.items()]
    merged = sorted([*found.failures, *failures], key=lambda one: one.record_index)
    kept = indices.filter(keeps)
    return TableRows(found.rows.filter(keeps), len(kept), kept, merged, found.dropped_count)


def latest_times(decoder: RecordDecoder, records: pa.RecordBatch, column: str) -> list[tuple[int, int]]:
    """Return the offset and the newest event time of each record that gives rows with one.

    Args:
        decoder: makes the rows.
        records: with `record_columns` of the decoder and offset.
        column: of the rows, with the event time.

    Returns:
        Offsets and milliseconds since 1970, by offset.
    """
    found = decoder.decode(records)
    if found.record_indices is None and found.row_count != records.num_rows:
        each = (latest_times_of_one(decoder, records.slice(i, 1), column) for i in range(records.num_rows))
        return [one for one in each if one is not None]
    offsets = records.column("offset")
    offsets = offsets if found.record_indices is None else offsets.take(found.record_indices)
    newest: dict[int, int] = {}
    times_us = found.rows.column(column).cast(_TIME).cast(pa.int64()).to_pylist()
    for offset, time_us in zip(offsets.to_pylist(), times_us, strict=True):
        if time_us is not None:
            newest[offset] = max(newest.get(offset, time_us // 1000), time_us // 1000)
    return sorted(newest.items())


def latest_times_of_one(
    decoder: RecordDecoder, record: pa.RecordBatch, column: str
) -> tuple[int, int] | None:
    """Return the offset and the newest event time of one record; None if no row has one."""
    times_us = decoder.decode(record).rows.column(column).cast(_TIME).cast(pa.int64())
    newest = pc.max(times_us).as_py()
    return None if newest is None else (record.column("offset")[0].as_py(), newest // 1000)
