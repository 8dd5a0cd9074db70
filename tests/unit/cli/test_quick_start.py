"""`penstock sql` uses an archive of Spark's classes, and imports its modules while Java starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.quick_start import classes, importing
from penstock.cli.quick_start.classes import OPTIONS, NoArchiveError, make_archive, use_archive
from penstock.devbroker.shared_classes import find_archive


@pytest.fixture(autouse=True)
def spark_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Spark with one jar, and an empty cache."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark.jar").write_bytes(b"classes")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(classes, "find_java", lambda: Path(sys.executable))
    monkeypatch.setattr("penstock.devbroker.shared_classes.version_text", lambda _java: "21")
    find_archive.cache_clear()
    return home


def _training_run(
    monkeypatch: pytest.MonkeyPatch, *, status: int = 0, written: bytes | None = b"archive"
) -> list[Any]:
    """Replace the process of the training run. Return its environments."""
    seen: list[Any] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.append(env)
        if written is not None:
            Path(env[OPTIONS].split()[0].partition("=")[2]).write_bytes(written)
        return subprocess.CompletedProcess(command, status, "", "Java is full")

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_an_archive_is_used_after_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {OPTIONS: "-Dmine=1"}
    assert not use_archive(environment)
    assert environment == {OPTIONS: "-Dmine=1"}
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    seen = _training_run(monkeypatch)
    archive = make_archive()
    assert "SPARK_REMOTE" not in seen[0]
    assert use_archive(environment)
    assert environment[OPTIONS].split()[:2] == ["-Dmine=1", f"-XX:SharedArchiveFile={archive}"]


def test_other_jars_of_spark_need_another_archive(monkeypatch: pytest.MonkeyPatch, spark_home: Path) -> None:
    _training_run(monkeypatch)
    make_archive()
    (spark_home / "jars" / "more.jar").write_bytes(b"classes")
    assert not use_archive({})


def test_an_archive_that_was_cut_off_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    _training_run(monkeypatch)
    archive = make_archive()
    archive.write_bytes(b"arch")
    find_archive.cache_clear()
    assert not use_archive({})


def test_the_archive_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    _training_run(monkeypatch)
    make_archive()
    environment = {OPTIONS: "-XX:SharedArchiveFile=/mine.jsa"}
    assert use_archive(environment)
    assert environment == {OPTIONS: "-XX:SharedArchiveFile=/mine.jsa"}


@pytest.mark.parametrize(("status", "written"), [(1, b"half of it"), (0, None)])
def test_a_training_run_that_failed_leaves_no_archive(
    monkeypatch: pytest.MonkeyPatch, status: int, written: bytes | None
) -> None:
    _training_run(monkeypatch, status=status, written=written)
    with pytest.raises(NoArchiveError, match=r"starts as before\. It said:\nJava is full"):
        make_archive()
    assert not use_archive({})


def test_without_java_spark_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    _training_run(monkeypatch)
    make_archive()
    monkeypatch.setattr(classes, "find_java", lambda: Path("/no/java"))
    assert not use_archive({})


def test_without_an_archive_java_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "find_java", lambda: pytest.fail("`java -version` takes time at each start"))
    assert not use_archive({})


def test_a_command_loads_no_broker_of_developers() -> None:
    code = "import sys, penstock.cli; assert 'penstock.devbroker' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_modules_are_there_after_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with importing(("no_such_module", "colorsys")):
        pass
    assert "colorsys" in sys.modules
