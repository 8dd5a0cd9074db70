"""Judge a history that has ended: each input once, in order per key, nothing open for ever.

It looks at the logs themselves, and not through penstock's reader. "No honest history is refused for ever"
is judged where the history ends in peace.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from penstock.codec import BatchHeaders, RecordBatchDecoder
from penstock.testing.fake._log import PartitionLog
from tests.simulation.network import PARTITION_COUNT, TARGET, Network

_COMMIT = 1
_SHOWN = 5


class Violation(AssertionError):
    """A promise was broken."""


def check(network: Network, expected: Sequence[str]) -> None:
    """Raise Violation unless the target has exactly the expected values, in their order for each key."""
    found = [value for partition in range(PARTITION_COUNT) for value in committed(network, partition)]
    lost, doubled = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if lost or doubled:
        raise Violation(f"lost {_shown(lost)}, doubled or wrong {_shown(doubled)}")
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for value in found:
        key, number = value.split("/")
        by_key[key].append(int(number))
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


def _shown(counts: Counter[str]) -> list[str]:
    return sorted(counts.elements())[:_SHOWN]


def committed(network: Network, partition: int) -> list[str]:
    """Return the committed values of a target partition, in the order of their offsets."""
    with network.kafka.log(TARGET, partition) as log:
        return [value for _, value in sorted(_committed(log))]


def _committed(log: PartitionLog) -> Iterator[tuple[int, str]]:
    written: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for batch in log.batches:
        if not batch.is_control:
            written[batch.producer_id] += _values(batch.data, batch.base_offset, batch.last_offset + 1)
            continue
        values = written.pop(batch.producer_id, [])
        if next(BatchHeaders(batch.data, TARGET, 0)).control_type == _COMMIT:
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
