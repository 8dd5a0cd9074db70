"""Run tasks of continuous queries through days of virtual time, and judge each hour.

    python -m tests.soak.virtual --days 7 --seed 1

The loop of a task is pure, so its time may be anything. One history is an hour: tasks are killed, stand still
or are slow, requests and answers are lost, late and doubled, plans change, and producer ids wear out.
Protocols and numbers of lanes take turns. At the end of each hour every record has to be committed once and
in order, and no transaction may be open. Prints a line of JSON for each way. A history that goes wrong ends
the run, with its seed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections import Counter, defaultdict
from typing import Any

from penstock.client.transactions.steps import TransactionProtocol
from penstock.options.config import DeliveryGuarantee
from tests.unit.relay.simulation import Faults, Simulation

HOUR_MS = 3_600_000
WAYS = tuple(itertools.product(TransactionProtocol, (1, 2, 3)))
_CALLS_MS = ((0,), (0, 1, 5), (0, 20, 300))
_LONGER_THAN_A_TRANSACTION_MS = (2_000,)
_LAST_EPOCHS = (5, 100, 32_766)
_LONG_POLL_MS = 500


def history(seed: int, protocol: TransactionProtocol, lanes: int, duration_ms: int) -> Simulation:
    """Return a history that went well. Raises AssertionError if it did not."""
    chance = random.Random(seed)
    records_pause_ms = chance.choice([1_000, 5_000, 60_000])
    call_ms: tuple[int, ...] = chance.choice(_CALLS_MS)
    if records_pause_ms > max(_LONGER_THAN_A_TRANSACTION_MS) * 10:  # with less time, tasks fall behind
        call_ms += _LONGER_THAN_A_TRANSACTION_MS
    simulation = Simulation(
        seed,
        protocol=protocol,
        lanes=lanes,
        tasks=chance.randint(1, 3),
        faults=Faults(
            lost=chance.choice([0.0, 0.001, 0.01]),
            doubled=0.01,
            slow=0.01,
            refused=chance.choice([0.0, 0.01, 0.1]),
            kills_a_second=1 / chance.choice([10, 60, 600]),
            plans_a_second=1 / 60,
        ),
        call_ms=call_ms,
        guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        last_epoch=chance.choice(_LAST_EPOCHS),
        records_pause_ms=records_pause_ms,
        long_poll_ms=_LONG_POLL_MS,
    )
    try:
        return simulation.run(duration_ms)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, protocol {protocol.name}, {lanes} lanes: {error}") from error


def counts(simulation: Simulation) -> Counter[str]:
    """Return what happened in a history."""
    return Counter(
        records=sum(simulation.kafka.source.values()),
        transactions=sum(task.loop.totals.transactions for task in simulation.tasks),
        kills=simulation.kills,
        plans=simulation.kafka.generation,
        starts=sum(task.loop.start_count for task in simulation.tasks),
        other_producer_ids=simulation.kafka.rotations,
    )


def run(hours: int, seed: int, duration_ms: int = HOUR_MS) -> dict[str, Counter[str]]:
    """Run so many histories, in all ways in turn. Return what happened, for each way."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for number, (protocol, lanes) in zip(range(hours), itertools.cycle(WAYS), strict=False):
        one = counts(history(seed + number, protocol, lanes, duration_ms))
        found[f"protocol {protocol.name}, lanes {lanes}"] += one + Counter(hours=1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.virtual",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--seed", type=int, default=1, help="of the first hour; each hour has the next one")
    given = parser.parse_args()
    began_s = time.process_time()
    found = run(round(given.days * 24), given.seed)
    total: Counter[str] = sum(found.values(), Counter())
    lines: dict[str, Any] = {**found, "all": {**total, "cpu_s": round(time.process_time() - began_s)}}
    for way, happened in lines.items():
        sys.stdout.write(json.dumps({"way": way, **happened}) + "\n")


if __name__ == "__main__":
    main()
