"""What the records of a Fetch response tell about the end of a transaction."""

from __future__ import annotations

import pytest

from penstock.client.transactions.markers import TransactionEnd, Witness, find_marker, holds_witness
from penstock.client.transactions.steps import TransactionIdentity
from penstock.errors import CorruptBatchError
from penstock.types import TopicPartition
from tests import codec_batches as hand

OURS = TransactionIdentity("ours", 8, 0)
WITNESS = Witness(TopicPartition("t", 3), 11)
WRITTEN = hand.in_transaction(10, 8, b"a", b"b", b"c")


@pytest.mark.parametrize(
    ("kind", "end"), [(hand.ABORT, TransactionEnd.ABORTED), (hand.COMMIT, TransactionEnd.COMMITTED)]
)
def test_the_first_marker_after_the_witness_counts(kind: int, end: TransactionEnd) -> None:
    log = (
        hand.marker(9, 8, 1 - kind)
        + WRITTEN
        + hand.marker(13, 7, 1 - kind)
        + hand.in_transaction(14, 8, b"d")
        + hand.marker(15, 8, kind)
        + hand.marker(16, 8, 1 - kind)
    )
    assert find_marker(log, WITNESS, 8) is end


def test_without_a_marker_of_ours_nothing_is_known() -> None:
    assert find_marker(b"", WITNESS, 8) is None
    assert find_marker(WRITTEN + hand.marker(13, 7, hand.COMMIT), WITNESS, 8) is None
    assert find_marker(WRITTEN + hand.marker(13, 8, 5), WITNESS, 8) is None
    assert find_marker(WRITTEN + hand.marker(13, 8, hand.COMMIT)[:-1], WITNESS, 8) is None
    no_type = hand.Batch([hand.Rec(key=b"\0")], 13, attributes=hand.CONTROL, producer_id=8).encode()
    assert find_marker(WRITTEN + no_type, WITNESS, 8) is None


def test_the_witness_is_in_the_first_batch_and_of_our_producer() -> None:
    assert holds_witness(WRITTEN, WITNESS, OURS)
    assert holds_witness(WRITTEN + WRITTEN, WITNESS, OURS)
    assert not holds_witness(b"", WITNESS, OURS)
    assert not holds_witness(WRITTEN[:-1], WITNESS, OURS)
    assert not holds_witness(hand.in_transaction(12, 8, b"c"), WITNESS, OURS)
    assert not holds_witness(hand.in_transaction(10, 8, b"a"), WITNESS, OURS)
    assert not holds_witness(WRITTEN, WITNESS, TransactionIdentity("ours", 8, 1))
    assert not holds_witness(WRITTEN, WITNESS, TransactionIdentity("ours", 9, 0))
    assert not holds_witness(hand.marker(11, 8, hand.COMMIT), WITNESS, OURS)
    assert not holds_witness(hand.values(11, b"other") + WRITTEN, WITNESS, OURS)


@pytest.mark.parametrize("length", [-12, -1, 0, -(2**31)])
def test_a_damaged_length_is_an_error_and_not_an_endless_loop(length: int) -> None:
    damaged = hand.Batch(base_offset=13, length=length).encode()
    with pytest.raises(CorruptBatchError, match="offset 13 of t-3"):
        find_marker(WRITTEN + damaged, WITNESS, 8)
