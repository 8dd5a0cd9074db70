"""How the cluster is asked: each end once, and no second time what does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from penstock.client.cluster.results import Results
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.holders import OpenTransaction
from penstock.errors import BrokerUnavailableError, PenstockError
from penstock.observe import look as look_module
from penstock.observe.look import Observer
from penstock.options.config import IsolationLevel, KafkaProperties, SourceConfig, TopicList
from penstock.types import LogEnd, TopicPartition

HERE, SILENT = TopicPartition("t", 0), TopicPartition("t", 1)
LISTED = {
    (LogEnd.EARLIEST, IsolationLevel.READ_UNCOMMITTED): 2,
    (LogEnd.LATEST, IsolationLevel.READ_COMMITTED): 7,
    (LogEnd.LATEST, IsolationLevel.READ_UNCOMMITTED): 9,
}


@pytest.mark.parametrize(
    ("answer", "stable"),
    [
        ({}, 7),  # the broker does not tell
        ({HERE: None}, 9),  # the log grew between the two questions
        ({HERE: OpenTransaction(4, 7, "billing", 1_000)}, 7),
        ({HERE: OpenTransaction(4, 8, "billing", 1_000)}, 8),
        ({HERE: OpenTransaction(4, 99, "billing", 1_000)}, 9),
    ],
)
def test_a_last_stable_offset_that_is_too_old_blocks_no_reader(
    monkeypatch: pytest.MonkeyPatch, answer: dict[TopicPartition, OpenTransaction | None], stable: int
) -> None:
    def list_offsets_each(
        _: object, wanted: Mapping[TopicPartition, LogEnd], isolation: IsolationLevel, *, timeout_ms: int
    ) -> Results[TopicPartition, int]:
        return Results({tp: LISTED[end, isolation] for tp, end in wanted.items()}, {})

    monkeypatch.setattr(look_module, "list_offsets_each", list_offsets_each)
    monkeypatch.setattr(look_module, "first_open_transactions", lambda *_, **__: answer)
    config = SourceConfig(KafkaProperties((("bootstrap.servers", "fake:1"),)), TopicList(()))
    observer = Observer(cast("KafkaConnections", None), config, 3_000)
    look = observer.look({HERE: 7}, with_times=False).partitions[HERE]
    assert look.last_stable == stable
    assert look.is_kept_back == (stable == 7)
    assert (look.holder is None) == (answer.get(HERE) is None)


def test_a_topic_partition_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[TopicPartition] = []

    def list_offsets_each(
        _: object, wanted: Mapping[TopicPartition, LogEnd], isolation: IsolationLevel, *, timeout_ms: int
    ) -> Results[TopicPartition, int]:
        assert timeout_ms == 3_000
        asked.extend(wanted)
        values = {tp: LISTED[end, isolation] for tp, end in wanted.items() if tp != SILENT}
        errors: dict[TopicPartition, PenstockError] = {
            tp: BrokerUnavailableError("no leader") for tp in wanted if tp == SILENT
        }
        return Results(values, errors)

    def first_open_transactions(
        _: object, held: list[TopicPartition], *, timeout_ms: int
    ) -> dict[TopicPartition, OpenTransaction]:
        assert timeout_ms == 3_000
        return {tp: OpenTransaction(4, 7, "billing", 1_000) for tp in held}

    monkeypatch.setattr(look_module, "list_offsets_each", list_offsets_each)
    monkeypatch.setattr(look_module, "first_open_transactions", first_open_transactions)
    config = SourceConfig(KafkaProperties((("bootstrap.servers", "fake:1"),)), TopicList(()))
    observer = Observer(cast("KafkaConnections", None), config, 3_000)
    found = observer.look({HERE: 5, SILENT: 5}, with_times=False)
    assert sorted(asked) == [HERE, HERE, HERE, SILENT]
    assert list(found.errors) == [SILENT]
    look = found.partitions[HERE]
    assert (look.position, look.log_start, look.last_stable, look.high_watermark) == (5, 2, 7, 9)
    assert look.holder is not None
    assert (look.holder.transactional_id, look.holder.topic_partition) == ("billing", HERE)
