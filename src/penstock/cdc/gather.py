"""The changes of many tables in one Spark job: what a task makes of raw records, and what the driver joins.

`Reader` runs on executors, `joined` on the driver. Invariants: rows are made only of topics whose schemas are
all known, so no column is left out in silence; the last row of a key is chosen by the offset of its record;
two rows of one key from two topic partitions are an error, because their order is unknown.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cdc._exchanged import Origin, first_exchanged
from penstock.cdc.in_files import InFile, Parts, write
from penstock.cdc.messages import Changes, MessageFormat
from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import DecodeError, RowError
from penstock.formats.base import RowFailure
from penstock.state.columns import one_array
from penstock.targets.batch import LastRows, Sums, last_indices
from penstock.targets.staged import FEW_BYTES, StagingFolder

RAW = ("key", "value", "topic", "partition", "offset")
"""The columns of raw records that a task needs, in this order."""
RECEIPTS = (
    "topic STRING, partition INT, first_offset BIGINT, last_offset BIGINT, rows BINARY, "
    "schemas ARRAY<STRING>, failure STRING, path STRING, row_count BIGINT, high DECIMAL(20, 0), "
    "low DECIMAL(20, 0), byte_count BIGINT"
)
"""The columns of what a task says of a topic partition: the last row of each key, or the file that has these
rows, or the schemas that are unknown, or why its messages give no rows."""
_RECEIPTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("rows", pa.binary()),
        ("schemas", pa.list_(pa.string())),
        ("failure", pa.string()),
        ("path", pa.string()),
        ("row_count", pa.int64()),
        ("high", pa.decimal128(20, 0)),
        ("low", pa.decimal128(20, 0)),
        ("byte_count", pa.int64()),
    ]
)
_SHOWN = 3


class Known(NamedTuple):
    """What a task is told of a table: its columns, its primary key, digests of the schemas they follow."""

    columns: pa.Schema
    keys: tuple[str, ...]
    schemas: frozenset[str]


def digest_of_schema(text: str, *, ignores: bool = False) -> str:
    """Return what stands for a schema in the journal.

    Args:
        text: the schema.
        ignores: whether new columns are left out. Without that the same schema has to be followed again.
    """
    return hashlib.sha256(f"{text} {ignores}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Reader:
    """Makes rows of raw records. Pickled to the tasks.

    Attributes:
        format: of the messages.
        tables: what is known, by topic. A topic that is missing here is new.
        left_out: topics whose records are passed over.
        only: the topics to read; None for all.
        ignores: of `digest_of_schema`.
        folder: gets the rows of a topic partition that are many; None if all go to the driver.
    """

    format: MessageFormat
    tables: Mapping[str, Known]
    left_out: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    ignores: bool = False
    folder: StagingFolder | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a receipt for each topic partition of a task."""
        received = [one.select(list(RAW)) for one in batches if one.num_rows]
        if not received:
            return
        records = pa.Table.from_batches(received).combine_chunks()
        for topic, partition, of_partition in _by_topic_partition(records):
            if topic not in self.left_out and (self.only is None or topic in self.only):
                yield self._receipt(topic, partition, of_partition)

    def _receipt(self, topic: str, partition: int, records: pa.Table) -> pa.RecordBatch:
        known = self.tables.get(topic)
        found = self.format.of_topic(topic).schemas(*_messages(records))
        followed = frozenset() if known is None else known.schemas
        unknown = [text for text in found.texts if self._digest(text) not in followed]
        rows, failure, in_file = None, None, None
        try:
            _check(found.failures, records)
            _check_keyed(partition, records)
            if known is not None and not unknown:
                rows, in_file = self._given(self._rows(known, records))
        except (DecodeError, RowError) as error:
            failure = f"partition {partition}: {error}"
        first, last = (records.column("offset")[index].as_py() for index in (0, -1))
        path, (row_count, high, low), byte_count = in_file or (None, (None, None, None), None)
        receipt = (
            *(topic, partition, first, last, rows, unknown, failure),
            *(path, row_count, high, low, byte_count),
        )
        return pa.RecordBatch.from_arrays(
            [pa.array([value], one.type) for value, one in zip(receipt, _RECEIPTS, strict=True)],
            schema=_RECEIPTS,
        )

    def _given(self, rows: pa.Table) -> tuple[bytes | None, InFile | None]:
        """Return the rows for the driver, or the file that has them."""
        if self.folder is None or rows.nbytes <= FEW_BYTES:
            return _as_ipc(rows), None
        return None, write(self.folder, rows)

    def _digest(self, text: str) -> str:
        return digest_of_schema(text, ignores=self.ignores)

    def _rows(self, known: Known, records: pa.Table) -> pa.Table:
        found = self.format.changes(*_messages(records), known.columns)
        _check(found.failures, records)
        rows = pa.Table.from_batches([found.rows]).append_column(ROW_KIND, found.kinds)
        last = LastRows(known.keys, known.columns).last_rows(rows)
        self._check_exchange(found, known, records)
        return last

    def _check_exchange(self, found: Changes, known: Known, records: pa.Table) -> None:
        """Raise RowError if messages of this task prove that rows exchanged their keys; see `_exchanged`."""
        values = records.column("value")

        def origin(row: int) -> Origin:
            return self.format.origin(values[found.index[row].as_py()].as_py())

        pair = first_exchanged(found.rows, found.kinds, known.keys, origin)
        if pair is None:
            return
        new, end = (records.column("offset")[found.index[row].as_py()].as_py() for row in pair)
        raise RowError(
            f"Offset {end} has the end of the old row of a key, and offset {new} before it has the new row "
            "of that key, from the same transaction. So rows have exchanged their primary keys, and the copy "
            "would lose the new row. Nothing of this table was written. Leave the topic out of the pattern, "
            "and keep its table by penstock.changelog.normalize and materialize, which keep such rows."
        )


