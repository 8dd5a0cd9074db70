"""PEP 517 backend: setuptools, an SBOM in each wheel, and a C compiler from PyPI where there is none.

Runs in pip's build environment. Invariant: if the machine has a compiler, or CC names one, the build uses it
unchanged. Otherwise the build asks for the `ziglang` wheel and uses that.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import penstock_sbom
from setuptools import build_meta as setuptools_backend
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

COMPILERS = ("cc", "gcc", "clang")
ZIG = "ziglang>=0.13"


def _has_compiler() -> bool:
    return bool(os.environ.get("CC")) or any(shutil.which(name) for name in COMPILERS)


def _zig_settings() -> dict[str, str]:
    # The baseline CPU, because a wheel may be installed on other machines than the one that built it.
    compiler = f"{shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline"
    # Zig ignores `-bundle`, which Python's own settings have on a Mac, and then crashes for want of a `main`.
    shared = "-shared -undefined dynamic_lookup" if sys.platform == "darwin" else "-shared"
    return {"CC": compiler, "LDSHARED": f"{compiler} {shared}", "LDCXXSHARED": f"{compiler} {shared}"}


def _require_headers() -> None:
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise SystemExit(
            f"penstock compiles its codec, and {sys.executable} has no C headers of Python. Install them "
            "(Debian, Ubuntu: python3-dev; Fedora: python3-devel), or use a Python that has them: those of "
            "python.org, pyenv, uv and conda."
        )


@contextmanager
def _some_compiler() -> Iterator[None]:
    _require_headers()
    settings = {} if _has_compiler() else _zig_settings()
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _with_zig(requirements: list[str]) -> list[str]:
    return requirements if _has_compiler() else [*requirements, ZIG]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return _with_zig(setuptools_backend.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return _with_zig(setuptools_backend.get_requires_for_build_editable(config_settings))


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    with _some_compiler():
        name = setuptools_backend.build_wheel(wheel_directory, config_settings, metadata_directory)
    penstock_sbom.add_to(Path(wheel_directory) / name)
    return name


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    with _some_compiler():
        return setuptools_backend.build_editable(wheel_directory, config_settings, metadata_directory)
