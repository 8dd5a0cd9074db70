"""Judge a history: what is done is committed. At the end each input once, in order per key, nothing open.

It looks at the logs themselves, and not through penstock's reader. "No honest history is refused for ever"
is judged where the history ends in peace.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from penstock.codec import BatchHeaders, RecordBatchDecoder
from penstock.testing.fake._log import PartitionLog
from tests.simulation.network import PARTITION_COUNT, TARGET, Network

_COMMIT = 1
_SHOWN = 5


class Violation(AssertionError):
    """A promise was broken."""


def check(network: Network, expected: Sequence[str], whole_or_absent: Sequence[Sequence[str]] = ()) -> None:
    """Raise Violation unless the target has exactly the expected values, in their order for each key.

    Args:
        network: has the cluster.
        expected: the values that have to be there once.
        whole_or_absent: of each of these batches all values are there once, or none.
    """
    found = _all_committed(network)
    expected = [*expected, *(value for batch in whole_or_absent if {*batch} & {*found} for value in batch)]
    lost, doubled = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if lost or doubled:
        raise Violation(f"lost {_shown(lost)}, doubled or wrong {_shown(doubled)}")
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for value in found:
        key, number = value.split("/")
        by_key[key].append(int(number.rstrip("~")))
    for key, numbers in by_key.items():
        if numbers != sorted(numbers):
            raise Violation(f"key {key} is out of order: {numbers}")
    if open_ids := network.open_ids():
        raise Violation(f"open for ever: {open_ids}")
    for topic in network.kafka._state.topics.values():
        for partition in topic.partitions:
            log = partition.log
            if log.last_stable_offset != log.high_watermark:
                raise Violation(f"readers of {topic.name}-{partition.index} wait for ever")


def check_done(network: Network, batch_id: int, expected: Sequence[str]) -> None:
    """Raise Violation unless all values of the batches until now are committed: Spark counts them as written.

    A transaction of somebody else may still hold readers back. This one is ended or about to be.
    """
    not_yet = Counter(expected) - Counter(_all_committed(network, is_decided=network.is_committing))
    if not_yet:
        raise Violation(f"batch {batch_id} is done, but {_shown(not_yet)} are not committed")


def _all_committed(network: Network, is_decided: Callable[[int], bool] = lambda _: False) -> list[str]:
    return [
        value for partition in range(PARTITION_COUNT) for value in committed(network, partition, is_decided)
    ]


def visible_producers(network: Network) -> set[tuple[int, int]]:
    """Return producer id and epoch of the committed transactions that have records in the target."""
    found: set[tuple[int, int]] = set()
    for partition in range(PARTITION_COUNT):
        written: defaultdict[int, set[int]] = defaultdict(set)
        with network.kafka.log(TARGET, partition) as log:
            batches = list(log.batches)
        for batch in batches:
            if not batch.is_control:
                written[batch.producer_id].add(batch.producer_epoch)
            elif next(BatchHeaders(batch.data, TARGET, 0)).control_type == _COMMIT:
                found |= {(batch.producer_id, epoch) for epoch in written.pop(batch.producer_id, ())}
            else:
                written.pop(batch.producer_id, None)
    return found


def _shown(counts: Counter[str]) -> list[str]:
    return sorted(counts.elements())[:_SHOWN]


def committed(
    network: Network, partition: int, is_decided: Callable[[int], bool] = lambda _: False
) -> list[str]:
    """Return the values that a partition of the target gives to readers, in the order of their offsets.

    Args:
        network: has the cluster.
        partition: of the target.
        is_decided: whether a producer's open transaction is committed, and only its markers are missing.
    """
    with network.kafka.log(TARGET, partition) as log:
        return [value for _, value in sorted(_committed(log, is_decided))]


def _committed(log: PartitionLog, is_decided: Callable[[int], bool]) -> Iterator[tuple[int, str]]:
    written: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for batch in log.batches:
        if batch.is_control:
            values = written.pop(batch.producer_id, [])
            if next(BatchHeaders(batch.data, TARGET, 0)).control_type == _COMMIT:
                yield from values
            continue
        values = _values(batch.data, batch.base_offset, batch.last_offset + 1)
        if batch.is_transactional:
            written[batch.producer_id] += values
        else:
            yield from values  # every reader sees it, whatever becomes of any transaction
    for producer_id, values in written.items():
        if is_decided(producer_id):
            yield from values


def _values(data: bytes, first: int, end: int) -> list[tuple[int, str]]:
    decoder = RecordBatchDecoder(
        TARGET, 0, starting_offset=first, stopping_offset=end, columns=["offset", "value"]
    )
    batches = [*decoder.decode(data), decoder.flush()]
    return [
        (offset, value.decode())
        for rows in batches
        if rows is not None
        for offset, value in zip(rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True)
    ]
