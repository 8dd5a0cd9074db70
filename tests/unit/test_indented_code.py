"""Code that is indented in a page is a command, an option, a file or a line of a log, and no program.

Programs stand in blocks of Python, which tests run. `test_commands_parse.py` parses the commands of penstock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.errors import OptionError
from penstock.options.parse import parse_read

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = re.compile(r"^(?:import|from|with|for|def|class|if) .*|^\w+(?:\.\w+)* = .*|^penstock\.[\w.]+\(.*")


def indented(text: str) -> Iterator[str]:
    """Yield the lines of a page that are indented as code. Those that go on an item of a list are not."""
    is_fenced, is_code, is_after_blank = False, False, True
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and line.strip():
            is_code = line.startswith("    ") and (is_code or is_after_blank)
            if is_code:
                yield line.strip()
        is_after_blank = not line.strip()


LINES = [(page.name, line) for page in PAGES for line in indented(page.read_text(encoding="utf-8"))]


def test_no_program_is_indented() -> None:
    assert len(LINES) > 30
    assert [(page, line) for page, line in LINES if PROGRAM.match(line)] == []


@pytest.mark.parametrize("line", ["import penstock", "rows = spark.range(3)", "penstock.progress(query)"])
def test_a_program_is_found(line: str) -> None:
    assert [each for each in indented(f"Run it:\n\n    {line}\n") if PROGRAM.match(each)]


def test_each_option_that_is_shown_alone_is_known() -> None:
    found = [
        (page, *option)
        for page, line in LINES
        for option in re.findall(r'\.option\("([^"]+)", "([^"]+)"\)', line)
    ]
    assert found
    needed = {"properties.bootstrap.servers": "localhost:9092", "topic": "orders"}
    for page, name, value in found:
        parse_read({**needed, name: value}, streaming=True)
        with pytest.raises(OptionError):
            parse_read({**needed, f"{name}s": value}, streaming=True)
        assert page


def test_each_module_of_a_command_is_there() -> None:
    found = {
        (page.name, module)
        for page in PAGES
        for module in re.findall(
            r"python3? -m ((?:tests|benchmarks|penstock)[\w.]*\w)", page.read_text(encoding="utf-8")
        )
    }
    assert len(found) > 30
    assert sorted(each for each in found if find_spec(each[1]) is None) == []
