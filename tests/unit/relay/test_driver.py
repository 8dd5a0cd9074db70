"""The plans of a continuous query on the fake Kafka, and what its driver notices while one runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.errors import OffsetOutOfRangeError
from penstock.testing.fake._groups import CommittedOffset
from tests.unit.relay.fake_query import GROUP, SOURCE, Query, query_on_fake


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    with query_on_fake(monkeypatch) as made:
        yield made


def commit(query: Query, offset: int) -> None:
    """Change the group's offset of the first topic partition, as if the group had no member for a moment."""
    query.fake._state.groups.of(GROUP).offsets[SOURCE, 0] = CommittedOffset(offset)


def test_a_plan_after_offsets_were_set_back_is_an_error(query: Query) -> None:
    """A new plan would take the lower offset for that of the group, and write records a second time."""
    with query.planning() as driver:
        driver.new_plan(None)
        commit(query, 20)
        driver.offsets()  # the supervisor looks each second
        commit(query, 3)
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 20 of source-0 .* got 3"):
            driver.new_plan(None)
        commit(query, 20)
        assert 20 in driver.new_plan(None).positions.values()
