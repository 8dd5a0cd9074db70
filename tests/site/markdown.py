"""Write GitHub's Markdown as Python-Markdown reads it, which builds the site.

Runs on a developer's machine and in CI. Invariant: code blocks keep their text, and other lines change
only in their indentation and in the blank lines around them.
"""

from __future__ import annotations

import re

_ITEM = re.compile(r"( *)((?:[-*]|\d+\.) +)\S")
_FENCE = re.compile(r" *(```+|~~~+)")
_STEP = 4
"""The columns by which Python-Markdown indents what belongs to an item of a list."""


def for_python_markdown(text: str) -> str:
    """Return a page with lists indented by four columns, and with a blank line before lists and tables."""
    made = _Made()
    for line in text.splitlines():
        made.add(line)
    return "\n".join(made.lines) + "\n"


class _Made:
    """The lines until now, and the items of lists that are open."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._columns: list[int] = []
        self._fence = ""

    def add(self, line: str) -> None:
        fence = _FENCE.match(line)
        if self._fence:
            self._append(line)
            if fence and line.strip() == self._fence:
                self._fence = ""
        elif not line.strip():
            self.lines.append("")
        else:
            self._add_text(line)
            if fence:
                self._fence = fence[1]

    def _add_text(self, line: str) -> None:
        indent = len(line) - len(line.lstrip())
        is_after_blank = not self.lines or not self.lines[-1]
        item = _ITEM.match(line)
        if item or is_after_blank or line.startswith(("#", "|", "```", "<")):
            while self._columns and indent < self._columns[-1]:
                self._columns.pop()
        if item:
            if not self._columns and not is_after_blank and not self._is_item(self.lines[-1]):
                self.lines.append("")
            self._append(line)
            self._columns.append(len(item[1]) + len(item[2]))
            return
        is_table = line.lstrip().startswith("|")
        if is_table and not is_after_blank and not self.lines[-1].lstrip().startswith("|"):
            self.lines.append("")
        self._append(_without_escaped_bars(line) if is_table else line)

    def _is_item(self, line: str) -> bool:
        return bool(self._columns) or _ITEM.match(line) is not None or line.startswith("    ")

    def _append(self, line: str) -> None:
        if not self._columns:
            self.lines.append(line)
            return
        item = _ITEM.match(line)
        cut = min(len(line) - len(line.lstrip()), self._columns[-1])
        rest = line[cut:]
        if item and not self._fence:
            rest = item[2].strip() + " " + line[item.end() - 1 :]
        self.lines.append(" " * _STEP * len(self._columns) + rest)


def _without_escaped_bars(row: str) -> str:
    """Return a row of a table whose code has plain bars: Python-Markdown would show the backslash."""
    return re.sub(r"`[^`]+`", lambda code: code[0].replace(r"\|", "|"), row)
