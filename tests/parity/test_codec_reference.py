"""The compiled codec against its Python reference, both ways, over random data."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codec import RecordBatchBuilder, RecordBatchDecoder, RecordColumns
from tests.codec_batches import ABORT, COMMIT, marker
from tests.parity import codec_reference as reference
from tests.parity import strategies as wire

NOW = 1_700_000_000_000
EXAMPLES = settings(max_examples=300, deadline=None)


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, int]:
    """Make some batches with gaps between them, cut off anywhere. Return them with their end."""
    parts, offset = [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 4)) == 0:
            parts.append(
                marker(offset, draw(st.sampled_from([7, 8])), draw(st.sampled_from([ABORT, COMMIT])))
            )
            offset += 1
        else:
            parts.append(draw(wire.batches(offset)))
            offset += int.from_bytes(parts[-1][23:27], "big") + 1
        offset += draw(st.integers(0, 3))
    data = b"".join(parts)
    return data[: len(data) - draw(st.sampled_from([0, 0, 1, 30]))], offset


def both(
    data: bytes, aborted: list[tuple[int, int]], **range_: Any
) -> tuple[list[wire.Row], list[wire.Row], int, int]:
    limits = {name: range_.pop(name) for name in ("max_rows", "max_bytes") if name in range_}
    slow = reference.ReferenceDecoder("t", 3, **range_)
    fast = RecordBatchDecoder("t", 3, **range_, **limits)
    rows = [row for batch in fast.decode(data, aborted) for row in wire.rows_of(batch)]
    rest = fast.flush()
    rows += [] if rest is None else wire.rows_of(rest)
    return rows, slow.decode(data, aborted), fast.next_offset, slow.next_offset


@EXAMPLES
@given(responses(), st.data())
def test_decoding(response: tuple[bytes, int], data: st.DataObject) -> None:
    content, end = response
    first = int.from_bytes(content[:8], "big")
    offsets = st.integers(max(0, first - 2), end + 2)
    aborted = data.draw(st.lists(st.tuples(st.sampled_from([7, 8]), offsets), max_size=3))
    start = data.draw(offsets)
    fast, slow, fast_next, slow_next = both(
        content,
        aborted,
        starting_offset=start,
        stopping_offset=data.draw(st.integers(start, end + 3)),
        read_committed=data.draw(st.booleans()),
        max_rows=data.draw(st.sampled_from([1, 3, 32_768])),
        max_bytes=data.draw(st.sampled_from([1, 500, 8 << 20])),
    )
    assert fast == slow
    assert fast_next == slow_next


@EXAMPLES
@given(wire.rows, wire.compressions, st.integers(0, 9), st.sampled_from([100, 1_000, 1 << 20]))
def test_encoding(rows: list[wire.Row], compression_type: str, padding: int, batch_size_bytes: int) -> None:
    """The reference reads back what the builder writes, in as many batches as the limit makes."""
    builder = RecordBatchBuilder(
        "t", 3, compression_type=compression_type, batch_size_bytes=batch_size_bytes, max_record_bytes=1 << 20
    )
    columns = RecordColumns(wire.arrow_of(rows, padding=padding))
    indices, done, back = pa.array(range(len(rows)), pa.int32()), 0, []
    while done < len(rows):
        done = builder.append(columns, indices, done, default_timestamp_ms=NOW)
        back += reference.ReferenceDecoder("t", 3, 0, 1 << 60).decode(builder.build())
    assert [{name: row[name] for name in rows[0]} for row in back] == rows


@EXAMPLES
@given(wire.rows, wire.compressions, st.booleans())
def test_the_same_bytes_as_kafka_python(
    rows: list[wire.Row], compression_type: str, is_transactional: bool
) -> None:
    producer = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 77}
    builder = RecordBatchBuilder(
        "t", 3, compression_type=compression_type, batch_size_bytes=1 << 30, is_transactional=is_transactional
    )
    indices = pa.array(range(len(rows)), pa.int32())
    builder.append(RecordColumns(wire.arrow_of(rows)), indices, default_timestamp_ms=NOW)
    ours = builder.build(**producer)
    theirs = reference.encode(
        rows, compression_type=compression_type, is_transactional=is_transactional, **producer
    )
    # The broker sets the leader epoch. Java and penstock send -1, kafka-python sends 0.
    assert ours[12:16] == b"\xff" * 4
    assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]


@EXAMPLES
@given(wire.rows, wire.compressions)
def test_there_and_back(rows: list[wire.Row], compression_type: str) -> None:
    builder = RecordBatchBuilder("t", 3, compression_type=compression_type, batch_size_bytes=1 << 30)
    indices = pa.array(range(len(rows)), pa.int32())
    builder.append(RecordColumns(wire.arrow_of(rows)), indices, default_timestamp_ms=NOW)
    fast = RecordBatchDecoder("t", 3, starting_offset=0, stopping_offset=len(rows))
    assert list(fast.decode(builder.build())) == []
    batch = fast.flush()
    assert batch is not None
    assert fast.is_finished
    assert [{name: row[name] for name in rows[0]} for row in wire.rows_of(batch)] == rows
