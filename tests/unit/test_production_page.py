"""docs/sql-production.md, and the SQL of docs/security.md, name alerts, options and statuses that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.options.parse import parse_read
from penstock.sql.language.parse import parse_script
from penstock.sql.language.statements import CreateTable
from penstock.sql.shell.run import FAILED, FINISHED, INTERRUPTED, MISTAKE

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "sql-production.md").read_text()
SECURITY = (DOCS / "security.md").read_text()


def table(heading: str) -> dict[str, str]:
    """Return the last cell of each row of a table by its first."""
    rows = PAGE.partition(heading)[2].partition("\n\n")[0].splitlines()
    cells = [[each.strip() for each in row.split("|")[1:-1]] for row in rows if row.startswith("|")]
    return {each[0]: each[-1] for each in cells if not each[0].startswith("-")}


def scripts() -> Iterator[str]:
    for page in (PAGE, SECURITY):
        yield from re.findall(r"```sql\n(.*?)```", page, re.DOTALL)


def test_the_page_says_what_to_do_for_each_alert() -> None:
    rules = CliRunner().invoke(app, ["dashboard", "--alerts"], catch_exceptions=False).stdout
    said = table("| alert | what it means | what to do |\n")
    assert {name.strip("`") for name in said} == set(re.findall(r"alert: (\w+)", rules))
    assert all(said.values())


def test_the_page_has_each_exit_status_of_the_command() -> None:
    said = table("| exit status | what happened | start again? |\n")
    assert {"0", "1", "2", "130"} <= said.keys()
    assert (FINISHED, FAILED, MISTAKE, INTERRUPTED) == (0, 1, 2, 130)
    assert "RestartPreventExitStatus=2" in PAGE
    assert "KillMode=mixed" in PAGE, "SIGTERM must not reach Java"


@pytest.mark.parametrize("script", [*scripts()], ids=lambda script: script.split("(")[0].strip()[:40])
def test_the_scripts_are_read_and_their_options_are_known(script: str) -> None:
    for statement in parse_script(script):
        found = statement.statement
        if isinstance(found, CreateTable):
            options = dict(found.options)
            assert options.pop("connector") == "kafka"
            parse_read(options, streaming=True)
