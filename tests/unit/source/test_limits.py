from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.source._limits import cap_bytes, share_records
from penstock.types import TopicPartition
from tests.unit.planning import tp

TOPIC_PARTITIONS = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 9))
BACKLOGS = st.dictionaries(TOPIC_PARTITIONS, st.integers(-5, 2**62), max_size=10)


@given(BACKLOGS, st.integers(1, 2**40))
def test_shares_never_pass_the_backlog_never_starve_and_barely_pass_the_limit(
    backlogs: dict[TopicPartition, int], max_records: int
) -> None:
    waiting = {key: backlog for key, backlog in backlogs.items() if backlog > 0}
    shares = share_records(backlogs, max_records)
    assert shares.keys() == waiting.keys()
    assert all(1 <= shares[key] <= waiting[key] for key in shares)
    assert sum(shares.values()) <= max(max_records, 0) + len(shares)


@given(BACKLOGS)
def test_without_a_limit_everything_is_taken(backlogs: dict[TopicPartition, int]) -> None:
    assert share_records(backlogs, None) == {key: value for key, value in backlogs.items() if value > 0}


@given(
    st.dictionaries(
        TOPIC_PARTITIONS,
        st.tuples(st.integers(0, 1000), st.integers(-2, 10_000), st.floats(0, 10_000)),
        max_size=8,
    ),
    st.integers(1, 10_000_000),
)
def test_ends_by_bytes_get_on_and_barely_pass_the_limit(
    logs: dict[TopicPartition, tuple[int, int, float]], max_bytes: int
) -> None:
    begin = {tp: at for tp, (at, _, _) in logs.items()}
    ends = {tp: at + backlog for tp, (at, backlog, _) in logs.items()}
    averages = {tp: average for tp, (_, _, average) in logs.items()}
    cut = cap_bytes(begin, ends, averages, max_bytes)
    assert cut.keys() == ends.keys()
    for key, end in ends.items():
        assert cut[key] == end if end <= begin[key] else begin[key] < cut[key] <= end
    read_bytes = sum((cut[key] - begin[key]) * averages[key] for key in ends if ends[key] > begin[key])
    one_each = sum(averages.values()) + len(averages)
    assert read_bytes <= max_bytes + one_each


def test_ends_by_bytes_are_pro_rata_by_bytes() -> None:
    begin, ends = {tp(0): 10, tp(1): 0, tp(2): 5}, {tp(0): 110, tp(1): 100, tp(2): 5}
    averages = {tp(0): 100.0, tp(1): 900.0}
    assert cap_bytes(begin, ends, averages, 10_000) == {tp(0): 20, tp(1): 10, tp(2): 5}
    assert cap_bytes(begin, ends, averages, 100_000) == ends
    assert cap_bytes(begin, ends, averages, 1) == {tp(0): 11, tp(1): 1, tp(2): 5}


def test_shares_are_pro_rata_as_sparks() -> None:
    shares = share_records({tp(0): 900, tp(1): 90, tp(2): 9, tp(3): 1, tp(4): 0}, 100)
    assert shares == {tp(0): 90, tp(1): 9, tp(2): 1, tp(3): 1}
