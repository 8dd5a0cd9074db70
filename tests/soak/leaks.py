"""Run 1,000 rounds of open-read-close and of open-write-close: `python -m tests.soak.leaks [--rounds 1000]`.

The rounds must not add threads, open files or memory to what the process has after the warm-up.
"""

from __future__ import annotations

import argparse
import itertools

from penstock.devbroker import DevCluster
from tests import judge
from tests.leak_task import TASKS, grown

_WARM_UP = 100
_MOST_MB = 8


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.leaks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    rounds = parser.parse_args().rounds
    with DevCluster() as cluster:
        for task, keeps in itertools.product(sorted(TASKS), (False, True)):
            if task == "write_once" and not keeps:
                continue  # a new driver in each round would read a decision log that grows with the rounds
            topic = f"leaks-{task.replace('_', '-')}-{'kept' if keeps else 'closed'}"
            judge.create_topic(cluster.bootstrap_servers, topic, partitions=2)
            judge.produce(cluster.bootstrap_servers, topic, *(judge.Record(b"%d" % n) for n in range(100)))
            found = grown(
                task,
                timeout_s=3_600,
                rounds=rounds,
                warm_up=_WARM_UP,
                keeps=keeps,
                bootstrap_servers=cluster.bootstrap_servers,
                topic=topic,
            )
            print(f"{rounds} rounds of {task}, {'kept open' if keeps else 'closed'}: {found}", flush=True)  # noqa: T201 - for people
            assert found.threads <= 0
            assert found.files <= 0
            assert found.memory_mb < _MOST_MB
            assert found.objects < rounds, "an object or more stays of each round"


if __name__ == "__main__":
    main()
