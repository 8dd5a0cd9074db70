"""All compiled code with mutated inputs for a moment, without and with sanitizers.

`python -m tests.fuzz --minutes 60` does the same for an hour.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from tests.fuzz import sanitized
from tests.fuzz.worker import HARNESSES

PLAIN_MINUTES, SANITIZED_MINUTES = 0.3, 0.7
STARTUP_S = 60.0
LEAST = 20
"""Inputs for each harness but `protobuf-types`: one of its inputs is a message type with 60 values."""


def fuzz(minutes: float, *more: str, limit_s: float) -> None:
    seed = random.SystemRandom().randrange(2**32)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--minutes", f"{minutes}", "--seed", f"{seed}", *more],
        cwd=sanitized.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed} found something:\n{(done.stdout + done.stderr)[-6_000:]}"
    counted = dict(re.findall(r"^round \d+, ([\w-]+): (\d+) inputs", done.stdout, re.MULTILINE))
    assert counted.keys() == HARNESSES.keys(), done.stdout
    few = {
        name: count
        for name, count in counted.items()
        if int(count) < (1 if name == "protobuf-types" else LEAST)
    }
    assert few == {}, done.stdout


def test_mutated_inputs() -> None:
    fuzz(PLAIN_MINUTES, "--plain", limit_s=8 * STARTUP_S)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_mutated_inputs_under_sanitizers() -> None:
    """One test for all harnesses, because the build takes minutes."""
    try:
        sanitized.runtimes()
    except sanitized.NoSanitizersError as error:
        pytest.skip(f"THE SANITIZERS DID NOT RUN: {error}; the fuzz ran without them")
    fuzz(SANITIZED_MINUTES, limit_s=800)
