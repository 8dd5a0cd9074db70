"""docs/options.md says what the declarations say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.options.properties import PROPERTIES
from penstock.options.unknown import OPTIONS
from tests.options_page import render
from tests.waiting import PATIENCE_S

PAGE = Path(__file__).parents[3] / "docs" / "options.md"


def test_the_page_is_made_from_the_declarations() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "docs/options.md is out of date: run `make docs`"


def test_every_option_and_property_is_on_the_page() -> None:
    page = render()
    missing = [key for key in (*(option.key for option in OPTIONS), *PROPERTIES) if f"`{key}`" not in page]
    assert not missing


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    target = tmp_path / "options.md"
    subprocess.run([sys.executable, "-m", "tests.options_page", str(target)], check=True, timeout=PATIENCE_S)
    assert target.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