def _check_keyed(partition: int, records: pa.Table) -> None:
    """Raise RowError if records without a key are in several topic partitions: their order is unknown."""
    if (
        partition
        and pc.any(pc.and_(pc.is_null(records.column("key")), pc.is_valid(records.column("value")))).as_py()
    ):
        raise RowError(
            "Records have no key, so rows of one primary key may be in several partitions, and it is unknown "
            "which is the newest. Let the source write record keys, or use a topic with one partition"
        )


def _check(failures: Sequence[RowFailure], records: pa.Table) -> None:
    """Raise DecodeError if messages could not be read."""
    if failures:
        offsets = one_array(records.column("offset"))
        shown = "; ".join(
            f"offset {offsets[one.value_index].as_py()}: {one.reason}" for one in failures[:_SHOWN]
        )
        raise DecodeError(f"{len(failures)} messages are not changes of the table ({shown})")


@dataclass(frozen=True)
class Gathered:
    """What all tasks said.

    Attributes:
        rows: of each topic, as `LastRows` gives them.
        in_files: of the topics of which a task has written rows into a file.
        unknown: the schemas that no columns follow yet, by topic, in the order of partitions and offsets.
        failures: why topics give no rows.
        begins: the first offset of each topic partition that was read, by topic.
    """

    rows: dict[str, pa.Table] = field(default_factory=dict)
    in_files: dict[str, Parts] = field(default_factory=dict)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    begins: dict[str, dict[int, int]] = field(default_factory=dict)

    def update(self, again: Gathered) -> None:
        """Take what a second reading of some topics said."""
        self.rows.update(again.rows)
        self.in_files.update(again.in_files)
        self.failures.update(again.failures)


def joined(receipts: pa.Table, tables: Mapping[str, Known]) -> Gathered:
    """Return the rows, the unknown schemas and the failures of each topic."""
    parts: dict[str, dict[int, list[Any]]] = {}
    ends: dict[tuple[str, int], int] = {}
    found = Gathered()
    order = [(name, "ascending") for name in ("topic", "partition", "first_offset")]
    for one in receipts.sort_by(order).to_pylist():
        topic = one["topic"]
        place = (topic, one["partition"])
        if one["first_offset"] <= ends.get(place, -1):
            raise AssertionError(f"expected each range of {place} in one task, got mixed ones: {ends[place]}")
        ends[place] = one["last_offset"]
        found.begins.setdefault(topic, {}).setdefault(one["partition"], one["first_offset"])
        for text in one["schemas"]:
            texts = found.unknown.setdefault(topic, [])
            if text not in texts:
                texts.append(text)
        if one["failure"] is not None:
            found.failures.setdefault(topic, one["failure"])
        if (part := _part(one)) is not None:
            parts.setdefault(topic, {}).setdefault(one["partition"], []).append(part)
    for topic in parts.keys() - found.unknown.keys() - found.failures.keys():
        if any(isinstance(each, InFile) for of_one in parts[topic].values() for each in of_one):
            found.in_files[topic] = parts[topic]
            continue
        try:
            found.rows[topic] = _of_topic(parts[topic], tables[topic].keys)
        except RowError as error:
            found.failures[topic] = str(error)
    return found


def _part(receipt: Mapping[str, Any]) -> pa.Table | InFile | None:
    """Return the rows that a receipt has or names."""
    if receipt["path"] is not None:
        sums = Sums(receipt["row_count"], int(receipt["high"]), int(receipt["low"]))
        return InFile(receipt["path"], sums, receipt["byte_count"])
    return None if receipt["rows"] is None else _from_ipc(receipt["rows"])


def _of_topic(parts: Mapping[int, Sequence[pa.Table]], keys: tuple[str, ...]) -> pa.Table:
    """Return the last row of each key. Parts of one topic partition are in the order of offsets."""
    reduced = []
    for tables in parts.values():
        rows = pa.concat_tables(tables)
        reduced.append(rows if len(tables) == 1 else rows.take(last_indices(rows, keys)))
    rows = pa.concat_tables(reduced)
    if len(last_indices(rows, keys)) != rows.num_rows:
        raise keys_in_several(parts)
    return rows


def keys_in_several(partitions: Iterable[int]) -> RowError:
    """Return the error of a topic that has rows of one key in several partitions."""
    return RowError(
        f"Partitions {', '.join(map(str, partitions))} have rows of one key, so it is unknown which is the "
        "newest. Let the source write all records of a key into one partition, as Debezium does if the "
        "record key is the primary key"
    )


def _messages(records: pa.Table) -> tuple[pa.Array, pa.Array]:
    return one_array(records.column("key")), one_array(records.column("value"))


def _by_topic_partition(records: pa.Table) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield the records of each topic partition, in the order of offsets."""
    place = [("topic", "ascending"), ("partition", "ascending")]
    found = records.group_by(["topic", "partition"]).aggregate([([], "count_all")]).sort_by(place)
    if found.num_rows > 1 or not _is_ascending(records.column("offset")):
        records = records.sort_by([*place, ("offset", "ascending")])
    begin = 0
    for one in found.to_pylist():
        yield one["topic"], one["partition"], records.slice(begin, one["count_all"])
        begin += one["count_all"]


def _is_ascending(offsets: pa.ChunkedArray) -> bool:
    return bool((np.diff(one_array(offsets).to_numpy()) > 0).all())


def _as_ipc(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _from_ipc(content: Any) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
