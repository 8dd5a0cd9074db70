"""docs/examples.md has each script and notebook of examples/, as it is."""

from __future__ import annotations

import pytest

from tests import examples_page, notebooks

ROOT = examples_page.ROOT


def test_the_page_is_that_of_the_scripts() -> None:
    assert examples_page.PAGE.read_text(encoding="utf-8") == examples_page.text(), "run `make docs`"


def test_each_script_is_on_the_page_and_in_a_test() -> None:
    scripts = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert set(examples_page.TITLES) == scripts
    tests = (ROOT / "tests" / "spark" / "test_examples.py").read_text(encoding="utf-8")
    assert [name for name in scripts if f'"{name}"' not in tests] == []


@pytest.mark.parametrize("name", examples_page.TITLES)
def test_a_script_is_read_in_a_minute(name: str) -> None:
    assert len((ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()) <= 60


def test_each_notebook_is_on_the_page_and_in_a_test() -> None:
    assert sorted(examples_page.NOTEBOOKS) == notebooks.names()
    tests = (ROOT / "tests" / "spark" / "test_notebooks.py").read_text(encoding="utf-8")
    assert [name for name in notebooks.names() if f'"{name}"' not in tests] == []


@pytest.mark.parametrize("name", examples_page.NOTEBOOKS)
def test_a_notebook_is_read_in_a_minute_and_kept_without_output(name: str) -> None:
    found = notebooks.cells(name)
    assert [cell for cell in found if cell.saved] == [], f"jupyter nbconvert --clear-output examples/{name}"
    assert sum(len(cell.text.splitlines()) for cell in found) <= 110
    assert found[0].kind == "markdown"
    assert found[0].text.startswith("# ")
