"""The runner of `make versions`: environments, what is skipped, the table. No PySpark is installed here."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest

import penstock
from tests.versions import __main__ as command
from tests.versions import environments, results
from tests.versions.environments import NoIndexError
from tests.versions.inputs import OUTPUTS
from tests.versions.kills import STEPS, Logs
from tests.versions.probe.base import CASES, names_for
from tests.versions.run import MOVED, Found


def test_the_table_of_the_page_is_that_of_the_file() -> None:
    wrong = "docs/spark-versions.md: run `python -m tests.versions.results`"
    assert results.PAGE.read_text() == results.page(), wrong


def test_a_run_is_a_line_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FILE", tmp_path / "versions.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "page.md")
    results.PAGE.write_text(f"above\n{results.BEGIN}old\n{results.END}below\n")
    key = results.Key("4.0.1", "connect", "3.9.1")
    results.keep(key, Found(right=3, wrong=["one", "two"]), Path(sys.executable))
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert json.loads(results.FILE.read_text())[f"4.0.1 connect 3.9.1 {minor}"]["of"] == 5
    page = results.PAGE.read_text()
    assert "| 4.0.1 | connect | 3.9.1 | 3." in page
    assert "| 3 of 5 |" in page
    assert page.startswith("above\n")
    assert page.endswith("below\n")
    assert "old" not in page


def test_an_index_that_cannot_be_reached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(NoIndexError, match="could not download py4j"):
        environments.check_index()


def test_only_the_run_of_ci_is_skipped_without_an_index(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable() -> None:
        raise NoIndexError("There is none.")

    monkeypatch.setattr(environments, "check_index", unreachable)
    monkeypatch.setattr(environments, "_pyspark_of", lambda _: "")
    assert command.main(["--quick"]) == 0
    assert "Skipped: the environments of 4.0.1, 4.1.4 need an index of packages. There is none." in (
        capsys.readouterr().out
    )
    assert command.main(["4.0.1", "--wheel", __file__]) == 1


def test_an_environment_gets_each_wheel_once_and_keeps_its_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(environments, "_pyspark_of", lambda _: "4.0.1")
    monkeypatch.setattr(environments, "pip", lambda _, *what, **__: calls.append(what))
    wheel = tmp_path / "penstock.whl"
    for content in ("one", "one", "two"):
        wheel.write_text(content)
        environments.environment(tmp_path, "4.0.1", wheel)
    assert (
        calls
        == [
            ("uninstall", "--yes", "pyspark-penstock", "penstock"),
            ("install", "--no-deps", str(wheel)),
        ]
        * 2
    )


def test_only_what_takes_too_long_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [subprocess.TimeoutExpired("pip", 90), subprocess.CalledProcessError(1, "pip")]

    def run(command: list[str], **_: object) -> None:
        if "install" in command:
            raise errors.pop(0)

    monkeypatch.setattr(environments, "check_index", lambda: None)
    monkeypatch.setattr(environments, "_pyspark_of", lambda _: "")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(NoIndexError, match="was not installed within 90 s"):
        environments.cheap_environment(tmp_path / "new", "4.0.1", 90)
    with pytest.raises(subprocess.CalledProcessError):  # an index is there
        environments.cheap_environment(tmp_path / "new", "4.0.1", 90)


def test_a_cheap_environment_has_another_pyspark_and_else_what_this_one_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(_: Path, *what: str, limit_s: float) -> None:
        assert what[-1] == "pyspark==4.0.1"
        assert limit_s == 90
        [site] = tmp_path.glob("new/lib/python*/site-packages")
        for name, text in {
            "pyspark/__init__.py": "__version__ = 'another'",
            "pyspark-4.0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: pyspark\nVersion: 4.0.1\n",
        }.items():
            (site / name).parent.mkdir()
            (site / name).write_text(text)

    monkeypatch.setattr(environments, "check_index", lambda: None)
    monkeypatch.setattr(environments, "pip", install)
    for _ in range(2):  # the second finds it
        python = environments.cheap_environment(tmp_path / "new", "4.0.1", 90)
        monkeypatch.setattr(environments, "pip", None)
    program = (
        "import pyspark, penstock, pyarrow; print(pyspark.__version__, pyarrow.__file__, penstock.__file__)"
    )
    found = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert found == ["another", pyarrow.__file__, penstock.__file__]


def test_each_case_that_is_judged_exists() -> None:
    for each in ("installed", "reads", "writes", "tables", "moves", "oldest", "continuous"):
        importlib.import_module(f"tests.versions.probe.{each}")
    assert set(OUTPUTS) <= set(CASES)
    assert {name for names in command.QUICK.values() for name in names} <= set(names_for("classic"))
    assert MOVED not in names_for("classic")
    assert "stop after the batch" in set(names_for("classic")) - set(names_for("connect"))


def test_the_logs_of_a_checkpoint(tmp_path: Path) -> None:
    assert Logs.of(str(tmp_path)) == (-1, -1)
    for log, batches in (("offsets", (9, 10)), ("commits", (9,))):
        (tmp_path / log).mkdir()
        for batch in batches:
            (tmp_path / log / str(batch)).touch()
            (tmp_path / log / f".{batch}.crc").touch()
    assert Logs.of(str(tmp_path)) == (10, 9)


def test_steps_of_a_planned_batch_exist() -> None:
    from penstock.sink.exactly_once._probes import Step  # noqa: PLC0415 - beside its use

    assert set(STEPS) <= set(Step.__members__)
