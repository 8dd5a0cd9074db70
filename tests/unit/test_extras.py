"""The extras of penstock: pyproject.toml, the table of the docs, messages and `penstock extras` agree."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock import cli
from penstock.cli.app import app
from penstock.errors import MissingExtraError, OptionError
from penstock.extras import EXTRAS, import_extra, lacking, missing_extra, overview
from penstock.observe.bar import progress
from tests.unit.test_dependencies import project_table, requirements_of

ROOT = Path(__file__).parents[2]
DECLARED = set(project_table()["optional-dependencies"])
TEXTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
]
NAMED = re.compile(
    r"'(?:\.|pyspark-penstock)\[([\w,]+)\]'"
    r"|\bextra [`'](\w+)[`']|(?:(?:missing|import)_extra|needs)\(\s*[\"'](\w+)[\"']"
)
"""How pages and code name extras."""
INSTALL_PAGE = (ROOT / "docs" / "install.md").read_text()


def test_each_extra_says_what_it_is_for_and_which_packages_it_installs() -> None:
    assert set(EXTRAS) == DECLARED - {"all"}
    named = {name: set(extra.packages) for name, extra in EXTRAS.items()}
    assert named == {
        name: {re.split(r"[<>=]", each)[0] for each in requirements_of(name)} for name in DECLARED - {"all"}
    }


def test_all_is_all_but_what_needs_a_library_of_the_system() -> None:
    assert set(requirements_of("all")) == {
        each for name in DECLARED - {"all", "kerberos"} for each in requirements_of(name)
    }


def test_the_table_of_the_page_has_each_extra() -> None:
    table = INSTALL_PAGE.partition("| extra | for | where |\n")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines()]
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == DECLARED


def test_no_text_names_the_package_of_another_project() -> None:
    """`penstock` on the package index is a flow tracer."""
    wrong = re.compile(r"(?<!pyspark-)\bpenstock\[|pip install '?(?:-U )?penstock\b")
    assert [str(path) for path in TEXTS if wrong.search(path.read_text())] == []


def test_each_extra_that_a_text_names_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in TEXTS
        for found in NAMED.findall(path.read_text())
        for name in ",".join(found).split(",")
        if name
    }
    assert {name for _, name in named} >= {"cli", "sql", "prometheus", "otel", "lineage", "protobuf", "demo"}
    assert sorted(each for each in named if each[1] not in DECLARED) == []


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python with the core of penstock and no extra."""
    hidden = {module for extra in EXTRAS.values() for module in extra.packages.values()}

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *of: None if name in hidden else find(name, *of)
    )


@pytest.mark.usefixtures("core")
def test_a_missing_extra_has_one_sentence_with_the_command_that_gets_it() -> None:
    error = missing_extra("sql", "Flink's SQL", "Nothing was started.", option="x")
    assert str(error) == (
        f"Flink's SQL needs the extra 'sql' of penstock: {sys.executable} lacks typer and rich and sqlglot "
        "and prompt_toolkit. Run pip install 'pyspark-penstock[sql]'. Nothing was started."
    )
    assert error.facts == {"extra": "sql", "option": "x"}
    assert isinstance(error, OptionError)


def test_a_module_that_is_missing_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(
        MissingExtraError, match=r"A Delta table needs the extra 'delta' .* lacks deltalake\."
    ):
        import_extra("delta", "deltalake", "A Delta table")
    assert lacking("delta") == ["deltalake"]


@pytest.mark.usefixtures("core")
def test_a_command_without_the_extra_says_so_and_ends_with_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "lag", "--group", "billing"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert tuple(capsys.readouterr()) == (
        "",
        f"penstock: This command needs the extra 'cli' of penstock: {sys.executable} lacks typer and rich. "
        "Run pip install 'pyspark-penstock[cli]'. `penstock extras` lists all extras.\n",
    )


@pytest.mark.usefixtures("core")
def test_the_list_of_extras_needs_no_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "extras"])
    cli.main()
    shown = capsys.readouterr().out
    for name, extra in EXTRAS.items():
        assert re.search(rf"^  {name} +no   {re.escape(extra.what_for)}", shown, re.MULTILINE)
        assert f"pip install 'pyspark-penstock[{name}]'  brings {', '.join(extra.packages)}\n" in shown


def test_the_list_of_extras_is_a_command_too() -> None:
    shown = CliRunner().invoke(app, ["extras"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert shown.stdout == f"{overview()}\n"
    assert "  cli         yes  the command `penstock`" in shown.stdout
    assert "[cli]" not in shown.stdout


def test_an_error_about_an_extra_ends_a_command_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise missing_extra("sql", "Flink's SQL")

    monkeypatch.setattr("penstock.cli.app.app", refuse)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2


def test_a_progress_bar_without_rich_says_so_before_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(MissingExtraError, match=r"A progress bar needs the extra 'cli' of penstock"):
        progress(_Query())


def test_a_progress_bar_needs_rich_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    assert lacking("cli") == ["typer"]
    with pytest.raises(AssertionError, match="it waits"):  # so the bar was made
        progress(_Query())


class _Query:
    name = "orders"

    def awaitTermination(self, timeout: float) -> bool:
        raise AssertionError("it waits")


def test_the_command_without_the_extra_imports_no_command() -> None:
    program = "import sys; from penstock.cli import main; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert {"typer", "rich", "penstock.cli.app"} & set(found.stdout.split()) == set()
