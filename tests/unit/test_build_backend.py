"""`pip install` on incomplete machines: it fetches a compiler, and names what it cannot fetch."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def backend() -> ModuleType:
    file = Path(__file__).parents[2] / "build_backend" / "penstock_build.py"
    spec = importlib.util.spec_from_file_location("penstock_build", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(file.parent))  # as pip does for `backend-path`
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("compiler", "is_fetched"), [(None, True), ("/usr/bin/cc", False)])
def test_a_compiler_is_fetched_where_there_is_none(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, compiler: str | None, is_fetched: bool
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _name: compiler)
    assert any("ziglang" in requirement for requirement in backend._with_zig([])) == is_fetched


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_zig_links_shared_libraries(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    settings = backend._zig_settings()
    assert "ziglang cc" in settings["CC"]
    for name in ("LDSHARED", "LDCXXSHARED"):
        assert " -shared" in settings[name]
        assert "-bundle" not in settings[name], "zig 0.17.1 ignores it, and crashes"


def test_missing_headers_are_named(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path))
    with pytest.raises(SystemExit, match="python3-dev"):
        backend.build_wheel(str(tmp_path))
