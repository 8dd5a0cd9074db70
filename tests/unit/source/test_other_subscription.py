"""A query whose checkpoint has topics that it does not subscribe to is told so."""

from __future__ import annotations

import pytest

from penstock.options.config import TopicList
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from tests.unit.planning import source_config, tp
from tests.unit.source_cluster import Log, SourceCluster

OTHER = "None of the topics of this checkpoint is subscribed now. If this is another query, stop it"


@pytest.mark.parametrize("is_all", [False, True])
def test_topics_that_are_left_are_named(caplog: pytest.LogCaptureFixture, *, is_all: bool) -> None:
    cluster = SourceCluster({tp(0, each): Log(0, 10) for each in ("orders", "pay", "pay-eu")})
    config = source_config(TopicList(("orders",) if is_all else ("orders", "pay-eu")))
    start = SourceOffset({tp(0, "pay"): 4, tp(0, "pay-eu"): 4})
    end = SplitEnumerator(config, cluster.lookup).latest_offset(start, None)
    assert end.positions[tp(0, "orders")] == 10
    assert "Not subscribed any more, so not read from now on: pay-0" in caplog.text
    assert (OTHER in caplog.text) == is_all
