"""Read README's quick start: its commands with their output, and its script, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(
    r"(?:Save this as `(?P<name>[\w.]+)`:\n\n)?```(?P<kind>console|python)\n(?P<text>.*?)```", re.DOTALL
)


@dataclass(frozen=True)
class Step:
    """A command with the lines that it prints, or a file to write."""

    command: str
    prints: str = ""
    file_text: str | None = None


def quick_start() -> list[Step]:
    section = README.read_text().partition("## Quick start\n")[2].partition("\n## ")[0]
    steps: list[Step] = []
    for block in _BLOCK.finditer(section):
        if block["kind"] == "python":
            assert block["name"], "the script of the quick start has no file name"
            steps.append(Step(block["name"], file_text=block["text"]))
            continue
        for command in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            line, _, prints = command.partition("\n")
            steps.append(Step(line, prints))
    return steps


def pattern_of(prints: str) -> re.Pattern[str]:
    """Make a pattern from the output on the page. `...` stands for the rest of a line."""
    return re.compile(re.escape(prints).replace(r"\.\.\.", "[^\n]*"))
