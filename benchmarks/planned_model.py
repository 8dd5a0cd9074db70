"""Plan 100,000 topic partitions of 100 brokers, which a stand-in plays: `python -m benchmarks.planned_model`.

The stand-in is a process of its own: penstock's fake Kafka (`penstock.testing`) with real sockets, 100
brokers and 100 topics of 1,000 partitions. It answers Metadata, ListOffsets and all the rest with the real
bytes. The planner is a fresh process as well, which makes the calls that Spark makes for a stream. So its
memory is that of a driver's planning process. The seconds have the time of the stand-in in them, which
answers one request after the other in Python: it takes longer for that than brokers do. `cpu_s` is the
processor time of the planner alone, `stand_in_cpu_s` that of the stand-in meanwhile.

- `start`: the first offsets (`initialOffset`).
- `first batch`: all records from there on. `idle`: nothing is new. `batch`: one new record batch in each
  topic partition. The interval of discovery is 1 ms, so each asks for new topic partitions too.

The goal is less than 20 s and 1 GB for a batch of 100,000 topic partitions. It counts the seconds without the
processor time of the stand-in, which answers from one thread at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock.client.net.connection import KafkaConnections
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema
from penstock.testing import FakeKafka
from penstock.testing.fake.batches import Batch

TOPIC = "bench-model"
RECORDS = 3
GOAL_S, GOAL_MB = 20.0, 1_000.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1_000, help="of each topic")
    parser.add_argument("--part", choices=["stand-in", "planner"], help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "stand-in":
        stand_in(given.brokers, given.topics, given.partitions)
    elif given.part == "planner":
        planner(given.servers)
    else:
        found = measure(given.brokers, given.topics, given.partitions)
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        steps = found["steps"].values()
        worst_s = max(each["seconds"] - each["stand_in_cpu_s"] for each in steps)
        assert worst_s < GOAL_S, "planning is too slow"
        assert found["peak_mb"] < GOAL_MB, "planning takes too much memory"


# ----- the stand-in


def stand_in(brokers: int, topics: int, partitions: int) -> None:
    """Serve until stdin ends. Each line of stdin writes a record batch into each topic partition."""
    data = _records()
    names = [f"{TOPIC}-{number}" for number in range(topics)]
    with FakeKafka(brokers) as kafka:
        for name in names:
            kafka.create_topic(name, partitions)
        _append(kafka, names, partitions, data)
        sys.stdout.write(kafka.bootstrap_servers + "\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            _append(kafka, names, partitions, data)
            sys.stdout.write("written\n")
            sys.stdout.flush()


def _records() -> bytes:
    builder = RecordBatchBuilder(TOPIC, 0, max_record_bytes=1 << 20)
    rows = pa.record_batch({"value": pa.array([b"x"] * RECORDS, pa.binary())})
    indices = pa.array(range(RECORDS), pa.int32())
    builder.append(RecordColumns(rows), indices, default_timestamp_ms=time.time_ns() // 1_000_000)
    return builder.build()


def _append(kafka: FakeKafka, names: list[str], partitions: int, data: bytes) -> None:
    """Write the same stored batch into each topic partition, under its next offsets."""
    stored = Batch.of(data)
    for name in names:
        for index in range(partitions):
            with kafka.log(name, index) as log:
                log.append(stored, leader_epoch=0)


# ----- the planner


def planner(servers: str) -> None:
    """Plan as Spark's driver does. Between two batches it prints what it found, and waits for a line."""
    requests: Counter[str] = Counter()
    send: Callable[..., Any] = KafkaConnections.send

    def counted(connections: KafkaConnections, request: Any, *arguments: Any, **named: Any) -> Any:
        requests[type(request).__name__.removesuffix("Request")] += 1
        return send(connections, request, *arguments, **named)

    with patch.object(KafkaConnections, "send", counted):
        _plan(servers, requests)


def _plan(servers: str, requests: Counter[str]) -> None:
    options = {
        "properties.bootstrap.servers": servers,
        "topic-pattern": f"{TOPIC}-.*",
        "scan.startup.mode": "earliest-offset",
        "scan.topic-partition-discovery.interval": "1 ms",
    }
    before_mb = _peak_mb()
    reader: Any = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    end = _step("start", requests, reader.initialOffset, lambda found: {"bytes": len(json.dumps(found))})
    for name in ("first batch", "idle", "batch"):
        if name == "batch":
            sys.stdout.write("write\n")
            sys.stdout.flush()
            sys.stdin.readline()
        start, splits = end, list[Any]()

        def plan(start: Any = start, splits: list[Any] = splits) -> Any:
            found = reader.latestOffset(start, reader.getDefaultReadLimit())
            if found != start:
                splits += reader.partitions(start, found)
            return found

        def told(found: Any, splits: list[Any] = splits) -> dict[str, Any]:
            return {"splits": len(splits), "bytes": len(json.dumps(found))}

        end = _step(name, requests, plan, told)
    reader.stop()
    _tell({"peak_mb": round(_peak_mb()), "before_mb": round(before_mb)})


def _step(name: str, requests: Counter[str], run: Callable[[], Any], more: Callable[[Any], Any]) -> Any:
    requests.clear()
    began, cpu_began = time.perf_counter(), time.process_time()
    found = run()
    taken = {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_s": round(time.process_time() - cpu_began, 2),
    }
    _tell({"step": name, **taken, "requests": dict(requests), **more(found)})
    return found


def _tell(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


# ----- both


def measure(brokers: int, topics: int, partitions: int) -> dict[str, Any]:
    """Let a planner plan the topic partitions of a stand-in."""
    sizes = [f"--brokers={brokers}", f"--topics={topics}", f"--partitions={partitions}"]
    found: dict[str, Any] = {"topic_partitions": topics * partitions, "brokers": brokers, "steps": {}}
    with _child("stand-in", *sizes) as kafka:
        servers = kafka.stdout.readline().strip()
        # A user names a few brokers.
        few = ",".join(servers.split(",")[:3])
        with _child("planner", f"--servers={few}") as plans:
            before_s = _cpu_s(kafka.pid)
            for line in plans.stdout:
                if line == "write\n":
                    kafka.stdin.write("\n")
                    kafka.stdin.flush()
                    kafka.stdout.readline()
                    plans.stdin.write("\n")
                    before_s = _cpu_s(kafka.pid)
                    plans.stdin.flush()
                    continue
                told = json.loads(line)
                step = told.pop("step", None)
                if step is None:
                    found |= told
                else:
                    now_s = _cpu_s(kafka.pid)
                    found["steps"][step] = told | {"stand_in_cpu_s": round(now_s - before_s, 2)}
                    before_s = now_s
        assert plans.returncode == 0, "the planner failed"
        kafka.stdin.close()
    return found


def _cpu_s(process_id: int) -> float:
    """Return the processor time of a process until now."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _child(part: str, *arguments: str) -> Iterator[Any]:
    command = [sys.executable, "-m", "benchmarks.planned_model", f"--part={part}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.wait(60)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
