"""Plan 100,000 topic partitions of 100 brokers, which a stand-in plays: `python -m benchmarks.planned_model`.

The stand-in (`benchmarks.stand_in`) has 100 brokers and 100 topics of 1,000 partitions. The planner is a
fresh process, which makes the calls that Spark makes for a stream. So its memory is that of a driver's
planning process. The seconds have the time of the stand-in in them, which answers one request after the other
in Python: it takes longer for that than brokers do. `cpu_s` is the processor time of the planner alone,
`stand_in_cpu_s` that of the stand-in meanwhile. `python -m benchmarks.backlog` reads from the same stand-in.

- `start`: the first offsets (`initialOffset`).
- `first batch`: all records from there on. `idle`: nothing is new. `batch`: one new record batch in each
  topic partition. The interval of discovery is 1 ms, so each asks for new topic partitions too.

The goal is less than 20 s and 1 GB for a batch of 100,000 topic partitions. It counts the seconds without the
processor time of the stand-in, which answers from one thread at a time.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.stand_in import TOPIC, Shape, child, counted_requests, started
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema

GOAL_S, GOAL_MB = 20.0, 1_000.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1_000, help="of each topic")
    parser.add_argument("--planner", metavar="SERVERS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.planner:
        planner(given.planner)
        return
    found = measure(Shape(given.brokers, given.topics, given.partitions))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    steps = found["steps"].values()
    worst_s = max(each["seconds"] - each["stand_in_cpu_s"] for each in steps)
    assert worst_s < GOAL_S, "planning is too slow"
    assert found["peak_mb"] < GOAL_MB, "planning takes too much memory"


# ----- the planner


def planner(servers: str) -> None:
    """Plan as Spark's driver does. Between two batches it prints what it found, and waits for a line."""
    with counted_requests() as requests:
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


def measure(shape: Shape) -> dict[str, Any]:
    """Let a planner plan the topic partitions of a stand-in."""
    count = shape.topics * shape.partitions
    found: dict[str, Any] = {"topic_partitions": count, "brokers": shape.brokers, "steps": {}}
    with started(shape) as kafka, child("benchmarks.planned_model", f"--planner={kafka.servers}") as plans:
        before_s = kafka.cpu_s
        for line in plans.stdout:
            if line == "write\n":
                kafka.write()
                before_s = kafka.cpu_s
                plans.stdin.write("\n")
                plans.stdin.flush()
                continue
            told = json.loads(line)
            step = told.pop("step", None)
            if step is None:
                found |= told
            else:
                now_s = kafka.cpu_s
                found["steps"][step] = told | {"stand_in_cpu_s": round(now_s - before_s, 2)}
                before_s = now_s
    assert plans.returncode == 0, "the planner failed"
    return found


if __name__ == "__main__":
    main()
