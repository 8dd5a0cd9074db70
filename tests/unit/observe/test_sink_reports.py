"""The figures of a sink on their way to the source that shows them, over real sockets and files."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.produce.figures import ProduceFigures
from penstock.observe import sink_reports
from penstock.observe.sink_reports import SinkBoard, SinkEvent, announce, report
from penstock.observe.task_reports import Receiver
from penstock.options.config import DeliveryGuarantee, KafkaProperties, SinkConfig
from penstock.spark._sink_reports import SinkReporter
from tests.waiting import wait_until

PORT = 9250


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "metrics"
    monkeypatch.setattr(sink_reports, "_FOLDER", folder)
    return folder


@pytest.fixture
def board(folder: Path) -> Iterator[SinkBoard]:
    board = SinkBoard(lambda: 5_000)
    receiver = Receiver("127.0.0.1", board.take)
    announce(PORT, receiver.address)
    yield board
    receiver.close()


def reporter(port: int | None = PORT) -> SinkReporter:
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE
    return SinkReporter(SinkConfig(KafkaProperties(), "t", guarantee, metrics_port=port))


def test_batches_of_a_sink_are_added(board: SinkBoard) -> None:
    for _ in range(2):
        reporter().written(ProduceFigures(3, 10, 40, 2, 7, 1), tasks=4)
    wait_until(lambda: "t" in board.states() and board.states()["t"].batches == 2, "both batches")
    state = board.states()["t"]
    assert (state.guarantee, state.gauges, state.compression_ratio) == (
        "at-least-once",
        {"tasks": 4, "send_ms": 3, "open_transactions": 0, "oldest_opened_at_ms": 0},
        4,
    )
    assert state.totals == {
        "records": 6,
        "batch_bytes": 20,
        "plain_bytes": 80,
        "requests": 4,
        "request_ms": 14,
        "resends": 2,
        "replays": 0,
    }


def test_the_age_of_the_oldest_transaction_is_never_too_small(board: SinkBoard) -> None:
    reporter().begun(unfinished=0)
    wait_until(lambda: "t" in board.states(), "the begin of the batch")
    assert board.states()["t"].oldest_transaction_ms(5_700) == 700
    report(PORT, "t", "exactly-once", SinkEvent.PREPARED, {"oldest_opened_at_ms": 4_000})
    wait_until(lambda: "oldest_opened_at_ms" in board.states()["t"].gauges, "the tasks")
    assert board.states()["t"].oldest_transaction_ms(5_700) == 1_700
    reporter().failed()
    wait_until(lambda: board.states()["t"].failed == 1, "the failure")
    assert board.states()["t"].oldest_transaction_ms(9_000) == 0


def test_the_file_is_for_its_owner_alone(board: SinkBoard, folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / f"{PORT}.json").stat().st_mode) == 0o600
    folder.chmod(0o777)  # somebody else could have put the file there
    reporter().written(ProduceFigures(1), tasks=1)
    folder.chmod(0o700)
    reporter().written(ProduceFigures(2), tasks=1)
    wait_until(lambda: bool(board.states()), "the second report")
    assert board.states()["t"].totals["records"] == 2


def test_a_report_without_a_source_is_not_an_error(folder: Path) -> None:
    for port in (None, PORT):
        reporter(port).written(ProduceFigures(1), tasks=1)
    folder.mkdir(mode=0o700)
    (folder / f"{PORT}.json").write_text("[1]")
    reporter().written(ProduceFigures(1), tasks=1)


@given(
    st.dictionaries(
        st.sampled_from(["sink", "event", "guarantee", "values"]),
        st.none() | st.integers() | st.text() | st.just("written") | st.dictionaries(st.text(), st.text()),
    )
)
def test_no_message_is_an_error(message: dict[str, Any]) -> None:
    board = SinkBoard()
    board.take(message)
    for state in board.states().values():
        assert set(state.totals.values()) == {0}


def test_memory_is_bounded() -> None:
    board = SinkBoard()
    for number in range(200):
        board.take({"sink": str(number), "event": "written", "guarantee": "none", "values": {}})
    assert len(board.states()) == 50
