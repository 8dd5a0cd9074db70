"""The benchmark of continuous queries: what it counts, which systems it compares, and its tables."""

from __future__ import annotations

import struct

import pytest
from benchmarks import continuous
from benchmarks import continuous_beside as beside
from benchmarks import continuous_rotation as rotation
from benchmarks.flink import checkpointed
from benchmarks.latency import Seen, percentiles

from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from tests.chaos.job_process import ROOT


def copy(number: int, made_s: float) -> bytes:
    return struct.pack("<qq", int(made_s * 1e9), number) + bytes(84)


def test_a_copy_counts_once_and_a_second_one_is_doubled() -> None:
    seen = Seen()
    for number, late_ms in ((0, 5.0), (2, 7.0), (1, 6.0), (2, 8.0)):
        seen.add(copy(number, 1.0), int(1e9 + late_ms * 1e6))
    assert (seen.count, seen.doubled) == (3, 1)


def test_records_of_the_warm_up_are_left_out() -> None:
    seen = Seen()
    for number in range(250_000):
        made_s = number / 1_000
        seen.add(copy(number, made_s), int(made_s * 1e9) + (900 if number < 1_000 else 3) * 1_000_000)
    found = seen.percentiles(1.0)
    assert found == {"records": 249_000, "p50": 3.0, "p95": 3.0, "p99": 3.0, "max": 3.0}


def test_percentiles_are_those_of_the_ordered_latencies() -> None:
    found = percentiles([float(each) for each in range(1_000, 0, -1)])
    assert found == {"records": 1_000, "p50": 501.0, "p95": 951.0, "p99": 991.0, "max": 1_000.0}
    assert percentiles([]) == {"records": 0}


def test_a_run_beside_the_others_has_each_of_them() -> None:
    given = continuous._arguments(["--beside"])
    assert given.rate == [1_000, 10_000, 100_000]
    systems = continuous._systems(given)
    assert [beside.title(each.as_json()) for each in systems] == [
        *(f"continuous, exactly-once, commits each {each} ms" for each in (10, 20, 50, 100)),
        "continuous, at-least-once, commits each 20 ms",
        *(f"Flink SQL, exactly-once, checkpoints each {each} ms" for each in (10, 50, 100)),
        "Flink SQL, exactly-once, checkpoints each 1 s",
        "Flink SQL, at-least-once",
        "micro-batches, exactly-once",
    ]  # fmt: skip


def test_what_is_given_counts_more_than_the_usual_and_the_quick() -> None:
    given = continuous._arguments(
        ["--beside", "--quick", "--rate", "7", "--brokers", "3", "--lanes", "1", "2"]
    )
    assert (given.rate, given.brokers, given.interval_ms, given.checkpoint_ms) == ([7], 3, [20], [10, 100])
    assert [each.lanes for each in continuous._systems(given)[:2]] == [1, 2]


def test_throughput_is_measured_without_latencies() -> None:
    given = continuous._arguments(["--throughput", "--records", "7"])
    assert (given.beside, given.rate, given.records) == (True, [], 7)


def test_without_beside_only_continuous_queries_are_measured() -> None:
    given = continuous._arguments([])
    assert {each.name for each in continuous._systems(given)} == {beside.CONTINUOUS}


def test_the_tables_say_what_was_behind() -> None:
    system = beside.System(beside.FLINK, beside.EXACTLY_ONCE, 1_000)
    late = {"records": 9, "p50": 1.5, "p95": 2.5, "p99": 3.5, "max": 4.5, "cores": 0.25}
    slow = beside.System(beside.MICRO_BATCHES, beside.EXACTLY_ONCE).as_json()
    latencies = [{"rate": 1_000, **system.as_json(), **late}, {"rate": 100_000, **slow, "behind": 1_234}]
    speed = {"case": beside.RAW, **system.as_json(), "records_per_s": 1_500_000, "cpu_us_a_record": 0.631}
    ours = {**speed, **slow, "worker_us_a_record": 0.27}
    assert beside.tables(latencies, [speed, ours], 3).strip().splitlines() == [
        "| latency in ms, 3 brokers, replication 3 | records/s | p50 | p95 | p99 | max | cores |",
        "|---|---|---|---|---|---|---|",
        "| Flink SQL, exactly-once, checkpoints each 1 s | 1,000 | 1.5 | 2.5 | 3.5 | 4.5 | 0.25 |",
        "| micro-batches, exactly-once (1,234 records behind at the end) | 100,000 | - | - | - | - | - |",
        "",
        "| throughput, 3 brokers, replication 3 | | records/s | CPU us a record | of it in Python workers |",
        "|---|---|---|---|---|",
        "| Kafka to Kafka | Flink SQL, exactly-once, checkpoints each 1 s | 1,500,000 | 0.631 | - |",
        "| Kafka to Kafka | micro-batches, exactly-once | 1,500,000 | 0.631 | 0.27 |",
    ]


def test_rotations_are_counted_and_their_rounds_summed_up() -> None:
    # A round from epoch 1 had epoch 701 in the middle.
    assert rotation.late_epoch(first=501, last=901) == 32_766 - 700
    before, after = (
        {name: TransactionIdentity(name, number, 1, TransactionProtocol.V2) for name, number in each.items()}
        for each in ({"a-0": 7, "a-1": 8}, {"a-0": 9, "a-1": 8})
    )
    assert rotation.rotated(before, after) == 1
    rounds = [
        {"records": 10, "p50": p50, "p95": 5.0, "p99": p99, "max": most, "cores": 1.0, "rotations": 2}
        for p50, p99, most in ((1.0, 9.0, 30.0), (3.0, 7.0, 99.0), (2.0, 8.0, 40.0))
    ]
    wanted = {"records": 30, "rotations": 6, "p50": 2.0, "p95": 5.0, "p99": 8.0, "max": 99.0}
    assert rotation.summary(rounds) == wanted


def test_rotation_is_a_run_of_its_own() -> None:
    given = continuous._arguments(["--rotation"])
    assert (given.rate, given.interval_ms, given.rounds, given.warm_up_s) == ([1_000], [20], 3, 15.0)
    for other in (["--beside"], ["--throughput"], ["--brokers", "3"]):
        with pytest.raises(SystemExit):
            continuous._arguments(["--rotation", *other])


def test_the_filter_keeps_half_of_the_records() -> None:
    assert beside._paid_share() == 0.5


def test_flinks_worker_knows_the_mode_of_checkpoints() -> None:
    """It imports pyflink, so its text is read."""
    text = (ROOT / "benchmarks" / "flink_worker.py").read_text()
    prefix = text.partition('CHECKPOINTS = "')[2].partition('"')[0]
    assert checkpointed(10).partition(prefix) == ("", prefix, "10 ms")


@pytest.mark.parametrize(
    "system", [*beside.others([10]), beside.System(beside.CONTINUOUS, "exactly-once", 20)]
)
def test_the_broker_counts_for_each_system(system: beside.System) -> None:
    assert "broker" in system.kinds
