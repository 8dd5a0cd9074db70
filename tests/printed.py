"""The commands of penstock that a page prints, and a shell that runs them as printed. Runs in tests only.

Invariant: only names are changed: brokers, ports, files, folders, topics, prefixes, groups, ids and times.
`tests/unit/test_printed_commands.py` reads from the calls of `Here` and `section` which commands run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
PATIENCE_S = 300
_COMMAND = re.compile(r"(?:^|\| |=)(?:/\S*/)?penstock [a-z]")
_NAMES_A_CLUSTER = re.compile(r" -b | --bootstrap-server ")


def path_of(page: str) -> Path:
    return ROOT / page if page == "README.md" else DOCS / page


def blocks(text: str) -> list[list[str]]:
    """Return the lines of each block of code: continued lines joined, without a prompt, output or comment."""
    found: list[list[str]] = [[]]
    is_fenced = False
    for line in text.replace("\\\n", " ").splitlines():
        is_fence = line.lstrip().startswith("```")
        is_fenced ^= is_fence
        if is_fence or not (is_fenced or line.startswith("    ")):
            found.append([])
        elif line.strip():
            found[-1].append(line.strip())
    return [_without_output(lines) for lines in found if lines]


def _without_output(lines: list[str]) -> list[str]:
    prompts = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [" ".join(re.sub(r"\s+# .*", "", line).split()) for line in prompts or lines]


def commands(page: str) -> list[str]:
    """Return the lines of a page with a command of penstock, each once."""
    text = path_of(page).read_text(encoding="utf-8")
    return list(dict.fromkeys(line for block in blocks(text) for line in block if _COMMAND.search(line)))


def section(page: str, heading: str) -> list[str]:
    """Return all indented lines, and all lines behind a prompt, of a section. Its parts do not count."""
    parts = re.split(r"^#+ ", path_of(page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    [text] = [each for each in parts if each.startswith(f"{heading}\n")]
    shells = re.sub(r"^( *)```(?!console)\w+\n.*?\n\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks(shells) for line in block]


def one_of(page: str, beginning: str) -> str:
    """Return the command that begins so. There is only one."""
    found = [line for line in commands(page) if line.startswith(beginning)]
    assert len(found) == 1, f"{page} has {len(found)} commands that begin with {beginning!r}: {found}"
    return found[0]


class Here:
    """A shell in a folder of the test.

    Args:
        names: what stands for each name of the page.
        servers: of a command that names no cluster. The page means the development broker.
    """

    def __init__(self, folder: Path, names: Mapping[str, str], servers: str = "") -> None:
        self._folder, self._names, self._servers = folder, dict(names), servers

    def placed(self, text: str) -> str:
        """Return a text of a page with the names of the test. All change at once, and only as whole names."""
        ordered = sorted(self._names, key=len, reverse=True)
        assert not [name for name in ordered if name.startswith("-")], "an option is not a name"
        if not ordered:
            return text
        ends = "|".join(re.escape(name) + ("" if name.endswith("/") else r"(?![\w-])") for name in ordered)
        return re.sub(rf"(?<![\w-])(?:{ends})", lambda found: self._names[found[0]], text)

    def line(self, page: str, beginning: str) -> str:
        """Return a command as it runs here."""
        line = self.placed(one_of(page, beginning))
        if self._servers and not _NAMES_A_CLUSTER.search(line):
            line = f'penstock() {{ command penstock "$@" -b {self._servers}; }}; {line}'
        return line

    def run(self, page: str, beginning: str, more: str = "", *, status: int = 0) -> str:
        """Run a command, with `more` at its end if the page says so. Return its output."""
        return self.shell(f"{self.line(page, beginning)} {more}", status=status)

    def shell(self, line: str, *, status: int = 0) -> str:
        """Run a line, and return its output. The errors stand behind it."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self._folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == status, f"{line}\n{done.returncode}: {done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def start(self, page: str, beginning: str) -> subprocess.Popen[str]:
        """Start a command that runs until Ctrl-C."""
        return subprocess.Popen(
            [sys.executable, "-c", _BASH, "-c", f"exec {self.line(page, beginning)}"],
            cwd=self._folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


_BASH = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execvp('bash', ['bash', *sys.argv[1:]])"
)
"""Bash that Ctrl-C ends. A shell without a terminal lets its background processes ignore SIGINT, and all
processes below them."""


def environment() -> dict[str, str]:
    """Return the variables of a shell that finds this `penstock`, with wide lines."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "300"}
