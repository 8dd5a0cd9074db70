"""Latency of continuous queries: `python -m benchmarks.continuous --rate 1000 10000 --interval-ms 10 20 50`.

A producer (librdkafka) writes 100-byte records at a rate, in a process of its own. The query copies them
exactly-once. A consumer (librdkafka, read_committed), in another process, takes the time from the call that
produces a record until its copy is there. One line of JSON for each rate, interval and number of lanes, in
milliseconds.

Invariant: every produced record is seen exactly once, or the run ends. Two numbers that differ by less than a
third mean little on a machine that does anything else.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import struct
import sys
import time
import uuid
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import penstock
from penstock.devbroker import DevCluster

PARTITIONS = 2
_HEAD = struct.Struct("<qq")
"""The time of the call in nanoseconds, and the number of the record."""
_PADDING = bytes(100 - _HEAD.size)
_SILENCE_S = 30.0
_PROCESSES = multiprocessing.get_context("spawn")


def produce(bootstrap: str, topic: str, rate: int, seconds: float, done: Any) -> None:
    """Write records at a rate, and put their number into the queue."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "queue.buffering.max.messages": 2_000_000}
    )
    count, began_s = 0, time.monotonic()
    while (now_s := time.monotonic()) - began_s < seconds:
        for _ in range(int((now_s - began_s) * rate) - count):
            value = _HEAD.pack(time.monotonic_ns(), count) + _PADDING
            producer.produce(topic, value, partition=count % PARTITIONS)
            count += 1
        producer.poll(0)
        time.sleep(0.001)
    assert producer.flush(60) == 0
    done.put(count)


def watch(bootstrap: str, topic: str, is_ready: Event, is_over: Event, found: Any) -> None:
    """Read the copies until told to end, and put (time of the call, latency) of each into the queue."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    consumer.poll(1.0)
    is_ready.set()
    seen: dict[int, tuple[int, int]] = {}
    doubled = 0
    while not is_over.is_set():
        for message in consumer.consume(1_000, 0.005):
            if message.error() is None:
                made_ns, number = _HEAD.unpack_from(message.value())
                doubled += number in seen
                seen[number] = (made_ns, time.monotonic_ns() - made_ns)
    consumer.close()
    found.put((doubled, list(seen.values())))


def measure(
    spark: SparkSession, bootstrap: str, rate: int, seconds: float, warm_up_s: float, **how: Any
) -> dict[str, Any]:
    """Copy for some seconds, and return the latencies after the warm-up.

    Args:
        spark: a session.
        bootstrap: of a broker.
        rate: records in a second.
        seconds: how long is measured.
        warm_up_s: how long before that is not.
        how: keywords of `penstock.continuous`.
    """
    name = uuid.uuid4().hex[:8]
    source, target = f"in-{name}", f"out-{name}"
    topics = [NewTopic(topic, num_partitions=PARTITIONS) for topic in (source, target)]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # held: its futures end with it
    for made in admin.create_topics(topics).values():
        made.result(30)
    options = {"subscribe": source, "kafka.bootstrap.servers": bootstrap, "kafka.group.id": name}
    query = penstock.continuous(
        spark, options | {"startingOffsets": "earliest"}, None, {"topic": target}, **how
    )
    try:
        return _measured(bootstrap, source, target, rate, seconds, warm_up_s)
    finally:
        query.stop()


def _measured(
    bootstrap: str, source: str, target: str, rate: int, seconds: float, warm_up_s: float
) -> dict[str, Any]:
    is_ready, is_over = _PROCESSES.Event(), _PROCESSES.Event()
    done, found = _PROCESSES.Queue(), _PROCESSES.Queue()
    watcher = _PROCESSES.Process(target=watch, args=(bootstrap, target, is_ready, is_over, found))
    watcher.start()
    assert is_ready.wait(_SILENCE_S)
    producer = _PROCESSES.Process(target=produce, args=(bootstrap, source, rate, seconds + warm_up_s, done))
    producer.start()
    count = done.get(timeout=seconds + warm_up_s + _SILENCE_S)
    producer.join()
    time.sleep(2.0)  # for the last copies
    is_over.set()
    doubled, seen = found.get(timeout=_SILENCE_S)
    watcher.join()
    assert not doubled, f"{doubled} records were seen twice"
    assert len(seen) == count, f"{count - len(seen)} of {count} records are missing in the output"
    first_ns = min(made for made, _ in seen) + int(warm_up_s * 1e9)
    return percentiles([latency / 1e6 for made, latency in seen if made >= first_ns])


def percentiles(latencies_ms: Sequence[float]) -> dict[str, Any]:
    """Return count, median, tail and maximum."""
    ordered = sorted(latencies_ms)
    named = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    at = {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for name, share in named.items()}
    return {"records": len(ordered), **{k: round(v, 1) for k, v in at.items()}, "max": round(ordered[-1], 1)}


def main(arguments: Sequence[str]) -> None:
    """Measure each rate with each interval."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.continuous", description=__doc__)
    parser.add_argument("--rate", type=int, nargs="+", default=[1_000])
    parser.add_argument("--interval-ms", type=int, nargs="+", default=[10, 20, 50, 100])
    parser.add_argument("--lanes", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up-s", type=float, default=5.0)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    given = parser.parse_args(arguments)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder.master("local[2,4]")
    spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    with DevCluster(given.brokers) as cluster:
        for rate in given.rate:
            for interval_ms in given.interval_ms:
                for lanes in given.lanes:
                    found = measure(
                        spark,
                        cluster.bootstrap_servers,
                        rate,
                        given.seconds,
                        given.warm_up_s,
                        commit_interval=f"{interval_ms} ms",
                        lanes=lanes,
                    )
                    how = {"rate": rate, "interval_ms": interval_ms, "lanes": lanes}
                    print(json.dumps(how | found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
