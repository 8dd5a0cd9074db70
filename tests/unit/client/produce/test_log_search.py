"""How a log is searched for batches in doubt: piece by piece, to its end, and never past an error."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.net.connection import PendingResponse
from penstock.client.produce._log_search import LogSearches
from penstock.client.produce.batches import ProducerBatch
from penstock.errors import AuthenticationError, BrokerUnavailableError, PenstockError, ProduceError
from penstock.types import TopicPartition
from tests.unit.client.produce.test_delivery import TP, Driver
from tests.unit.client.produce.test_search_pieces import OURS, batch

OnAnswer = Callable[[PendingResponse], None]


class Searcher:
    """A topic partition with two batches whose answers were lost, and the leader's side by hand."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.in_doubt = [self.driver.add(is_forgettable=True), self.driver.add()]
        self.driver.lose(*self.driver.send())
        self.driver.now_ms += 1_000
        self.asked: list[tuple[Any, int, OnAnswer]] = []
        self.refreshed: list[str] = []
        self.failures: list[PenstockError] = []
        self.searches = LogSearches(
            self.driver.delivery,
            OURS,
            now_ms=lambda: self.driver.now_ms,
            send=lambda request, node_id, on_answer: self.asked.append((request, node_id, on_answer)),
            refresh=self.refreshed.append,
            fail=self.failures.append,
        )
        self.start()

    def start(self) -> None:
        self.searches.start(self.driver.leaders.get)

    def answer(self, response: Any) -> None:
        [(_, node_id, on_answer)] = self.asked
        assert node_id == 1
        self.asked.clear()
        pending = PendingResponse("a question", 1_000)
        if isinstance(response, PenstockError):
            pending.fail(response)
        else:
            pending.succeed(response)
        on_answer(pending)

    @property
    def fetch_offset(self) -> int:
        [(request, _, _)] = self.asked
        offset: int = request.topics[0].partitions[0].fetch_offset
        return offset


def log_end(offset: int, error_code: int = 0) -> Any:
    return SimpleNamespace(
        topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=error_code, offset=offset)])]
    )


def records(data: bytes = b"", error_code: int = 0) -> Any:
    partition = SimpleNamespace(
        partition_index=TP.partition,
        error_code=error_code,
        records=data,
        aborted_transactions=None,
        high_watermark=0,
        last_stable_offset=0,
        log_start_offset=0,
        preferred_read_replica=-1,
        current_leader=None,
    )
    return SimpleNamespace(responses=[SimpleNamespace(partitions=[partition])])


def as_written(base_offset: int, found: ProducerBatch) -> bytes:
    return batch(base_offset, found.record_count, base_sequence=found.base_sequence)


def test_the_log_is_read_piece_by_piece_to_its_end() -> None:
    searcher = Searcher()
    searcher.answer(log_end(35))
    assert searcher.fetch_offset == 10
    searcher.answer(records(as_written(10, searcher.in_doubt[0])))
    assert searcher.fetch_offset == 20
    searcher.answer(records(batch(20, 5, base_sequence=0)))
    assert searcher.fetch_offset == 25
    searcher.answer(records(as_written(25, searcher.in_doubt[1])))
    assert not searcher.asked
    assert not searcher.failures
    assert searcher.driver.delivery.is_empty


def test_a_log_that_ends_where_we_were_holds_nothing_new() -> None:
    searcher = Searcher()
    searcher.answer(log_end(10))
    assert not searcher.asked
    [request] = searcher.driver.send()
    assert list(request.batches.values()) == searcher.in_doubt[:1]


def test_what_is_not_replicated_yet_is_awaited() -> None:
    searcher = Searcher()
    searcher.answer(log_end(20))
    searcher.answer(records())
    assert searcher.driver.send() == []
    searcher.start()
    assert not searcher.asked, "first a pause"
    searcher.driver.now_ms += 1_000
    searcher.start()
    searcher.answer(log_end(20))
    searcher.answer(records(as_written(10, searcher.in_doubt[0])))
    [request] = searcher.driver.send()
    assert list(request.batches.values()) == searcher.in_doubt[1:]


@pytest.mark.parametrize("answer", [log_end(-1, 6), log_end(-1, 78), BrokerUnavailableError("lost")])
def test_a_leader_that_cannot_tell_is_asked_again(answer: Any) -> None:
    searcher = Searcher()
    searcher.answer(answer)
    assert searcher.refreshed == ["t"]
    assert not searcher.failures
    searcher.driver.now_ms += 1_000
    searcher.start()
    assert len(searcher.asked) == 1
    searcher.start()
    assert len(searcher.asked) == 1, "one question at a time"


@pytest.mark.parametrize("answer", [records(error_code=6), SimpleNamespace(responses=[])])
def test_a_leader_that_moves_while_its_log_is_read_is_asked_again(answer: Any) -> None:
    searcher = Searcher()
    searcher.answer(log_end(20))
    searcher.answer(answer)
    assert searcher.refreshed == ["t"]
    assert not searcher.failures


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (records(error_code=1), "no longer holds records that were acknowledged"),
        (records(error_code=29), "TOPIC_AUTHORIZATION_FAILED; grant READ"),
        (AuthenticationError("wrong password"), "wrong password"),
    ],
)
def test_a_log_that_cannot_be_searched_leaves_it_undecided(answer: Any, words: str) -> None:
    searcher = Searcher()
    searcher.answer(log_end(20))
    searcher.answer(answer)
    [error] = searcher.failures
    assert isinstance(error, ProduceError)
    assert words in error.message
    assert "may or may not have been written" in error.message
    assert TopicPartition(error.facts["topic"], error.facts["partition"]) == TP


def test_a_later_batch_without_its_predecessor_is_a_loss() -> None:
    searcher = Searcher()
    searcher.answer(log_end(20))
    searcher.answer(records(as_written(10, searcher.in_doubt[1])))
    [error] = searcher.failures
    assert "10 records for t-0" in error.message
    assert "lost" in error.message


def test_a_topic_partition_without_leader_waits() -> None:
    searcher = Searcher()
    searcher.answer(BrokerUnavailableError("lost"))
    searcher.driver.now_ms += 1_000
    del searcher.driver.leaders[TP]
    searcher.start()
    assert not searcher.asked
