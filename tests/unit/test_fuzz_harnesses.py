"""Each compiled file has a harness that fuzzes it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import sanitized
from tests.fuzz.__main__ import limit_cpu
from tests.fuzz.memory import exact_array, exact_values, plain
from tests.fuzz.shapes import columns, rows
from tests.fuzz.worker import FIRST_BYTES, HARNESSES, Note, noted


def test_each_compiled_file_has_a_harness() -> None:
    covered = {file for harness in HARNESSES.values() for file in harness(1).covers}
    compiled = {
        str(file.relative_to(sanitized.SOURCES))
        for end in ("*.pyx", "*.c")
        for file in sanitized.SOURCES.rglob(end)
    }
    assert covered == compiled


@pytest.mark.parametrize("name", HARNESSES)
def test_what_a_harness_does_with_an_input_depends_on_the_input(name: str) -> None:
    harness, again = HARNESSES[name](7), HARNESSES[name](7)
    assert list(harness.seeds()) == list(again.seeds())
    chance = random.Random(7)
    first, second = harness.seeds()[0], harness.seeds()[-1]
    for _ in range(3):
        data = harness.mutated(chance, first, second)
        harness.check(data)
        again.check(data)


def test_an_input_of_any_size_is_noted(tmp_path: Path) -> None:
    note = Note(tmp_path / "input")
    for size in (3, FIRST_BYTES, 5 * FIRST_BYTES, 0):
        note.tell(b"x" * size)
        assert noted(tmp_path / "input") == b"x" * size


def test_arrays_in_exact_memory_have_the_same_values() -> None:
    values = exact_values([b"a", None, b"", b"bc"])
    assert (values.offset, values.to_pylist()) == (1, [b"a", None, b"", b"bc"])
    chance = random.Random(3)
    for _ in range(20):
        made = rows(chance, columns(chance, depth=3), 5)
        for column in made.columns:
            exact = exact_array(column)
            exact.validate(full=True)
            assert repr(plain(exact)) == repr(plain(column))


def test_an_input_without_an_end_is_ended_by_its_processor_time_and_not_by_the_clock() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "while True: pass"],
        check=False,
        preexec_fn=lambda: limit_cpu(1),  # the child only sets its limit
    )
    assert done.returncode == -signal.SIGXCPU
