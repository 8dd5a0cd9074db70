"""A log that repeats one batch answers as a log to which the batch was written so often."""

from __future__ import annotations

import itertools

import pytest
from benchmarks.stand_in import Shape

from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake.batches import parse
from penstock.testing.fake.repeated import RepeatedLog, StoredBatch

TIMES = 5


@pytest.fixture
def logs() -> tuple[PartitionLog, RepeatedLog]:
    batch = Shape(records=3, value_bytes=20).stored()
    written = PartitionLog()
    for _ in range(TIMES):
        written.append(batch, leader_epoch=0)
    return written, RepeatedLog(StoredBatch(batch), TIMES)


def test_each_read_is_the_same(logs: tuple[PartitionLog, RepeatedLog]) -> None:
    written, repeated = logs
    assert repeated.end_offset == written.end_offset == 3 * TIMES
    assert repeated.size_bytes == written.size_bytes
    size = written.size_bytes // TIMES
    limits = (0, size - 1, size, 2 * size + 1, 100 * size)
    for offset, end, limit, takes_first in itertools.product(range(16), range(16), limits, (False, True)):
        expected = written.read(offset, end, limit, takes_first=takes_first)
        assert repeated.read(offset, end, limit, takes_first=takes_first) == expected


def test_each_copy_has_its_offsets_and_a_right_checksum(logs: tuple[PartitionLog, RepeatedLog]) -> None:
    copies = parse(bytes(logs[1].read(0, 15, 1 << 20, takes_first=True).data))
    assert copies is not None
    assert [(each.base_offset, each.last_offset) for each in copies] == [
        (at, at + 2) for at in range(0, 15, 3)
    ]


def test_two_reads_share_no_memory(logs: tuple[PartitionLog, RepeatedLog]) -> None:
    first = logs[1].read(0, 15, 1, takes_first=True).data
    before = bytes(first)
    logs[1].read(3, 15, 1, takes_first=True)
    assert first == before


def test_what_it_cannot_do_is_an_error(logs: tuple[PartitionLog, RepeatedLog]) -> None:
    log = logs[1]
    with pytest.raises(NotImplementedError, match="takes no other batch"):
        log.append(Shape().stored(), leader_epoch=0)
    with pytest.raises(NotImplementedError, match="cannot be looked up by time"):
        log.first_at_or_after(0, 15)
