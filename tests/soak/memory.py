"""Measure the peak memory of a task's process with 1 GB to read or to write: `python -m tests.soak.memory`.

    python -m tests.soak.memory [--gigabytes 1.0] [--only TEXT]

The limit is 300 MB, both for reading a backlog in one partition and for writing to a slow broker.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from functools import partial

from penstock.devbroker import DevCluster
from tests import judge
from tests.memory_task import PROMISED_MB, Measured, measure

_TASK_TIMEOUT_S = 900


@dataclass(frozen=True)
class Case:
    """Values of one size and kind; `options` are for the writer, which fills the topic of a read, too.

    With `fields` the read is one of JSON, into these columns.
    """

    name: str
    value_bytes: int
    kind: str
    options: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] | None = None


_LARGE = {"kafka.max.request.size": "2000000"}
CASES = [
    Case("100 B of text, lz4", 100, "text", {"kafka.compression.type": "lz4"}),
    Case(
        "100 B of JSON, lz4", 100, "json", {"kafka.compression.type": "lz4"}, {"id": "long", "name": "string"}
    ),
    Case("1 kB random, uncompressed", 1_000, "random"),
    Case("1 MB random, uncompressed", 1_000_000, "random", _LARGE),
    Case("1 MB of zeros, zstd", 1_000_000, "zeros", {"kafka.compression.type": "zstd", **_LARGE}),
    Case(
        "1 kB of zeros, zstd in batches of 16 MB",
        1_000,
        "zeros",
        {"kafka.compression.type": "zstd", "kafka.batch.size": str(16 << 20)},
    ),
    Case(
        "1 kB of zeros, zstd in batches of 64 MB",
        1_000,
        "zeros",
        {"kafka.compression.type": "zstd", "kafka.batch.size": str(64 << 20)},
    ),
]
_SLOW_BYTES_PER_SECOND = 40e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.memory", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    total_bytes = int(arguments.gigabytes * 1e9)
    too_much = []
    with DevCluster() as cluster:
        for case in (case for case in CASES if arguments.only in case.name):
            for what, measured in runs(cluster.bootstrap_servers, case, total_bytes):
                print(f"{what} {case.name}: {measured}", flush=True)  # noqa: T201 - a program for people
                if measured.peak_mb > PROMISED_MB:
                    too_much.append(f"{what} {case.name}")
    assert not too_much, too_much


def runs(bootstrap_servers: str, case: Case, total_bytes: int) -> list[tuple[str, Measured]]:
    """Write at full speed, write to a slow broker, read."""
    number = CASES.index(case)
    topics = {what: f"memory-{what}-{number}" for what in ("fast", "slow")}
    for topic in topics.values():
        judge.create_topic(bootstrap_servers, topic, config={"max.message.bytes": str(4 << 20)})
    write = partial(
        measure,
        "write",
        timeout_s=_TASK_TIMEOUT_S,
        bootstrap_servers=bootstrap_servers,
        value_bytes=case.value_bytes,
        kind=case.kind,
        total_bytes=total_bytes,
        options=case.options,
    )
    written = write(topic=topics["fast"])
    slow = write(topic=topics["slow"], bytes_per_second=_SLOW_BYTES_PER_SECOND)
    judge.delete_topic(bootstrap_servers, topics["slow"])
    read = measure(
        "read",
        timeout_s=_TASK_TIMEOUT_S,
        bootstrap_servers=bootstrap_servers,
        topic=topics["fast"],
        count=written.row_count,
        options={"format": "json"} if case.fields else None,
        fields=case.fields,
    )
    assert read.row_count == written.row_count
    judge.delete_topic(bootstrap_servers, topics["fast"])
    return [("write", written), ("write slowly", slow), ("read", read)]


if __name__ == "__main__":
    main()
