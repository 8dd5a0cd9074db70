"""A test runs each command of penstock that a page prints, as printed. Or a row here says why none can.

A test takes a command from its page by `Here.run`, `Here.start` and `Here.line`, with the page and the
beginning of the command, or by `section`, with the page and a heading.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.package.readme import quick_start
from tests.printed import PAGES, ROOT, Here, commands, one_of, section

TESTS = ROOT / "tests"
QUICK_START = "README.md"
"""tests/package/test_fresh_install.py runs its steps in an empty environment."""
NOT_RUN = {
    (
        "cdc-tutorial.md",
        "penstock demo cdc",
    ): "it takes two minutes. spark/test_cdc_demo.py runs its queries with three days of the history",
    (
        "sql-production.md",
        "penstock sql --conf spark.master=spark://master:7077",
    ): "it needs a cluster of Spark with 4 GB for each executor",
    ("sql-production.md", "ExecStart=/opt/penstock/bin/penstock sql"): "it needs systemd",
}
"""The beginnings of commands that no test runs, and why."""


def calls_in(code: str) -> list[tuple[str, str, str]]:
    """Return name, page and second argument of each call that takes a command from a page."""
    found = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name),
                args=[ast.Constant(value=str(page)), ast.Constant(value=str(words)), *_],
            ) if name in ("run", "start", "line", "section") and page.endswith(".md"):
                found.append((name, page, words))
    return found


@cache
def taken() -> dict[tuple[str, str], str]:
    """Return the commands that tests take from pages, each with the name of a file that does."""
    found = {(QUICK_START, " ".join(step.command.split())): "readme.py" for step in quick_start()}
    for file in sorted(TESTS.rglob("*.py")):
        code = file.read_text(encoding="utf-8")
        if "tests.printed" not in code or file == Path(__file__):
            continue
        for name, page, words in calls_in(code):
            lines = section(page, words) if name == "section" else [one_of(page, words)]
            found.update({(page, line): file.name for line in lines})
    return found


def pages() -> list[str]:
    return [str(page.relative_to(page.parents[0])) for page in PAGES if page.parent in (ROOT, ROOT / "docs")]


def missing(page: str, printed: list[str], run: set[str]) -> list[str]:
    """Return the commands of a page that neither a test nor the table has."""
    listed = [beginning for name, beginning in NOT_RUN if name == page]
    return [line for line in printed if line not in run and not line.startswith(tuple(listed))]


@pytest.mark.parametrize("page", pages())
def test_each_command_of_a_page_runs_or_has_a_reason(page: str) -> None:
    assert missing(page, commands(page), {line for name, line in taken() if name == page}) == []


def test_folders_of_docs_print_no_command() -> None:
    """`pages` leaves them out."""
    deeper = [page for page in PAGES if page.parent not in (ROOT, ROOT / "docs")]
    assert len(deeper) > 20
    assert [page for page in deeper if commands(str(page.relative_to(ROOT / "docs")))] == []


def test_enough_commands_run() -> None:
    assert len([line for _, line in taken() if "penstock" in line]) > 45


@pytest.mark.parametrize(("page", "beginning"), NOT_RUN)
def test_a_command_with_a_reason_is_printed_and_does_not_run(page: str, beginning: str) -> None:
    assert (page, one_of(page, beginning)) not in taken()
    assert NOT_RUN[page, beginning]


def test_a_command_without_a_test_is_found() -> None:
    assert missing("promote.md", ["penstock new --thing"], {"penstock old"}) == ["penstock new --thing"]
    assert calls_in('here.run("promote.md", "penstock new", more)') == [("run", "promote.md", "penstock new")]
    assert calls_in("here.run(page, 'penstock new')") == []


def test_only_whole_names_change(tmp_path: Path) -> None:
    here = Here(tmp_path, {"orders": "o1", "orders-copy": "c1", "/data/": "/t/", "broker:9092": "h:1"})
    line = "penstock x orders orders-copy orders-copier /data/orders -b broker:9092"
    assert here.placed(line) == "penstock x o1 c1 orders-copier /t/o1 -b h:1"
