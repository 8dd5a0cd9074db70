"""The compiled parts with AddressSanitizer and UndefinedBehaviorSanitizer, and a process that loads them.

With the sanitizers every Python and Arrow buffer comes from malloc, so they find a read one byte past its
end. They need a compiler with their runtime. gcc has it on Linux, ziglang does not.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCES = REPOSITORY / "src" / "penstock"
RUNTIMES = ("libasan.so", "libubsan.so", "libstdc++.so.6")
_COUNTER = Path(__file__).with_name("coverage.c")


class NoSanitizersError(Exception):
    """This machine has no compiler with the sanitizers."""


def runtimes() -> list[str]:
    """Return the libraries to load before Python. Raises NoSanitizersError."""
    compiler = _compiler()
    found = []
    for name in RUNTIMES if compiler else ():
        asked = [*compiler, f"-print-file-name={name}"]
        found.append(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())
    if not found or not all(Path(path).is_absolute() and Path(path).exists() for path in found):
        wanted = f"looked for {', '.join(RUNTIMES)} of {compiler or 'gcc'}"
        raise NoSanitizersError(f"no gcc with AddressSanitizer on this machine ({wanted})")
    return found


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or shutil.which("gcc") or "")


def build(scratch: Path, *, with_coverage: bool = False) -> Path:
    """Build the compiled parts with sanitizers beside a copy of the package. Return its folder."""
    library = scratch / "lib"
    shutil.rmtree(library, ignore_errors=True)
    shutil.copytree(SOURCES, library / "penstock", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    variables = {"PENSTOCK_SANITIZE": "address,undefined"}
    if with_coverage:
        variables["CFLAGS"] = "-fsanitize-coverage=trace-pc"
    subprocess.run(
        [
            *(sys.executable, "setup.py", "-q", "build_ext", "--parallel", str(os.cpu_count() or 1)),
            *("--build-lib", library, "--build-temp", scratch / "temp"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        timeout=1_200,
    )
    assert list((library / "penstock" / "codec").glob("_decode*.so"))
    return library


def counter(scratch: Path) -> Path:
    """Compile the counter of ways through the code. Return the library."""
    scratch.mkdir(parents=True, exist_ok=True)
    made = scratch / "libways.so"
    subprocess.run([*_compiler(), "-O2", "-shared", "-fPIC", "-o", made, _COUNTER], check=True)
    return made


def digest_of_sources() -> str:
    """Return what tells one state of the compiled code, and of the Python code beside it, from another."""
    files = [REPOSITORY / "setup.py", _COUNTER, *sorted(SOURCES.rglob("*.py"))]
    for ending in ("*.pyx", "*.pxd", "*.c", "*.h"):
        files += sorted(SOURCES.rglob(ending))
    return hashlib.sha256(b"\0".join(each.read_bytes() for each in files)).hexdigest()[:16]


def environment(loaded: list[str]) -> dict[str, str]:
    """Return the variables of a process with the sanitizers' runtimes."""
    return {
        "LD_PRELOAD": " ".join(loaded),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
