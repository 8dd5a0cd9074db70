"""The progress bar of batch reads, on the datagrams that planning and tasks send."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import penstock
from penstock.errors import UnsupportedOptionError
from penstock.observe import task_reports
from penstock.observe.bar import _BatchReads
from penstock.observe.task_reports import ReportAddress, tell_plan
from penstock.options.parse import parse_read
from penstock.source.splits import Split, SplitRange
from penstock.spark import splits
from penstock.spark.splits import SplitPartition
from penstock.types import OffsetRange, TopicPartition

OPTIONS = {"properties.bootstrap.servers": "b:9092", "topic": "t"}


class Rows:
    columns = frozenset({"value"})

    def outcomes(self) -> dict[str, int]:
        return {}


def read(address: ReportAddress, sizes: list[int], *, limit: int | None = None) -> None:
    """Do what a task does: a range of 10 offsets, with fewer records."""
    split = Split((SplitRange(OffsetRange(TopicPartition("t", 0), 0, 10)),))
    batches: Iterator[Any] = (pa.record_batch({"value": pa.array([b"v"] * size)}) for size in sizes)
    made: Any = splits._counted(batches, SplitPartition(split, address), address, Rows())  # type: ignore[arg-type]
    for _ in range(len(sizes) if limit is None else limit):
        next(made)
    if limit is None:
        assert next(made, None) is None
    made.close()


def shown(reads: list[tuple[list[int], int | None]]) -> str:
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=True)
    with penstock.batch_progress(console=console) as watched:
        given = parse_read({**OPTIONS, **watched}, streaming=False).source.progress_to
        assert given is not None
        address = ReportAddress(*given)
        for sizes, limit in reads:
            tell_plan(address, 10)
            read(address, sizes, limit=limit)
    return output.getvalue()


def test_records_of_all_reads_are_counted() -> None:
    assert "20 of 20 records" in shown([([4, 6], None), ([10], None)])


def test_gaps_count_when_the_task_has_ended() -> None:
    assert "10 of 10 records" in shown([([4, 2], None)])


def test_reports_that_are_read_late_count(monkeypatch: pytest.MonkeyPatch) -> None:
    read_at_once, is_late = task_reports._read, threading.Event()

    def late(datagram: bytes, token: str) -> Any:
        if not is_late.is_set():
            is_late.set()
            threading.Event().wait(0.3)  # as on a busy machine
        return read_at_once(datagram, token)

    monkeypatch.setattr(task_reports, "_read", late)
    assert "10 of 10 records" in shown([([4, 2], None)])


def test_a_read_that_is_ended_early_is_not_whole() -> None:
    assert "4 of 10 records" in shown([([4, 6], 1)])


def test_without_a_read_nothing_is_counted() -> None:
    assert "0 records" in shown([])


def test_an_error_of_the_block_is_not_hidden() -> None:
    with pytest.raises(KeyError), penstock.batch_progress(console=Console(file=io.StringIO())):
        raise KeyError("of the user")


def test_messages_of_others_are_ignored() -> None:
    reads = _BatchReads("127.0.0.1")
    with closing(reads.receiver):
        for offsets in (None, -1, "7", 1.5, True):
            reads.take_plan({"planned": offsets})
        assert reads.passed() == (0, None)
    tell_plan(ReportAddress("256.0.0.1", 9, "t"), 5)  # no such host


def test_streams_have_another_bar() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"call penstock.progress\(query\)"):
        parse_read({**OPTIONS, "progress.report-to": "127.0.0.1:1:t"}, streaming=True)
