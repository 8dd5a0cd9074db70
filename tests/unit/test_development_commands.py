"""Each `python -m benchmarks.…` and `python -m tests.…` that a page shows is one that its module takes.

The commands are only parsed, in one child process: each module runs until it has parsed its arguments. A text
may name a module without its arguments.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = re.compile(r"python -m ((?:benchmarks|tests)\b[^`\n#|)]*)")
PARSE = """
import argparse, io, json, runpy, sys, contextlib

class Parsed(Exception):
    "The module has parsed its arguments."

def stopping(parse):
    def parse_and_stop(self, args=None, namespace=None):
        parse(self, args, namespace)
        raise Parsed
    return parse_and_stop

for each in ("parse_args", "parse_intermixed_args"):
    setattr(argparse.ArgumentParser, each, stopping(getattr(argparse.ArgumentParser, each)))
refused = {}
for module, *arguments in json.load(sys.stdin):
    sys.argv, said = [module, *arguments], io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Parsed:
        continue
    except SystemExit as status:
        if not status.code:
            continue
    if arguments or "arguments are required" not in said.getvalue():
        refused[" ".join([module, *arguments])] = said.getvalue() or "It ended and parsed no arguments."
json.dump(refused, sys.stdout)
"""


def commands() -> list[list[str]]:
    """Return the commands of all pages, as words, each once."""
    pages = [page.read_text(encoding="utf-8").replace("\\\n", " ") for page in PAGES]
    texts = {found.removesuffix("-->") for page in pages for found in SHOWN.findall(page)}
    return [words for text in sorted(texts) if "…" not in (words := shlex.split(text))]


def file_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__main__.py"


def has_parser(module: str) -> bool:
    return "ArgumentParser(" in file_of(module).read_text(encoding="utf-8")


def refused(asked: list[list[str]]) -> dict[str, str]:
    """Return the commands that their modules refuse, with what they say."""
    command = [sys.executable, "-W", "ignore", "-c", PARSE]
    ended = subprocess.run(
        command, cwd=ROOT, input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


def test_each_module_is_there() -> None:
    assert {module for module, *_ in commands() if not file_of(module).is_file()} == set()


def test_each_module_takes_its_commands() -> None:
    asked = [words for words in commands() if has_parser(words[0])]
    assert len(asked) > 70
    assert refused(asked) == {}


def test_a_wrong_option_is_found() -> None:
    [(command, said)] = refused(
        [["benchmarks.nexmark", "q0"], ["benchmarks.nexmark", "--event", "x"]]
    ).items()
    assert command == "benchmarks.nexmark --event x"
    assert "invalid int value" in said
