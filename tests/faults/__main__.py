"""`python -m tests.faults --count 100 --seed 1`: faults on single requests of the sink, on real brokers."""

from __future__ import annotations

import argparse
import sys

from penstock.client.transactions.steps import TransactionProtocol
from penstock.devbroker import DevCluster
from tests.faults.run import FAULTS, FaultyRun, Tally, use_protocol


def _table(tally: Tally) -> str:
    apis = sorted({api for api, _ in tally.faults})
    lines = [f"| request | {' | '.join(FAULTS)} |", f"|---{'|---' * len(FAULTS)}|"]
    lines += [f"| {api} | {' | '.join(str(tally.faults[api, each]) for each in FAULTS)} |" for api in apis]
    return "\n".join(lines)


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--count", type=int, default=100, help="batches for each protocol, a fault in each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    parser.add_argument("--protocol", type=int, choices=(1, 2), help="only this transaction protocol")
    given = parser.parse_args()
    for protocol in TransactionProtocol:
        if given.protocol not in (None, protocol.value):
            continue
        with DevCluster(given.brokers, start_timeout_s=300) as cluster:
            use_protocol(cluster.bootstrap_servers, protocol)
            run = FaultyRun(cluster.bootstrap_servers, protocol, given.seed, f"faults-{given.seed}")
            tally = run.run(given.count)
        sys.stdout.write(
            f"protocol {protocol.value}, {given.brokers} brokers, seed {given.seed}: {tally.batches} "
            f"batches, {sum(tally.faults.values())} faults, 0 lost, 0 doubled, 0 open. "
            f"Starts that ended with an error: {dict(sorted(tally.errors.items()))}\n{_table(tally)}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
