"""Run a case: systems in turn, rounds to warm up, then timed rounds. Each result is checked.

Invariant: figures of two systems are compared only if both gave the same result. After the first round
librdkafka reads back what was written. After the other rounds the ends of the log are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks import output, usage
from benchmarks.cases import Case
from benchmarks.inputs import INPUTS
from benchmarks.measured import Measured
from benchmarks.systems import Bench, session_settings, taking_part

WARM_UPS = 2
SLOW_S = 30.0
"""A system whose first warm-up round takes longer is not warmed up again."""
_MARKERS = 64  # of the transactions of one run, at most
Say = Callable[[str], object]


class WrongAnswerError(Exception):
    """A system gave another result than the others, so its figures mean nothing."""


def measure_case(
    name: str, case: Case, bench: Bench, rounds: int, say: Say, warm_ups: int = WARM_UPS
) -> dict[str, Measured]:
    """Warm up and time every system of a case."""
    systems = case.systems(with_flink=bench.flink_session is not None)
    size = INPUTS[case.input_topic].byte_count(bench.record_count)
    found = {system: Measured(bench.record_count, size) for system in systems}
    expected: tuple[Any, ...] | None = None
    slow: set[str] = set()
    first = 1 - warm_ups
    for number in range(first, rounds + 1):
        is_timed = number > 0
        for system, measured in found.items():
            if not is_timed and system in slow:
                continue
            timed = measured if is_timed else None
            took_s, answer = _run(case, bench, system, timed, read_back=number == first)
            if not is_timed and took_s > SLOW_S:
                slow.add(system)
            expected = check_answer(name, system, answer, expected, bench.record_count)
            took = f"{measured.seconds[-1]:.2f} s" if is_timed else "same answer"
            if case.is_generated:
                measured.byte_count = sum(expected[1:])
            say(f"{name} {system} {number if is_timed else 'warm-up'}: {took}")
    return found


def _run(
    case: Case, bench: Bench, system: str, measured: Measured | None, *, read_back: bool
) -> tuple[float, tuple[Any, ...]]:
    starts = output.ends(bench.bootstrap_servers, bench.output_topic)
    before = usage.snapshot()
    usage.reset_peaks(before)
    started = time.perf_counter()
    with session_settings(bench.spark, system):
        answer = case.run(bench, system)
    took_s = time.perf_counter() - started
    after = usage.snapshot()
    if measured is not None:
        measured.add(answer.net_s or took_s, usage.spent(before, after, taking_part(system)))
    if answer.values is not None:
        return took_s, answer.values
    if answer.later is not None:
        return took_s, answer.later()
    values = _written(bench, starts, read_back=read_back)
    output.forget(bench.bootstrap_servers, bench.output_topic)
    return took_s, values


def _written(bench: Bench, starts: dict[int, int], *, read_back: bool) -> tuple[Any, ...]:
    if read_back:
        written = output.written_since(bench.bootstrap_servers, bench.output_topic, starts)
        return (written.record_count, written.key_bytes, written.value_bytes)
    now = output.ends(bench.bootstrap_servers, bench.output_topic)
    grown = sum(now.values()) - sum(starts.values())
    # A transaction adds a marker to each partition that it writes to.
    return (bench.record_count if 0 <= grown - bench.record_count <= _MARKERS else grown,)


def check_answer(
    name: str, system: str, found: tuple[Any, ...], expected: tuple[Any, ...] | None, count: int
) -> tuple[Any, ...]:
    """Return the result that the next system must have. Raise WrongAnswerError if `found` differs."""
    if found[0] != count:
        msg = f"{name}: {system} handled {found[0]} records instead of {count}."
        raise WrongAnswerError(msg)
    if expected is None:
        return found
    shared = min(len(found), len(expected))  # later rounds of a write only have the number
    if found[:shared] != expected[:shared]:
        msg = f"{name}: {system} answers {found}, the others {expected}."
        raise WrongAnswerError(msg)
    return expected
