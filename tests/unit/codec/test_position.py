"""Where the decoder stands, what it leaves out, and when it hands batches over."""

from __future__ import annotations

import struct

import pytest

from penstock.errors import CorruptBatchError
from tests.codec_batches import (
    ABORT,
    COMMIT,
    CONTROL,
    Batch,
    Rec,
    column,
    decode_all,
    decoder,
    in_transaction,
    marker,
    values,
)


def test_the_range_is_cut_inside_of_batches() -> None:
    codec = decoder(2, 5)
    rows = decode_all(codec, values(0, b"0", b"1", b"2", b"3") + values(4, b"4", b"5", b"6"))
    assert column(rows, "offset") == [2, 3, 4]
    assert codec.next_offset == 5
    assert codec.is_finished


def test_a_batch_behind_the_range_finishes_it() -> None:
    codec = decoder(0, 5)
    assert column(decode_all(codec, values(0, b"0") + values(9, b"9")), "offset") == [0]
    assert codec.next_offset == 5


def test_a_finished_decoder_reads_nothing_more() -> None:
    codec = decoder(0, 1)
    assert column(decode_all(codec, values(0, b"0"), b"\xff" * 100), "offset") == [0]


def test_a_batch_before_the_position_is_passed_over() -> None:
    codec = decoder(10)
    assert column(decode_all(codec, values(0, b"0") + values(10, b"10")), "offset") == [10]


def test_overlapping_responses_repeat_nothing() -> None:
    data = values(0, b"0", b"1", b"2")
    codec = decoder()
    assert column(decode_all(codec, data, data, values(2, b"2", b"3")), "offset") == [0, 1, 2, 3]


def test_a_partial_last_batch_is_ignored_at_every_length() -> None:
    whole, next_one = values(0, b"0"), values(1, b"1")
    for size in range(len(next_one)):
        codec = decoder()
        assert column(decode_all(codec, whole + next_one[:size]), "offset") == [0]
        assert codec.next_offset == 1


def test_data_that_is_one_partial_batch_moves_nothing() -> None:
    codec = decoder()
    assert decode_all(codec, values(0, b"0")[:-1]) == []
    assert codec.next_offset == 0


def test_compaction_gaps_inside_between_and_at_the_end_of_batches() -> None:
    first = Batch([Rec(b"a", delta=1), Rec(b"b", delta=4)], 10, last_delta=9).encode()
    codec = decoder(0, 40)
    rows = decode_all(codec, first + Batch([Rec(b"c", delta=2)], 30, last_delta=9).encode())
    assert column(rows, "offset") == [11, 14, 32]
    assert codec.is_finished


def test_a_batch_that_compaction_left_without_records_moves_the_position() -> None:
    codec = decoder()
    empty = Batch([], last_delta=9, count=0)
    assert decode_all(codec, empty.encode()) == []
    assert codec.next_offset == 10
    assert decode_all(decoder(), Batch([], last_delta=9, count=0, attributes=3).encode()) == []


def test_control_batches_are_left_out_and_counted() -> None:
    codec = decoder()
    rows = decode_all(codec, values(0, b"0") + marker(1, 9, COMMIT) + values(2, b"2") + marker(3, 9, ABORT))
    assert column(rows, "offset") == [0, 2]
    assert codec.next_offset == 4


def test_uncommitted_reading_sees_aborted_records() -> None:
    data = in_transaction(0, 9, b"0") + marker(1, 9, ABORT)
    assert column(decode_all(decoder(), data, aborted=[(9, 0)]), "offset") == [0]


def test_committed_reading_follows_interleaved_transactions() -> None:
    data = b"".join(
        [
            in_transaction(0, 1, b"aborted"),
            in_transaction(1, 2, b"committed"),
            values(2, b"plain"),
            in_transaction(3, 1, b"aborted", b"aborted"),
            marker(5, 2, COMMIT),
            in_transaction(6, 2, b"aborted"),
            marker(7, 1, ABORT),
            in_transaction(8, 1, b"committed"),
            marker(9, 2, ABORT),
            in_transaction(10, 2, b"committed"),
            marker(11, 1, COMMIT),
        ]
    )
    codec = decoder(read_committed=True)
    rows = decode_all(codec, data, aborted=[(2, 6), (1, 0)])
    assert column(rows, "offset") == [1, 2, 8, 10]
    assert set(column(rows, "value")) == {b"committed", b"plain"}
    assert codec.next_offset == 12


def test_plain_records_of_an_aborted_producer_are_kept() -> None:
    data = values(0, b"idempotent", producer_id=1) + in_transaction(1, 1, b"aborted") + marker(2, 1, ABORT)
    rows = decode_all(decoder(read_committed=True), data, aborted=[(1, 0)])
    assert column(rows, "value") == [b"idempotent"]


