"""`python -m tests.faults --count 100 --seed 1`: faults on single requests, on real brokers.

    python -m tests.faults --count 100 [--brokers 3] [--protocol 1|2] [--kafka 3.9.1]
    python -m tests.faults --count 100 --continuous

The second one disturbs the task of a continuous query instead of the exactly-once sink. It prints a line each
PROGRESS_EVERY faults, and a table at the end, also if it fails or is interrupted. The exit status is 0 only
if each run was judged right.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from types import FrameType

from penstock.client.transactions.steps import TransactionProtocol
from penstock.devbroker import DevCluster
from penstock.devbroker.jars import KAFKA_VERSION
from tests.faults.continuous import CONTINUOUS_FAULTS, FaultyCopy
from tests.faults.run import FAULTS, FaultyRun, Tally, use_protocol
from tests.versions.environments import kafka_home

PROGRESS_EVERY = 10


def _table(tally: Tally) -> str:
    kinds = [each for each in CONTINUOUS_FAULTS if each in FAULTS or any(k == each for _, k in tally.faults)]
    apis = sorted({api for api, _ in tally.faults})
    lines = [f"| request | {' | '.join(kinds)} |", f"|---{'|---' * len(kinds)}|"]
    lines += [f"| {api} | {' | '.join(str(tally.faults[api, each]) for each in kinds)} |" for api in apis]
    return "\n".join(lines)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class _Progress:
    """Prints how far a run has come."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began_s = time.monotonic()

    def __call__(self, tally: Tally) -> None:
        if tally.batches % PROGRESS_EVERY == 0:
            _print(f"  {self._what}: {tally.batches} done after {time.monotonic() - self._began_s:.0f} s")


def _run(given: argparse.Namespace, protocol: TransactionProtocol) -> None:
    what = f"protocol {protocol.value}, Kafka {given.kafka}, {given.brokers} brokers, seed {given.seed}"
    kind = FaultyCopy if given.continuous else FaultyRun
    _print(f"{what}: begins")
    with kafka_home(given.kafka), DevCluster(given.brokers, start_timeout_s=300) as cluster:
        if not _is_before_4(given.kafka):
            use_protocol(cluster.bootstrap_servers, protocol)
        run = kind(cluster.bootstrap_servers, protocol, given.seed, f"faults-{given.seed}")
        run.on_batch = _Progress(what)
        judged = "NOT JUDGED"
        try:
            run.run(given.count)
            judged = "0 lost, 0 doubled, 0 open"
        except Exception:
            judged = "FAILED"
            raise
        finally:
            tally = run.tally
            faults = sum(tally.faults.values())
            _print(
                f"{what}: {tally.batches} of {given.count} done, {faults} faults, {judged}. "
                f"Starts that ended: {dict(sorted(tally.errors.items()))}\n{_table(tally)}"
            )


def _is_before_4(version: str) -> bool:
    return int(version.partition(".")[0]) < 4


def _end(number: int, _: FrameType | None) -> None:
    """End in order, so that brokers end and what is done is printed."""
    raise SystemExit(128 + number)


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--count", type=int, default=100, help="batches for each protocol, a fault in each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    parser.add_argument("--protocol", type=int, choices=(1, 2), help="only this transaction protocol")
    parser.add_argument("--kafka", default=KAFKA_VERSION, help="the version of the brokers")
    parser.add_argument("--continuous", action="store_true", help="the task of a continuous query")
    given = parser.parse_args()
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _end)
    if _is_before_4(given.kafka):
        given.protocol = 1  # the only one that it has
    for protocol in TransactionProtocol:
        if given.protocol in (None, protocol.value):
            _run(given, protocol)
    return 0


if __name__ == "__main__":
    sys.exit(main())
