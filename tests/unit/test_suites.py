"""The end of `make test` and `make ci`: the time of each suite, also if one fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.suites import Result, main, table

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