def test_each_response_brings_its_own_aborted_transactions() -> None:
    codec = decoder(read_committed=True)
    first = list(codec.decode(in_transaction(0, 1, b"aborted"), [(1, 0)]))
    assert codec.next_offset == 1
    # The transaction began before this response's range, and the broker lists it again.
    second = list(codec.decode(in_transaction(1, 1, b"aborted") + marker(2, 1, ABORT), [(1, 0)]))
    third = list(codec.decode(in_transaction(3, 1, b"committed") + marker(4, 1, COMMIT), []))
    assert [*first, *second, *third] == []
    rest = codec.flush()
    assert rest is not None
    assert rest["value"].to_pylist() == [b"committed"]
    assert codec.next_offset == 5


def test_a_transaction_that_aborts_within_its_batchs_range_covers_the_batch() -> None:
    # Java opens a transaction by the batch's last offset, so a first offset inside of a batch counts.
    data = in_transaction(0, 1, b"x", b"y") + marker(2, 1, ABORT)
    assert decode_all(decoder(read_committed=True), data, aborted=[(1, 1)]) == []


def test_an_abort_marker_before_the_position_still_ends_its_transaction() -> None:
    data = in_transaction(0, 1, b"aborted") + marker(1, 1, ABORT) + in_transaction(2, 1, b"committed")
    rows = decode_all(decoder(2, read_committed=True), data, aborted=[(1, 0)])
    assert column(rows, "value") == [b"committed"]


def test_control_records_of_other_kinds_are_passed_over() -> None:
    record = Rec(key=struct.pack(">hh", 0, 5))
    data = Batch([record], attributes=CONTROL, producer_id=1).encode() + values(1, b"1")
    assert column(decode_all(decoder(read_committed=True), data), "offset") == [1]


@pytest.mark.parametrize("record", [Rec(key=b"abc"), Rec(key=None)])
def test_a_control_record_without_a_type_is_corrupt(record: Rec) -> None:
    data = Batch([record], 7, attributes=CONTROL, producer_id=1).encode()
    with pytest.raises(CorruptBatchError, match="offset 7 of t-3 is corrupt: its control record"):
        decode_all(decoder(read_committed=True), data)


def test_full_batches_are_yielded_inside_of_a_kafka_batch() -> None:
    codec = decoder(max_rows=3)
    sizes, positions = [], []
    for batch in codec.decode(values(0, *[b"x"] * 8) + values(8, b"x")):
        sizes.append(batch.num_rows)
        positions.append(codec.next_offset)
        assert batch["offset"].to_pylist() == list(range(positions[-1] - batch.num_rows, positions[-1]))
    assert sizes == [3, 3, 3]
    assert positions == [3, 6, 9]
    assert codec.flush() is None


def test_an_abandoned_iteration_goes_on_at_the_position() -> None:
    data = values(0, *[b"x"] * 10)
    codec = decoder(max_rows=4)
    first = next(iter(codec.decode(data)))
    second = [batch.num_rows for batch in codec.decode(data)]
    rest = codec.flush()
    assert rest is not None
    assert first.num_rows + sum(second) + rest.num_rows == 10
    assert codec.next_offset == 10


def test_batches_are_cut_by_bytes_and_one_large_record_comes_alone() -> None:
    codec = decoder(max_bytes=100)
    data = values(0, b"a" * 60, b"b" * 40, b"c", b"d" * 1_000, b"e", b"f" * 100)
    sizes = [batch.num_rows for batch in codec.decode(data)]
    rest = codec.flush()
    assert rest is not None
    assert [*sizes, rest.num_rows] == [2, 1, 1, 1, 1]


def test_bytes_of_columns_that_nobody_asked_for_do_not_count() -> None:
    codec = decoder(max_bytes=100, columns=["offset", "key"])
    assert list(codec.decode(values(0, *[b"x" * 1_000] * 5))) == []


def test_rows_of_many_small_batches_are_put_together() -> None:
    data = b"".join(values(offset, b"v%d" % offset) for offset in range(5_000))
    rows = decode_all(decoder(), data)
    assert column(rows, "value") == [b"v%d" % offset for offset in range(5_000)]
    assert column(rows, "topic") == ["t"] * 5_000


def test_a_yielded_batch_is_not_touched_by_later_ones() -> None:
    codec = decoder(max_rows=2)
    data = Batch([Rec(b"%d" % i, headers=[(b"h", b"%d" % i)]) for i in range(6)]).encode()
    batches = list(codec.decode(data))
    assert [batch["value"].to_pylist() for batch in batches] == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"]]
    assert [row["headers"][0]["value"] for batch in batches for row in batch.to_pylist()] == [
        b"%d" % i for i in range(6)
    ]
