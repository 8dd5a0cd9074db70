"""Plant corruptions, and see that `penstock verify` finds each and invents none.

    python -m tests.corruptions --count 120 --seed 35 [--partitions 3]
    python -m tests.corruptions --count 1000 --seed 35 --tables

Runs in tests only, on the fake Kafka. Each history is run once without and once with a corruption, and once
with something missing that must not be called proven. With --tables the rows of tables are corrupted, and
`penstock table compare` has to name the keys.
"""

from __future__ import annotations

import argparse
from collections import Counter

from tests.corruptions import tables
from tests.corruptions.beside import HONEST, UNPROVABLE
from tests.corruptions.checks import corruption_failure, honest_failure, unprovable_failure
from tests.corruptions.planted import CORRUPTIONS
from tests.unit.virtual_time import client_waits_in_virtual_time


def main() -> None:
    """Plant many corruptions, and print how many were found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=120, help="of corruptions")
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--partitions", type=int, default=1, help="of source and target")
    parser.add_argument("--tables", action="store_true", help="rows of tables, not topics and receipts")
    given = parser.parse_args()
    lines, failures = _of_tables(given) if given.tables else _of_topics(given)
    lines.append(f"not found, or found elsewhere, or invented, or called proven: {len(failures)}")
    print("\n".join([*lines, *failures[:20]]))  # noqa: T201 - its output
    raise SystemExit(bool(failures))


def _of_tables(given: argparse.Namespace) -> tuple[list[str], list[str]]:
    names, failures = list(tables.CORRUPTIONS), list[str]()
    for seed in range(given.seed * 1_000_000, given.seed * 1_000_000 + given.count):
        pair = tables.failure(seed, names[seed % len(names)]), tables.failure(seed, None)
        failures += filter(None, pair)
    return [f"{given.count} corruptions of tables, {given.count} honest tables, seed {given.seed}"], failures


def _of_topics(given: argparse.Namespace) -> tuple[list[str], list[str]]:
    names, honest, unprovable = list(CORRUPTIONS), list(HONEST), list(UNPROVABLE)
    found, failures = Counter[str](), list[str]()
    with client_waits_in_virtual_time():
        for number in range(given.count):
            seed = given.seed * 1_000_000 + number
            name, event = names[number % len(names)], honest[number % len(honest)]
            missing = unprovable[number % len(unprovable)]
            failures += filter(
                None,
                [
                    corruption_failure(seed, name, given.partitions),
                    honest_failure(seed, event, given.partitions),
                    unprovable_failure(seed, missing, given.partitions),
                ],
            )
            found[name] += 1
    lines = [f"{name:<22} {found[name]:>6} planted" for name in names]
    lines.append(
        f"{given.count} corruptions, {given.count} honest histories, {given.count} that are not provable, "
        f"{given.partitions} topic partitions, seed {given.seed}"
    )
    return lines, failures


if __name__ == "__main__":
    main()
