"""Latency of a continuous query while its producer ids wear out, beside the same load while they do not.

A transaction of protocol V2 takes one of the 32,767 epochs of a producer id, so an id lasts for minutes. Here
each round with rotation begins with ids that have a late epoch (`tests.worn_ids.wear_by_requests`). The
epochs run out in the middle of what is measured. A round without rotation begins with early epochs, after as
many requests for other ids. Rounds of both kinds take turns. The first one is without rotation, and tells how
many epochs a round takes. A round with rotation in which an id did not rotate is left out, and another one
takes its turn. Invariant: a figure counts only if each id rotated in each round with rotation, and no id
rotated in the others.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tests import worn_ids

from benchmarks import continuous_beside as beside
from benchmarks.latency import PARTITIONS, measure
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol, Transactions

_LAST_EPOCH, _LATE, _EARLY_EPOCH = 32_766, 31_000, 1
"""A producer that has the last epoch gets another producer id at the end of its transaction."""
_TIMEOUT_MS = 60_000


def compared(
    scene: beside.Scene, system: beside.System, load: Mapping[str, Any], rounds: int
) -> list[dict[str, Any]]:
    """Return the latencies with rotation and without.

    Args:
        scene: what all systems use.
        system: a continuous query.
        load: rate, seconds and warm_up_s of `measure`.
        rounds: of each kind.
    """
    early: list[dict[str, Any]] = []
    worn: list[dict[str, Any]] = []
    settings = ConnectionSettings(tuple(scene.bootstrap.split(",")), "rotation")
    connections = KafkaConnections(settings)
    try:
        for _ in range(2 * rounds):
            early.append(_round(scene, connections, system, load, _EARLY_EPOCH))
            late = late_epoch(early[-1]["first_epoch"], early[-1]["last_epoch"])
            tried = _round(scene, connections, system, load, late)
            worn += [tried] if tried["rotations"] == PARTITIONS else []
            if len(worn) == rounds:
                break
    finally:
        connections.close()
    lines = [summary(worn), summary(early)]
    counts = [each["rotations"] for each in lines]
    assert counts == [rounds * PARTITIONS, 0], f"ids rotated {counts[0]} times with and {counts[1]} without"
    return lines


def late_epoch(first: int, last: int) -> int:
    """Return the epoch with which an id is worn out in the middle of what is measured.

    Args:
        first: the epoch of an id when the measurement began, in a round that began with `_EARLY_EPOCH`.
        last: its epoch at the end of that.
    """
    return _LAST_EPOCH - ((first + last) // 2 - _EARLY_EPOCH)


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of each percentile over the rounds, the highest maximum, and all rotations."""
    medians = {name: statistics.median(each[name] for each in rounds) for name in ("p50", "p95", "p99")}
    highest = max(each["max"] for each in rounds)
    sums = {name: sum(each[name] for each in rounds) for name in ("records", "rotations")}
    return {**sums, **medians, "max": highest}


def rotated(before: Mapping[str, TransactionIdentity], after: Mapping[str, TransactionIdentity]) -> int:
    """Return how many transactional ids have another producer id."""
    return sum(after[name].producer_id != each.producer_id for name, each in before.items())


def _round(
    scene: beside.Scene,
    connections: KafkaConnections,
    system: beside.System,
    load: Mapping[str, Any],
    epoch: int,
) -> dict[str, Any]:
    names: list[str] = []

    def wear(source: str) -> None:
        """Give the ids of the query's tasks an epoch before it takes them."""
        names.extend(f"{source}-continuous-{task}-0" for task in range(PARTITIONS))
        others = [f"{name}-other" for name in names]
        _take(connections, [*names, *others])
        worn_ids.wear_by_requests(connections, dict.fromkeys(names, epoch))
        if epoch == _EARLY_EPOCH:
            worn_ids.wear_by_requests(connections, dict.fromkeys(others, _LATE))

    seen: list[dict[str, TransactionIdentity]] = []
    with beside.copying(scene, system, prepare=wear) as topics:
        figures = measure(
            scene.bootstrap,
            *topics,
            **load,
            at_edges=lambda: seen.append(worn_ids.identities(connections, names)),
        )
    first, last = seen
    epochs = {
        name: min(each.producer_epoch for each in identities.values())
        for name, identities in (("first_epoch", first), ("last_epoch", last))
    }
    return {**figures, **epochs, "rotations": rotated(first, last)}


def _take(connections: KafkaConnections, names: Sequence[str]) -> None:
    transactions = Transactions(connections)
    for name in names:
        transactions.init_producer(
            name,
            transaction_timeout_ms=_TIMEOUT_MS,
            protocol=TransactionProtocol.V2,
            timeout_ms=_TIMEOUT_MS,
        )
