"""Read the examples of docs/security.md: blocks of `.option(name, value)` under a title."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
_TITLE = re.compile(r"#+ (.+)|\*\*(.+?)\*\*")


def examples() -> dict[str, dict[str, str]]:
    """Return the options of each example, by the title above it."""
    found: dict[str, dict[str, str]] = {}
    title = ""
    block: list[str] | None = None
    for line in PAGE.read_text().splitlines():
        if line == "```" and block is not None:
            if block and block[0].startswith(".option("):
                assert title not in found, f"two examples under {title}"
                found[title] = _options("\n".join(block))
            block = None
        elif line.startswith("```"):
            block = []
        elif block is not None:
            block.append(line)
        elif named := _TITLE.match(line):
            title = named[1] or named[2]
    return found


def _options(text: str) -> dict[str, str]:
    """Return the names and values of a chain of calls. Python reads it; nothing of it is run."""
    found: dict[str, str] = {}
    call: ast.expr = ast.parse(f"(rows{text})", mode="eval").body
    while isinstance(call, ast.Call):
        assert isinstance(call.func, ast.Attribute)
        assert call.func.attr == "option"
        name, value = (ast.literal_eval(argument) for argument in call.args)
        assert name not in found
        found[name] = value
        call = call.func.value
    return found
