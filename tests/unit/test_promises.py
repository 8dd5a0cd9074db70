"""docs/own-tests.md lists the tests that prove the promises in `make test`: those with the mark `promise`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "own-tests.md"
HEADING = "| promise | tests that prove it in `make test` |"
SUITES = ("kafka", "spark", "compat", "chaos", "package")
"""Those that `make promises` gives to pytest. `make test` runs unit and contract whole."""
MARK = "pytest.mark.promise"


def marked() -> Iterator[str]:
    for suite in SUITES:
        for file in sorted((TESTS / suite).rglob("test_*.py")):
            text = file.read_text(encoding="utf-8")
            if MARK not in text:
                continue
            found = [
                node.name
                for node in ast.parse(text).body
                if isinstance(node, ast.FunctionDef)
                and any(ast.unparse(decorator) == MARK for decorator in node.decorator_list)
            ]
            assert len(found) == text.count(MARK), f"{file}: the mark belongs on a test, alone in its line"
            yield from (f"{file.relative_to(TESTS)}: {name}" for name in found)


def listed() -> list[str]:
    """Return the tests of the table. A cell names a file, and then tests in it."""
    table = PAGE.read_text(encoding="utf-8").partition(f"{HEADING}\n")[2].partition("\n\n")[0]
    found, file = [], ""
    for row in table.splitlines()[1:]:
        for name in re.findall(r"`([^`]+)`", row.rpartition(" | ")[2]):
            if name.endswith(".py"):
                file = name
            else:
                found.append(f"{file}: {name}")
    return found


def test_the_table_has_each_test_with_the_mark_and_no_other() -> None:
    assert sorted(set(listed())) == sorted(marked())


def test_a_mark_elsewhere_would_have_no_effect() -> None:
    others = [path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in SUITES]
    assert [str(path) for path in others if path != Path(__file__) and MARK in path.read_text("utf-8")] == []


def test_each_suite_is_run_by_make_promises() -> None:
    [line] = re.findall(
        r"^\t.* -m promise (.*) \$\(PYTEST_ARGS\)", (TESTS.parent / "Makefile").read_text(), re.MULTILINE
    )
    assert line.split() == [f"tests/{suite}" for suite in SUITES]
