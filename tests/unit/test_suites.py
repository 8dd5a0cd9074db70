"""What `make test` and `make ci` run, and their end: the time of each suite, also if one fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import suites
from tests.conftest import KINDS
from tests.suites import Result, main, table

ROOT = Path(__file__).parents[2]
MAKEFILE = """
good other:
\t@echo $@ >> ran
bad:
\t@echo $@ >> ran; exit 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with suites of its own."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_suite_that_fails_does_not_stop_the_others(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["good", "bad", "other"]) == 1
    assert (folder / "ran").read_text().split() == ["good", "bad", "other"]
    shown = capfd.readouterr().out.partition("==> time of each suite\n")[2]
    assert re.findall(r"^(\w+) +(passed|FAILED)", shown, re.MULTILINE) == [
        ("good", "passed"),
        ("bad", "FAILED"),
        ("other", "passed"),
    ]


@pytest.mark.usefixtures("folder")
def test_suites_that_pass_end_with_zero() -> None:
    assert main(["good", "other"]) == 0


def test_the_table_has_the_sum() -> None:
    lines = table([Result("unit", 58.4, True), Result("promises", 300.2, False)]).strip().splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["unit", "passed", "58", "s"],
        ["promises", "FAILED", "300", "s"],
        ["total", "359", "s"],
    ]


def test_an_interruption_shows_what_ran_until_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def made(suite: str) -> int:
        if suite == "second":
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(suites, "_made", made)
    with pytest.raises(KeyboardInterrupt):
        main(["first", "second", "third"])
    shown = capsys.readouterr().out.partition("==> time of each suite\n")[2]
    assert [line.split()[0] for line in shown.splitlines() if line] == ["first", "total"]


def recipes_of(target: str) -> dict[str, str]:
    """Return the commands of the suites of a target."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [run] = re.findall(rf"^{target}:.*\n\t@.*-m tests\.suites (.+)$", makefile, re.MULTILINE)
    return {suite: re.findall(rf"^{suite}:.*\n\t(.*)$", makefile, re.MULTILINE)[0] for suite in run.split()}


def folders_of(target: str) -> list[str]:
    """Return the folders of tests that the suites of a target give to pytest."""
    return [
        folder for recipe in recipes_of(target).values() for folder in re.findall(r" tests/(\w+)", recipe)
    ]


def folders_with_tests(tests: Path) -> set[str]:
    """Return the folders that have files of tests, also in folders of theirs."""
    return {path.relative_to(tests).parts[0] for path in tests.rglob("test_*.py")}


def test_make_ci_runs_each_folder_of_tests_once() -> None:
    assert sorted(folders_of("ci")) == sorted(folders_with_tests(ROOT / "tests"))
    assert folders_with_tests(ROOT / "tests") == KINDS
    assert set(folders_of("test")) <= KINDS
    assert recipes_of("ci")["older"].endswith("-m tests.versions --quick")
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make ci"


def test_a_folder_of_tests_is_found_by_its_files(tmp_path: Path) -> None:
    for file in ("unit/test_a.py", "new/deep/test_b.py", "data/table.py", "test_alone.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert folders_with_tests(tmp_path) == {"unit", "new", "test_alone.py"}


def test_each_target_runs_although_a_file_has_its_name() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [phony] = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    targets = re.findall(r"^([a-z][a-z-]*):(?! *[A-Z]+ =| export)", makefile, re.MULTILINE)
    assert sorted(targets) == sorted(phony.split())
