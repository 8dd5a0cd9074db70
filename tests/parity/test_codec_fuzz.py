"""Mutated batches and Protobuf values, without and with AddressSanitizer and UndefinedBehaviorSanitizer.

With the sanitizers every Python and Arrow buffer comes from malloc, so they find a read one byte past its
end. They need a compiler with their runtime. gcc has it on Linux, ziglang does not.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PLAIN_SECONDS, SANITIZED_SECONDS = 8, 30
STARTUP_SECONDS = 120
RUNTIMES = ("libasan.so", "libubsan.so", "libstdc++.so.6")


PROGRAMS = {"codec_fuzz": 1_000, "protobuf_fuzz": 100}
"""Programs, and how many inputs each has to try at least."""


def fuzz(package_root: Path, seconds: int, environment: dict[str, str], name: str) -> str:
    seed = random.SystemRandom().randrange(2**32)
    program = [sys.executable, "-m", f"tests.parity.{name}", str(seconds), str(seed)]
    result = subprocess.run(
        program,
        cwd=REPOSITORY,
        env={**os.environ, **environment, "PYTHONPATH": str(package_root)},
        capture_output=True,
        text=True,
        timeout=seconds + STARTUP_SECONDS,
        check=False,
    )
    output = result.stdout + result.stderr
    assert result.returncode == 0, f"seed {seed} found something:\n{output[-6_000:]}"
    found = re.search(r"(\d+) inputs, seed \d+: no finding", output)
    assert found, output
    assert int(found[1]) > PROGRAMS[name], output
    return output


@pytest.mark.parametrize("name", PROGRAMS)
def test_mutated_inputs(name: str) -> None:
    fuzz(REPOSITORY / "src", PLAIN_SECONDS, {}, name)


def sanitizer_runtimes() -> list[str]:
    """Return the libraries to load before Python. Skip the test with a reason if the machine has none."""
    compiler = shlex.split(os.environ.get("CC") or shutil.which("gcc") or "")
    found = []
    for name in RUNTIMES if compiler else ():
        answer = subprocess.run(
            [*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False
        )
        found.append(answer.stdout.strip())
    if not found or not all(Path(path).is_absolute() and Path(path).exists() for path in found):
        pytest.skip(
            "THE SANITIZERS DID NOT RUN: no gcc with AddressSanitizer on this machine "
            f"(looked for {', '.join(RUNTIMES)} of {compiler or 'gcc'}); the fuzz ran without them"
        )
    return found


def build_sanitized(scratch: Path) -> Path:
    """Build the compiled parts with sanitizers beside a copy of the package. Return its folder."""
    library = scratch / "lib"
    shutil.copytree(
        REPOSITORY / "src" / "penstock", library / "penstock", ignore=shutil.ignore_patterns("*.so")
    )
    subprocess.run(
        [
            *(sys.executable, "setup.py", "-q", "build_ext", "--parallel", str(os.cpu_count() or 1)),
            *("--build-lib", library, "--build-temp", scratch / "temp"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "PENSTOCK_SANITIZE": "address,undefined"},
        check=True,
        capture_output=True,
        timeout=400,
    )
    assert list((library / "penstock" / "codec").glob("_decode*.so"))
    return library


def sanitized_environment(runtimes: list[str]) -> dict[str, str]:
    return {
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


@pytest.mark.long
@pytest.mark.timeout(600)
def test_mutated_inputs_under_sanitizers(tmp_path: Path) -> None:
    """One test for all programs, because the build takes minutes."""
    runtimes = sanitizer_runtimes()
    library, environment = build_sanitized(tmp_path), sanitized_environment(runtimes)
    with ThreadPoolExecutor() as threads:
        runs = [threads.submit(fuzz, library, SANITIZED_SECONDS, environment, name) for name in PROGRAMS]
        for run in runs:
            run.result()
