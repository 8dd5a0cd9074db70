"""Memory that is used again: never while somebody still refers to it, and never too much of it."""

from __future__ import annotations

import gc
import random

import pyarrow as pa
import pytest

from penstock.codec import Block
from penstock.codec._memory import kept_bytes, live_bytes
from tests.codec_batches import Batch, Rec, decoder

MB = 1 << 20


def address(block: Block) -> int:
    return int(pa.py_buffer(block).address)


def test_a_block_is_used_again_once_nobody_refers_to_it() -> None:
    block = Block(5 * MB)
    first = address(block)
    del block
    again = Block(5 * MB - 1000)  # as large, about
    assert address(again) == first
    assert len(memoryview(again)) == len(again) == again.size == 5 * MB - 1000
    del again
    much_smaller = Block(2 * MB)
    assert address(much_smaller) != first


def test_a_view_holds_on_to_its_block() -> None:
    block = Block(3 * MB)
    view = memoryview(block)[MB : MB + 3]
    view[:] = b"abc"
    buffer = pa.py_buffer(view)
    del block, view
    others = [Block(3 * MB) for _ in range(4)]
    for other in others:
        memoryview(other)[:] = bytes(3 * MB)
    assert buffer.to_pybytes() == b"abc"


def test_live_blocks_keep_what_stands_in_them() -> None:
    chance = random.Random(7)
    live: list[tuple[Block, int]] = []
    for number in range(2_000):
        if live and chance.random() < 0.5:
            block, mark = live.pop(chance.randrange(len(live)))
            view = memoryview(block)
            assert set(view[:64]) | set(view[-64:]) <= {mark}
        else:
            mark = number % 256
            block = Block(chance.choice([1, 1000, 64 << 10, 70_000, MB, MB + 1, 3 * MB]))
            memoryview(block)[:] = bytes([mark]) * len(block)
            live.append((block, mark))
        assert 0 <= kept_bytes() <= 32 * MB


def test_live_bytes_are_those_of_blocks_in_use() -> None:
    gc.collect()  # what other tests left in cycles
    before = live_bytes()
    blocks = [Block(MB), Block(1000)]
    assert MB + 1000 <= live_bytes() - before <= 3 * MB
    blocks.clear()
    assert live_bytes() == before


def test_not_more_than_a_limit_is_kept() -> None:
    blocks = [Block(MB) for _ in range(50)]
    assert kept_bytes() <= 32 * MB
    blocks.clear()
    assert 31 * MB <= kept_bytes() <= 32 * MB
    huge = Block(100 * MB)
    del huge  # goes back to the system, and nothing else for it
    assert kept_bytes() >= 31 * MB


def test_small_blocks_are_not_kept() -> None:
    gc.collect()
    before = kept_bytes()
    small = [Block(1000) for _ in range(10)]
    del small
    assert kept_bytes() == before


@pytest.mark.parametrize(
    ("size", "error"), [(-1, ValueError), (1 << 46, MemoryError), (1 << 62, MemoryError)]
)
def test_what_cannot_be_is_an_error(size: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        Block(size)


def test_an_empty_block_is_one() -> None:
    assert bytes(memoryview(Block(0))) == b""


def decoded(round_number: int) -> pa.RecordBatch:
    """Columns large enough to be kept, with other values in each round. Some values are null."""
    value = bytes([round_number]) * 300
    records = [Rec(None if at % 7 == 0 else value, bytes([at % 256]) * 250) for at in range(300)]
    codec = decoder()
    assert list(codec.decode(Batch(records, round_number).encode())) == []
    return codec.flush()


def test_decoded_columns_stay_as_they_are_while_others_are_decoded() -> None:
    kept = {number: decoded(number) for number in range(1, 5)}
    for number in range(5, 13):
        decoded(number)  # dropped at once: the next one gets its memory
    for number, batch in kept.items():
        batch.validate(full=True)
        assert batch.equals(decoded(number))
        assert batch.column("value").null_count == 43
        assert set(batch.column("value").to_pylist()) == {None, bytes([number]) * 300}


def test_many_small_blocks_are_used_again() -> None:
    """A transaction of a continuous task has a hundred of them. All are free at once after its end."""
    first = [Block(200 << 10) for _ in range(100)]
    addresses = {address(each) for each in first}
    first.clear()
    again = [Block(200 << 10) for _ in range(100)]
    assert {address(each) for each in again} == addresses
